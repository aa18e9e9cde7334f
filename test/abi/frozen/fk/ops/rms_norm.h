/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm, revision 1, level 1: out = x / sqrt(mean(x^2) + eps) * weight; with a residual, x + residual comes first and is written back
 * Mirrors vllm.model_executor.layers.layernorm.RMSNorm.
 * Axes: T tokens, C channels.
 * Generated from the contract; do not edit. */
#ifndef FK_OPS_RMS_NORM_H
#define FK_OPS_RMS_NORM_H
#include "fk/plugin.h"
#ifdef __cplusplus
#include "fk/cpp/plugin.hpp"
#endif

#ifndef FK_RMS_NORM_EDITION
#define FK_RMS_NORM_EDITION 1
#endif
typedef struct fk_rms_norm_init {
  int64_t hidden_size;             /* axis C */
  double eps;                      /* default 1e-06 */
} fk_rms_norm_init;
typedef struct fk_rms_norm_weights {
  fk_opt_in weight;                /* [C] f32|bf16|f16 */
} fk_rms_norm_weights;
typedef struct fk_rms_norm_forward {
  const fk_in *x;                  /* [T, C] f32|bf16|f16 */
  fk_opt_inout residual;           /* [T, C] dtype of x; becomes x + residual, which is what is normalised */
  const fk_out *out;               /* [T, C] dtype of x */
} fk_rms_norm_forward;
typedef struct fk_rms_norm_plan fk_rms_norm_plan; /* no slots in this revision */
/* The axes that can be read off forward's required tensors. */
typedef struct fk_rms_norm_axes {
  int64_t T, C;
} fk_rms_norm_axes;
static inline fk_rms_norm_axes fk_rms_norm_axes_of(const fk_rms_norm_forward *args) {
  fk_rms_norm_axes axes = {args->x->shape[0], args->x->shape[1]};
  return axes;
}
/* For frames of children: every init slot at its default, 0 where it has none. */
#define FK_RMS_NORM_INIT {0, 9.9999999999999995e-07}
/* ---- contract identity ---- */
static const uint64_t fk_rms_norm_init_prefix[] = {0x26c9858028e0969bu, 0xe02a88db3df09c63u, 0xafdd08755ffcad04u};
static const char *const fk_rms_norm_init_lines[] = {
    "init.hidden_size int axis=C |",
    "init.eps float opt | default=9.9999999999999995e-07"};
FK_ASSERT(sizeof(fk_rms_norm_init) == 8 * (2), "every field is one slot");
static const uint64_t fk_rms_norm_weights_prefix[] = {0x0d0e69212fc36c9cu, 0x6636a8efd78fc679u};
static const char *const fk_rms_norm_weights_lines[] = {
    "weights.weight tensor in shape=[C] opt | dtype=f32,bf16,f16"};
FK_ASSERT(sizeof(fk_rms_norm_weights) == 8 * (1), "every field is one slot");
static const uint64_t fk_rms_norm_forward_prefix[] = {0x73032f158bf707f0u, 0x8db76e36e18259d4u, 0x89efb95b6a80c6acu, 0x8cd006e35e638d21u};
static const char *const fk_rms_norm_forward_lines[] = {
    "forward.x tensor in shape=[T,C] | dtype=f32,bf16,f16",
    "forward.residual tensor inout shape=[T,C] opt | dtype=x",
    "forward.out tensor out shape=[T,C] | dtype=x"};
FK_ASSERT(sizeof(fk_rms_norm_forward) == 8 * (3), "every field is one slot");
static const uint64_t fk_rms_norm_plan_prefix[] = {0x1039b339d4f1efc8u};
static const fk_contract fk_rms_norm_contract = {FK_END(fk_contract, plan), 1, "rms_norm",
  {2, 1, fk_rms_norm_init_prefix, fk_rms_norm_init_lines},
  {1, 0, fk_rms_norm_weights_prefix, fk_rms_norm_weights_lines},
  {3, 3, fk_rms_norm_forward_prefix, fk_rms_norm_forward_lines},
  {0, 0, fk_rms_norm_plan_prefix, NULL}};
#define FK_NOTE_rms_norm {FK_NOTE_BEGIN(fk_note_op, FK_NOTE_OP), "rms_norm", 1, {2, 1, 3, 0}, {{0x5ffcad04u, 0xafdd0875u}, {0xd78fc679u, 0x6636a8efu}, {0x5e638d21u, 0x8cd006e3u}, {0xd4f1efc8u, 0x1039b339u}}}
#ifndef __cplusplus
/* At file scope: declares NAME_supports ... NAME_destroy, which you define with these very types;
   `struct NAME { ... }` is yours. */
#define FK_RMS_NORM_OP(NAME, CLAIMS) \
  typedef struct NAME NAME; \
  static int32_t NAME##_supports(const fk_rms_norm_init *, const fk_rms_norm_weights *, const fk_rms_norm_forward *, fk_need *, fk_error *); \
  static int32_t NAME##_create(const fk_host *, const fk_rms_norm_init *, const fk_rms_norm_weights *, NAME **, fk_error *); \
  static int32_t NAME##_prepare(NAME *, const fk_rms_norm_forward *, const fk_memory *, fk_error *); \
  static int32_t NAME##_forward(NAME *, const fk_rms_norm_forward *, const fk_ctx *); \
  static void NAME##_destroy(NAME *); \
  static int32_t NAME##_supports_(const void *i, const void *w, const void *m, fk_need *n, fk_error *e) { return NAME##_supports((const fk_rms_norm_init *)i, (const fk_rms_norm_weights *)w, (const fk_rms_norm_forward *)m, n, e); } \
  static int32_t NAME##_create_(const fk_host *h, const void *i, const void *w, void **s, fk_error *e) { NAME *made = NULL; int32_t status = NAME##_create(h, (const fk_rms_norm_init *)i, (const fk_rms_norm_weights *)w, &made, e); *s = made; return status; } \
  static int32_t NAME##_prepare_(void *self, const void *m, const fk_memory *y, fk_error *e) { return NAME##_prepare((NAME *)self, (const fk_rms_norm_forward *)m, y, e); } \
  static int32_t NAME##_forward_(void *self, const void *a, const fk_ctx *x) { return NAME##_forward((NAME *)self, (const fk_rms_norm_forward *)a, x); } \
  static void NAME##_destroy_(void *self) { NAME##_destroy((NAME *)self); } \
  static const fk_op NAME##_op = {FK_END(fk_op, reset_or_null), 0, &fk_rms_norm_contract, CLAIMS, NAME##_supports_, NAME##_create_, NAME##_prepare_, NULL, NAME##_forward_, NAME##_destroy_, NULL}; \
  static const fk_note_op NAME##_note FK_NOTE_SECTION = FK_NOTE_rms_norm; \
  FK_REGISTER(NAME, &NAME##_op)
#else
namespace fk {
struct rms_norm {
  using init = fk_rms_norm_init;
  using weights = fk_rms_norm_weights;
  using forward = fk_rms_norm_forward;
  using plan = fk_rms_norm_plan;
  static constexpr const fk_contract *contract() { return &fk_rms_norm_contract; }
};
} /* namespace fk */
#endif
#endif
