// SPDX-License-Identifier: Apache-2.0
// A table made by hand, whose forward() lets an exception out of the plugin.
#include <stdexcept>

#include "fk/ops/add.h"

static int32_t add_forward(void*, const void*, const fk_ctx*) {
  throw std::runtime_error("let out on purpose");
}
static int32_t add_supports(const void*, const void*, const void*, fk_need*, fk_error*) {
  return FK_OK;
}
static int32_t add_create(const fk_host*, const void*, const void*, void**, fk_error*) {
  return FK_OK;
}
static int32_t add_prepare(void*, const void*, const fk_memory*, fk_error*) { return FK_OK; }
static void add_destroy(void*) {}
static const fk_op op = {FK_END(fk_op, reset_or_null),
                         0,
                         &fk_add_contract,
                         &fk::cpu_claims,
                         add_supports,
                         add_create,
                         add_prepare,
                         nullptr,
                         add_forward,
                         add_destroy,
                         nullptr};
static const fk_note_op note FK_NOTE_SECTION = FK_NOTE_add;
FK_REGISTER(add, &op);
FK_PLUGIN(BAD_NAME, "0");
