/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor views: DLPack's memory layout plus a byte size and flags; 64 bytes, frozen.
 *
 * A view never owns memory: outputs are written into views that the caller provides, and nothing has a
 * deleter. One layout has three C types, so that the compiler refuses to write an input:
 *   fk_in       device memory, read only
 *   fk_out      device memory, written (fk_inout is the same: in place is one field, not an alias)
 *   fk_host_in  host memory, only in plan()
 * An optional field has a type of its own, so that it cannot be used without the null test:
 *   if (args->residual.or_null) use(args->residual.or_null);
 *
 * Guaranteed by the host: shape and strides are non-null when ndim > 0; strides count elements; data is
 * null only if there are no elements (and always in the frames of supports() and prepare(), which show
 * shapes at their limits); byte_offset is 0; data is a multiple of fk_alignment(view) bytes, and of
 * FK_ALIGNMENT in the weights section; scratch, packed and persistent memory start at multiples of 256
 * bytes; fields without `layout: strided` in their contract are dense and row-major; strided ones have a
 * dense last axis. */
#ifndef FK_TENSOR_H
#define FK_TENSOR_H
#include "abi.h"

enum { FK_CPU = 1, FK_CUDA = 2 }; /* device_type, as in DLPack */

typedef struct fk_dtype {
  uint8_t code, bits; /* DLPack: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn ...; bits of
                       * one element */
  uint16_t lanes;     /* always 1 */
} fk_dtype;

/* Behind the data pointer, in DLTensor's order up to byte_offset. device_type is FK_CPU or FK_CUDA and
 * device_id its number (0 on the CPU); ndim counts axes. `shape` and `strides` point to ndim numbers each,
 * both in elements, and belong to who made the view. A view and all it points to live as long as the frame
 * that holds it (op.h). */
#define FK_VIEW_MEMBERS                                                                  \
  int32_t device_type, device_id, ndim;                                                  \
  fk_dtype dtype;                                                                        \
  const int64_t *shape, *strides;                                                        \
  uint64_t byte_offset;                                                                  \
  int64_t nbytes; /* from the first to one past the last byte that the view can reach */ \
  uint64_t flags; /* 0 */

typedef struct fk_in {
  const void *data; /* the first element */
  FK_VIEW_MEMBERS
} fk_in;
typedef struct fk_out {
  void *data;
  FK_VIEW_MEMBERS
} fk_out;
typedef struct fk_host_in {
  const void *host;
  FK_VIEW_MEMBERS
} fk_host_in;
typedef fk_out fk_inout; /* read, then written: holds the operand when the call begins */
FK_ASSERT(sizeof(fk_in) == 64 && sizeof(fk_out) == 64 && sizeof(fk_host_in) == 64, "views are frozen");
FK_ASSERT(offsetof(fk_in, ndim) == 16 && offsetof(fk_in, dtype) == 20, "DLTensor");
FK_ASSERT(offsetof(fk_in, shape) == 24 && offsetof(fk_in, strides) == 32, "DLTensor");
FK_ASSERT(offsetof(fk_in, byte_offset) == 40 && offsetof(fk_in, flags) == 56, "DLTensor and two more");

/* Optional fields: null where the caller has none, which is the same in all calls of an instance. */
typedef struct fk_opt_in {
  const fk_in *or_null;
} fk_opt_in;
typedef struct fk_opt_out {
  const fk_out *or_null;
} fk_opt_out;
typedef fk_opt_out fk_opt_inout;

/* Lists: n entries, at[i] a view of the same lifetime as the list; entries may differ in shape. */
typedef struct fk_in_list {
  int64_t n;
  const fk_in *const *at;
} fk_in_list;
typedef struct fk_out_list {
  int64_t n;
  const fk_out *const *at;
} fk_out_list;
typedef fk_out_list fk_inout_list;
typedef struct fk_opt_in_list {
  const fk_in_list *or_null;
} fk_opt_in_list;
typedef struct fk_opt_out_list {
  const fk_out_list *or_null;
} fk_opt_out_list;
typedef fk_opt_out_list fk_opt_inout_list;
/* n whole numbers, of an init slot: valid until destroy(). */
typedef struct fk_ints {
  int64_t n;
  const int64_t *at;
} fk_ints;

