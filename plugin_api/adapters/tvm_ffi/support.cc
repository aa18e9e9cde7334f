// SPDX-License-Identifier: Apache-2.0
// The part of launcher.hpp that needs the headers of tvm-ffi.
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <string>

static_assert(sizeof(TVMFFIAny) == 16 && offsetof(TVMFFIAny, v_int64) == 8, "launcher.hpp: Any");
static_assert(kTVMFFINone == 0 && kTVMFFIInt == 1 && kTVMFFIFloat == 3 && kTVMFFIDLTensorPtr == 7,
              "");
static_assert(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 &&
                  offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, byte_offset) == 40,
              "fk/tensor.h");

extern "C" __attribute__((visibility("hidden"))) const char* fk_tvm_ffi_message() {
  thread_local std::string text;
  text = tvm::ffi::details::MoveFromSafeCallRaised().message();
  return text.c_str();
}

extern "C" __attribute__((visibility("hidden"))) void fk_tvm_ffi_stream(int32_t type, int32_t id,
                                                                        void* stream) {
  TVMFFIStreamHandle before = nullptr;
  TVMFFIEnvSetStream(type, id, stream, &before);
}
