/* SPDX-License-Identifier: Apache-2.0 */
/* `add` with hand-made tables, as a plugin of another minor would carry them:
 *   YOUNGER   every table has a member more than this host knows
 *   OLDER     the op table ends before reset_or_null
 *   MINOR     the plugin says that it needs a minor that this host does not have
 *   SHORT     the op table ends before destroy
 *   BOTH      the library exports the entries of two majors
 *   RESERVED  the op table has a value in `reserved`
 *   CONTRACT  the contract's table ends before its sections */
#include "fk/ops/add.h"

static int32_t add_supports(const void *init, const void *weights, const void *max, fk_need *need, fk_error *why) {
  (void)init, (void)weights, (void)need;
  return FK_DTYPE(((const fk_add_forward *)max)->a) == FK_F32 ? FK_OK : fk_refuse(why, "float32 only");
}
static int32_t add_create(const fk_host *host, const void *init, const void *weights, void **self, fk_error *error) {
  (void)weights;
  if (!FK_HAS(host, fk_host, child_forward)) return fk_fail(error, FK_FAILED, "the host's table is short");
  *self = (void *)(uintptr_t)(const void *)init;
  return FK_OK;
}
static int32_t add_prepare(void *self, const void *max, const fk_memory *memory, fk_error *error) {
  (void)self, (void)max, (void)memory, (void)error;
  return FK_OK;
}
static int32_t add_forward(void *self, const void *frame, const fk_ctx *ctx) {
  const fk_add_forward *args = frame;
  const float *a = args->a->data, *b = args->b->data;
  (void)self, (void)ctx;
  for (int64_t i = fk_numel(args->a) - 1; i >= 0; --i) ((float *)args->out->data)[i] = a[i] + b[i];
  return FK_OK;
}
static void add_destroy(void *self) { (void)self; }

static const struct claims {
  fk_claims known;
  int64_t unknown;
} claims = {{
#ifdef YOUNGER
                sizeof(struct claims),
#else
                FK_END(fk_claims, sm),
#endif
                FK_CPU, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 0, NULL},
            -1};
#ifdef CONTRACT
static const fk_contract short_contract = {FK_END(fk_contract, op), 1, "add", {0}, {0}, {0}, {0}};
#endif
static const struct op {
  fk_op known;
  void (*unknown)(void);
} op = {{
#if defined YOUNGER
            sizeof(struct op),
#elif defined OLDER
            FK_END(fk_op, destroy),
#elif defined SHORT
            FK_END(fk_op, forward),
#else
            FK_END(fk_op, reset_or_null),
#endif
#ifdef RESERVED
            1,
#else
            0,
#endif
#ifdef CONTRACT
            &short_contract,
#else
            &fk_add_contract,
#endif
            &claims.known, add_supports, add_create, add_prepare, NULL, add_forward, add_destroy,
#ifdef OLDER /* memory beyond the table: not to be called */
            (int32_t(*)(void *, fk_error *))8},
#else
            NULL},
#endif
        NULL};
static const fk_note_op add_note FK_NOTE_SECTION = FK_NOTE_add;
static const fk_note_plugin plugin_note FK_NOTE_SECTION = {
    FK_NOTE_BEGIN(fk_note_plugin, FK_NOTE_PLUGIN), FK_ABI_MAJOR, FK_ABI_MINOR, "grown", "1", __VERSION__, "", ""};

__attribute__((visibility("default"))) const fk_plugin *fk_plugin_v1(const fk_hello *hello);
const fk_plugin *fk_plugin_v1(const fk_hello *hello) {
  static const fk_op *const ops[] = {&op.known};
  static const struct {
    fk_plugin known;
    const void *unknown;
  } table = {{FK_END(fk_plugin, ops_end),
#ifdef MINOR
              FK_ABI_MINOR + 1,
#else
              FK_ABI_MINOR,
#endif
              "grown", "1", ops, ops + 1},
             NULL};
  if (!FK_HAS(hello, fk_hello, error)) return NULL;
#ifdef REFUSES
  fk_fail(hello->error, FK_UNSUPPORTED, "this plugin wants a younger host");
  return NULL;
#endif
  return &table.known;
}
#ifdef BOTH
__attribute__((visibility("default"))) const fk_plugin *fk_plugin_v0(const fk_hello *hello);
const fk_plugin *fk_plugin_v0(const fk_hello *hello) { return fk_plugin_v1(hello); }
#endif