/* A frame is an array of slots of 8 bytes: a typed struct to the plugin, this to everybody else. */
typedef union fk_slot {
  int64_t i;     /* int, bool (0 or 1), enum, dtype (FK_F32 ...) */
  double f;      /* float */
  const void *p; /* a view, a list, fk_ints or fk_comm; null: an optional one that is absent */
} fk_slot;
FK_ASSERT(sizeof(fk_slot) == 8, "a slot is 8 bytes");

/* code | bits << 8, for `switch (FK_DTYPE(x))` and `==`. */
#define FK_F64 0x4002
#define FK_F32 0x2002
#define FK_F16 0x1002
#define FK_BF16 0x1004
#define FK_F8E4M3 0x080a
#define FK_F8E5M2 0x080c
#define FK_I64 0x4000
#define FK_I32 0x2000
#define FK_I8 0x0800
#define FK_U8 0x0801
#define FK_BOOL 0x0806
#define FK_DTYPE(view) ((int)((view)->dtype.code | (view)->dtype.bits << 8))

/* The same view, read only: the two structs have one layout. Lives as long as *view. [any thread] */
static inline const fk_in *fk_as_in(const fk_out *view) {
  return (const fk_in *)(const void *)view;
}
/* How many elements; 1 without axes. Reads shape, not data. [any thread] */
static inline int64_t fk_numel(const fk_in *view) {
  int64_t n = 1;
  for (int32_t i = 0; i < view->ndim; ++i) n *= view->shape[i];
  return n;
}

#define FK_ALIGNMENT 16 /* bytes */
/* The alignment in bytes of a view's data, which its strides promise: the largest power of two, FK_ALIGNMENT
 * at most, that divides the strides of all axes but the last. A view with one axis or none promises that of
 * an element. Both sides compute it from the same numbers, so supports() may rely on it as forward() may.
 * Who makes a view for a child keeps it. Reads strides, not data. [any thread] */
static inline int64_t fk_alignment(const fk_in *view) {
  const int64_t element = view->dtype.bits / 8;
  uint64_t all = FK_ALIGNMENT;
  if (view->ndim < 2) return element;
  for (int32_t i = 0; i + 1 < view->ndim; ++i) all |= (uint64_t)(view->strides[i] * element);
  return (int64_t)(all & (~all + 1)); /* its lowest bit */
}

/* A view over scratch that owns its dims, so that it may live on the stack: for frames of children. It may
 * not be copied or moved, because the view points into it, and has to live as long as the frame. */
typedef struct fk_temp {
  fk_out view;
  int64_t dims[8];
} fk_temp;
/* Makes a dense view of `rank` (1 to 4) axes over `data`, with device and dtype of `like`.
 * `shape` [rank] is copied, `data` is not owned. Returns &temp->view. [any thread] */
static inline fk_out *fk_temp_view(fk_temp *temp, const fk_in *like, void *data, int32_t rank,
                                   const int64_t *shape) {
  int64_t step = 1;
  temp->view.data = data;
  temp->view.device_type = like->device_type;
  temp->view.device_id = like->device_id;
  temp->view.ndim = rank;
  temp->view.dtype = like->dtype;
  for (int32_t i = rank - 1; i >= 0; --i) {
    temp->dims[i] = shape[i];
    temp->dims[4 + i] = step;
    step *= shape[i];
  }
  temp->view.shape = temp->dims;
  temp->view.strides = temp->dims + 4;
  temp->view.byte_offset = 0;
  temp->view.nbytes = step * like->dtype.bits / 8;
  temp->view.flags = 0;
  return &temp->view;
}
#endif
