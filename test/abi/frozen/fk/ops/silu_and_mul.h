/* SPDX-License-Identifier: Apache-2.0 */
/* silu_and_mul, revision 1, level 1: out = silu(x[:, :F]) * x[:, F:]
 * Mirrors vllm.model_executor.layers.activation.SiluAndMul.
 * Axes: T tokens, F hidden width.
 * Generated from the contract; do not edit. */
#ifndef FK_OPS_SILU_AND_MUL_H
#define FK_OPS_SILU_AND_MUL_H
#include "fk/plugin.h"
#ifdef __cplusplus
#include "fk/cpp/plugin.hpp"
#endif

#ifndef FK_SILU_AND_MUL_EDITION
#define FK_SILU_AND_MUL_EDITION 1
#endif
typedef struct fk_silu_and_mul_init {
  int64_t size;                    /* axis F */
} fk_silu_and_mul_init;
typedef struct fk_silu_and_mul_weights fk_silu_and_mul_weights; /* no slots in this revision */
typedef struct fk_silu_and_mul_forward {
  const fk_in *x;                  /* [T, 2*F] f32|bf16|f16; gate, then up */
  const fk_out *out;               /* [T, F] dtype of x */
} fk_silu_and_mul_forward;
typedef struct fk_silu_and_mul_plan fk_silu_and_mul_plan; /* no slots in this revision */
/* The axes that can be read off forward's required tensors. */
typedef struct fk_silu_and_mul_axes {
  int64_t T, F;
} fk_silu_and_mul_axes;
static inline fk_silu_and_mul_axes fk_silu_and_mul_axes_of(const fk_silu_and_mul_forward *args) {
  fk_silu_and_mul_axes axes = {args->x->shape[0], args->out->shape[1]};
  return axes;
}
/* For frames of children: every init slot at its default, 0 where it has none. */
#define FK_SILU_AND_MUL_INIT {0}
/* ---- contract identity ---- */
static const uint64_t fk_silu_and_mul_init_prefix[] = {0x8f45ea7e4e12d1cau, 0x2ad7c1de2e4a53feu};
static const char *const fk_silu_and_mul_init_lines[] = {
    "init.size int axis=F |"};
FK_ASSERT(sizeof(fk_silu_and_mul_init) == 8 * (1), "every field is one slot");
static const uint64_t fk_silu_and_mul_weights_prefix[] = {0x2dc7c332cb7d2effu};
static const uint64_t fk_silu_and_mul_forward_prefix[] = {0xdb5b6e6a090635ebu, 0x17b926848688aa54u, 0x1ce4a04384359f2eu};
static const char *const fk_silu_and_mul_forward_lines[] = {
    "forward.x tensor in shape=[T,2*F] | dtype=f32,bf16,f16",
    "forward.out tensor out shape=[T,F] | dtype=x"};
FK_ASSERT(sizeof(fk_silu_and_mul_forward) == 8 * (2), "every field is one slot");
static const uint64_t fk_silu_and_mul_plan_prefix[] = {0xa52153d78448523du};
static const fk_contract fk_silu_and_mul_contract = {FK_END(fk_contract, plan), 1, "silu_and_mul",
  {1, 1, fk_silu_and_mul_init_prefix, fk_silu_and_mul_init_lines},
  {0, 0, fk_silu_and_mul_weights_prefix, NULL},
  {2, 2, fk_silu_and_mul_forward_prefix, fk_silu_and_mul_forward_lines},
  {0, 0, fk_silu_and_mul_plan_prefix, NULL}};
#define FK_NOTE_silu_and_mul {FK_NOTE_BEGIN(fk_note_op, FK_NOTE_OP), "silu_and_mul", 1, {1, 0, 2, 0}, {{0x2e4a53feu, 0x2ad7c1deu}, {0xcb7d2effu, 0x2dc7c332u}, {0x84359f2eu, 0x1ce4a043u}, {0x8448523du, 0xa52153d7u}}}
#ifndef __cplusplus
/* At file scope: declares NAME_supports ... NAME_destroy, which you define with these very types;
   `struct NAME { ... }` is yours. */
#define FK_SILU_AND_MUL_OP(NAME, CLAIMS) \
  typedef struct NAME NAME; \
  static int32_t NAME##_supports(const fk_silu_and_mul_init *, const fk_silu_and_mul_weights *, const fk_silu_and_mul_forward *, fk_need *, fk_error *); \
  static int32_t NAME##_create(const fk_host *, const fk_silu_and_mul_init *, const fk_silu_and_mul_weights *, NAME **, fk_error *); \
  static int32_t NAME##_prepare(NAME *, const fk_silu_and_mul_forward *, const fk_memory *, fk_error *); \
  static int32_t NAME##_forward(NAME *, const fk_silu_and_mul_forward *, const fk_ctx *); \
  static void NAME##_destroy(NAME *); \
  static int32_t NAME##_supports_(const void *i, const void *w, const void *m, fk_need *n, fk_error *e) { return NAME##_supports((const fk_silu_and_mul_init *)i, (const fk_silu_and_mul_weights *)w, (const fk_silu_and_mul_forward *)m, n, e); } \
  static int32_t NAME##_create_(const fk_host *h, const void *i, const void *w, void **s, fk_error *e) { NAME *made = NULL; int32_t status = NAME##_create(h, (const fk_silu_and_mul_init *)i, (const fk_silu_and_mul_weights *)w, &made, e); *s = made; return status; } \
  static int32_t NAME##_prepare_(void *self, const void *m, const fk_memory *y, fk_error *e) { return NAME##_prepare((NAME *)self, (const fk_silu_and_mul_forward *)m, y, e); } \
  static int32_t NAME##_forward_(void *self, const void *a, const fk_ctx *x) { return NAME##_forward((NAME *)self, (const fk_silu_and_mul_forward *)a, x); } \
  static void NAME##_destroy_(void *self) { NAME##_destroy((NAME *)self); } \
  static const fk_op NAME##_op = {FK_END(fk_op, reset_or_null), 0, &fk_silu_and_mul_contract, CLAIMS, NAME##_supports_, NAME##_create_, NAME##_prepare_, NULL, NAME##_forward_, NAME##_destroy_, NULL}; \
  static const fk_note_op NAME##_note FK_NOTE_SECTION = FK_NOTE_silu_and_mul; \
  FK_REGISTER(NAME, &NAME##_op)
#else
namespace fk {
struct silu_and_mul {
  using init = fk_silu_and_mul_init;
  using weights = fk_silu_and_mul_weights;
  using forward = fk_silu_and_mul_forward;
  using plan = fk_silu_and_mul_plan;
  static constexpr const fk_contract *contract() { return &fk_silu_and_mul_contract; }
};
} /* namespace fk */
#endif
#endif
