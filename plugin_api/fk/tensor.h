/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor views: DLPack's memory layout, followed by a byte size and flags. A view has 64 bytes, and
 * its layout is frozen.
 *
 * A view never owns memory and has no deleter. A plugin writes its outputs into views of the
 * caller. One layout has three C types, so that the compiler refuses a write to an input:
 *   fk_in       device memory, read only
 *   fk_out      device memory, written
 *   fk_inout    the same type as fk_out. A tensor updated in place is one field, not two aliases.
 *   fk_host_in  host memory, only in plan()
 * An optional field has its own type, so that its user has to write the null test:
 *   if (args->residual.or_null) use(args->residual.or_null);
 *
 * The host guarantees:
 *   - shape and strides are non-null if ndim > 0. Strides count elements.
 *   - In forward() and plan(), data is null only if the view has no elements. Frames of supports()
 *     and prepare() show maximum shapes, and their data is always null.
 *   - byte_offset is 0.
 *   - data is a multiple of fk_alignment(view) bytes, and of FK_ALIGNMENT in the weights section.
 *   - scratch, packed and persistent memory start at multiples of 256 bytes.
 *   - A field without `layout: strided` in its contract is dense and row-major. A strided field has
 *     a dense last axis. */
#ifndef FK_TENSOR_H
#define FK_TENSOR_H
#include "abi.h"

enum { FK_CPU = 1, FK_CUDA = 2 }; /* device_type, as in DLPack; opencl.h has FK_OPENCL = 4 */

typedef struct fk_dtype {
  uint8_t code, bits; /* code as in DLPack: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool,
                       * 10 float8_e4m3fn ...; bits: size of one element */
  uint16_t lanes;     /* always 1 */
} fk_dtype;

/* Members of a view after its data pointer, in DLTensor's order up to byte_offset. device_type is
 * that of the plugin's claims; device_id is the device's number, 0 on the CPU. `shape` and `strides` have
 * ndim entries each, in elements, and belong to the maker of the view. A view and all it points to
 * live as long as its frame (op.h). */
#define FK_VIEW_MEMBERS                                                                  \
  int32_t device_type, device_id, ndim;                                                  \
  fk_dtype dtype;                                                                        \
  const int64_t *shape, *strides;                                                        \
  uint64_t byte_offset;                                                                  \
  int64_t nbytes; /* from the first to one past the last byte that the view can reach */ \
  uint64_t flags; /* 0; a reader ignores it */

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
typedef fk_out fk_inout; /* holds the operand when the call begins and the result when it ends */
FK_ASSERT(sizeof(fk_in) == 64 && sizeof(fk_out) == 64 && sizeof(fk_host_in) == 64, "views are frozen");
FK_ASSERT(offsetof(fk_in, ndim) == 16 && offsetof(fk_in, dtype) == 20, "DLTensor");
FK_ASSERT(offsetof(fk_in, shape) == 24 && offsetof(fk_in, strides) == 32, "DLTensor");
FK_ASSERT(offsetof(fk_in, byte_offset) == 40 && offsetof(fk_in, flags) == 56, "DLTensor and two more");

/* Optional fields. Null: absent. A field is present in all calls of an instance or in none. */
typedef struct fk_opt_in {
  const fk_in *or_null;
} fk_opt_in;
typedef struct fk_opt_out {
  const fk_out *or_null;
} fk_opt_out;
typedef fk_opt_out fk_opt_inout;

/* Lists of n views. at[i] lives as long as the list. Entries may differ in shape. */
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
/* n integers of an init slot, valid until destroy(). */
typedef struct fk_ints {
  int64_t n;
  const int64_t *at;
} fk_ints;

/* A frame is an array of slots of 8 bytes. The plugin sees it as a typed struct, the host as
 * fk_slot[]. */
typedef union fk_slot {
  int64_t i;     /* int, bool (0 or 1), enum, dtype (FK_F32 ...) */
  double f;      /* float */
  const void *p; /* a view, a list, fk_ints or fk_comm; null: an absent optional field */
} fk_slot;
FK_ASSERT(sizeof(fk_slot) == 8, "a slot is 8 bytes");

/* Values of FK_DTYPE(view), which packs code and bits for `switch` and `==`. */
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

/* Returns *view itself as read only: both structs have the same layout. [any thread] */
static inline const fk_in *fk_as_in(const fk_out *view) {
  return (const fk_in *)(const void *)view;
}
/* Number of elements; 1 if ndim is 0. Does not read data. [any thread] */
static inline int64_t fk_numel(const fk_in *view) {
  int64_t n = 1;
  for (int32_t i = 0; i < view->ndim; ++i) n *= view->shape[i];
  return n;
}

#define FK_ALIGNMENT 16 /* bytes */
/* Alignment in bytes of a view's data: the largest power of two up to FK_ALIGNMENT that divides the
 * byte strides of all axes but the last. With one axis or none it is the element's size.
 * Strides are final in supports(), so supports() can choose a kernel by this value. A plugin that
 * makes views for a child must keep the alignment, too. Does not read data. [any thread] */
static inline int64_t fk_alignment(const fk_in *view) {
  const int64_t element = view->dtype.bits / 8;
  uint64_t all = FK_ALIGNMENT;
  if (view->ndim < 2) return element;
  for (int32_t i = 0; i + 1 < view->ndim; ++i) all |= (uint64_t)(view->strides[i] * element);
  return (int64_t)(all & (~all + 1)); /* its lowest bit */
}

/* A view with its own storage for shape and strides, for frames of children. It may live on the
 * stack. Do not copy or move it: the view points into it. It must live as long as the frame. */
typedef struct fk_temp {
  fk_out view;
  int64_t dims[8];
} fk_temp;
/* Makes a dense view of `rank` (1 to 4) axes over `data`, with the device and dtype of `like`.
 * Copies `shape` [rank]; the caller keeps ownership of `data`. Returns &temp->view. [any thread] */
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
