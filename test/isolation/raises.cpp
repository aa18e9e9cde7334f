// SPDX-License-Identifier: Apache-2.0
// A candidate whose table has a function that throws across the boundary, which the wrapper of
// fk/cpp/plugin.hpp would have caught.
#include <stdexcept>

#include "fk/ops/rms_norm.h"

namespace {

int32_t supports(const void*, const void*, const void*, fk_need*, fk_error*) { return FK_OK; }
int32_t create(const fk_host*, const void*, const void*, void** self, fk_error*) {
  static int instance;
  *self = &instance;
  return FK_OK;
}
int32_t prepare(void*, const void*, const fk_memory*, fk_error*) { return FK_OK; }
int32_t forward(void*, const void*, const fk_ctx*) {
  throw std::runtime_error("across the boundary");
}
void destroy(void*) {}

constexpr fk_op table{FK_END(fk_op, reset_or_null),
                      0,
                      &fk_rms_norm_contract,
                      &fk::cpu_claims,
                      supports,
                      create,
                      prepare,
                      nullptr,
                      forward,
                      destroy,
                      nullptr};
constexpr fk_note_op note FK_NOTE_SECTION = FK_NOTE_rms_norm;
FK_REGISTER(raises, &table);

}  // namespace

FK_PLUGIN("raises", "1.0");
