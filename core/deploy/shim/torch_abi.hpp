// SPDX-License-Identifier: Apache-2.0
// The stable C ABI of torch, and the functions of the CUDA runtime that torch has loaded. All of
// them are found by name when the shim loads. So the shim builds without torch, and one binary
// serves every torch from kOldestTorch on.
#pragma once
#include <cstdint>
#include <string>

namespace fk::shim {

// An argument or a result of a boxed kernel: a number, or a pointer to an object of torch.
using Value = uint64_t;
using Handle = void*;  // a tensor, a list, a text or a library of torch

inline constexpr uint64_t kOldestTorch = (2ULL << 56) | (10ULL << 48);

// Each function returns 0, or another value after a failure, unless it returns a type number.
#define FK_TORCH_FUNCTIONS(F)                                                                 \
  F(int32_t, aoti_torch_library_init_fragment, (const char*, const char*, uint32_t, Handle*)) \
  F(int32_t, aoti_torch_library_init_impl,                                                    \
    (const char*, const char*, const char*, uint32_t, Handle*))                               \
  F(int32_t, aoti_torch_library_def, (Handle, const char*))                                   \
  F(int32_t, torch_library_impl,                                                              \
    (Handle, const char*, void (*)(Value*, uint64_t, uint64_t), uint64_t))                    \
  F(int32_t, aoti_torch_get_data_ptr, (Handle, void**))                                       \
  F(int32_t, aoti_torch_is_defined, (Handle, bool*))                                          \
  F(int32_t, aoti_torch_get_dim, (Handle, int64_t*))                                          \
  F(int32_t, aoti_torch_get_sizes, (Handle, int64_t**))                                       \
  F(int32_t, aoti_torch_get_strides, (Handle, int64_t**))                                     \
  F(int32_t, aoti_torch_get_dtype, (Handle, int32_t*))                                        \
  F(int32_t, aoti_torch_get_device_type, (Handle, int32_t*))                                  \
  F(int32_t, aoti_torch_get_device_index, (Handle, int32_t*))                                 \
  F(int32_t, aoti_torch_new_tensor_handle, (Handle, Handle*))                                 \
  F(int32_t, aoti_torch_delete_tensor_object, (Handle))                                       \
  F(int32_t, aoti_torch_empty_strided,                                                        \
    (int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, Handle*))            \
  F(int32_t, torch_list_size, (Handle, size_t*))                                              \
  F(int32_t, torch_list_get_item, (Handle, size_t, Value*))                                   \
  F(int32_t, torch_delete_list, (Handle))                                                     \
  F(int32_t, torch_string_length, (Handle, size_t*))                                          \
  F(int32_t, torch_string_c_str, (Handle, const char**))                                      \
  F(int32_t, torch_delete_string, (Handle))                                                   \
  F(int32_t, torch_get_num_threads, (uint32_t*))                                              \
  F(int32_t, aoti_torch_device_type_cpu, ())                                                  \
  F(int32_t, aoti_torch_device_type_cuda, ())                                                 \
  F(int32_t, aoti_torch_dtype_float64, ())                                                    \
  F(int32_t, aoti_torch_dtype_float32, ())                                                    \
  F(int32_t, aoti_torch_dtype_float16, ())                                                    \
  F(int32_t, aoti_torch_dtype_bfloat16, ())                                                   \
  F(int32_t, aoti_torch_dtype_float8_e4m3fn, ())                                              \
  F(int32_t, aoti_torch_dtype_float8_e5m2, ())                                                \
  F(int32_t, aoti_torch_dtype_int64, ())                                                      \
  F(int32_t, aoti_torch_dtype_int32, ())                                                      \
  F(int32_t, aoti_torch_dtype_int8, ())                                                       \
  F(int32_t, aoti_torch_dtype_uint8, ())                                                      \
  F(int32_t, aoti_torch_dtype_bool, ())
// Null in an older torch: tags of ops. Without tags, inductor keeps the strides of all arguments.
#define FK_TORCH_LATER(F)                                                                 \
  F(int32_t, torch_library_def_with_tags, (Handle, const char*, const int32_t*, int32_t)) \
  F(int32_t, torch_tag_needs_exact_strides, ())                                           \
  F(int32_t, torch_tag_pt2_compliant_tag, ())
// Found beside libtorch_cuda.so, for plugins of a GPU alone.
#define FK_CUDA_FUNCTIONS(F)                                        \
  F(int32_t, aoti_torch_get_current_cuda_stream, (int32_t, void**)) \
  F(int32_t, cudaStreamIsCapturing, (void*, int32_t*))              \
  F(int32_t, cudaStreamSynchronize, (void*))                        \
  F(int32_t, cudaDeviceSynchronize, ())                             \
  F(int32_t, cudaGetDevice, (int32_t*))                             \
  F(int32_t, cudaSetDevice, (int32_t))                              \
  F(int32_t, cudaMalloc, (void**, size_t))                          \
  F(int32_t, cudaFree, (void*))                                     \
  F(int32_t, cudaMemset, (void*, int32_t, size_t))                  \
  F(int32_t, cudaMemcpyAsync, (void*, const void*, size_t, int32_t, void*))

struct Torch {
#define FK_MEMBER(result, name, arguments) result(*name) arguments = nullptr;
  FK_TORCH_FUNCTIONS(FK_MEMBER)
  FK_TORCH_LATER(FK_MEMBER)
  FK_CUDA_FUNCTIONS(FK_MEMBER)
#undef FK_MEMBER
};

// Finds the functions; the CUDA part if `cuda`. Error when this torch lacks one. [once, before
// torch()]
void find_torch(bool cuda);
const Torch& torch();

// Throws Error with `what` for a status other than 0.
void need(int32_t status, const char* what);

// A tensor; owns one reference.
class TensorHandle {
 public:
  TensorHandle() = default;
  explicit TensorHandle(Handle handle) : handle_(handle) {}
  TensorHandle(TensorHandle&& other) noexcept : handle_(other.release()) {}
  TensorHandle& operator=(TensorHandle&& other) noexcept {
    if (this != &other) {
      clear();
      handle_ = other.release();
    }
    return *this;
  }
  ~TensorHandle() { clear(); }

  Handle get() const { return handle_; }
  Handle release() {
    Handle out = handle_;
    handle_ = nullptr;
    return out;
  }
  TensorHandle copy() const;

 private:
  void clear() {
    if (handle_) torch().aoti_torch_delete_tensor_object(handle_);
    handle_ = nullptr;
  }
  Handle handle_ = nullptr;
};

}  // namespace fk::shim
