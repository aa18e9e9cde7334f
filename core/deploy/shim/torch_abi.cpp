// SPDX-License-Identifier: Apache-2.0
#include "core/deploy/shim/torch_abi.hpp"

#include <dlfcn.h>

#include "core/base/error.hpp"

namespace fk::shim {
namespace {

Torch functions;

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

template <class Function>
void require(void* library, const char* name, Function*& function, const char* hint) {
  find(library, name, function);
  if (!function) fail("torch", std::string("it lacks the function ") + name, hint);
}

void* loaded(const char* name, const char* hint) {
  void* const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) fail("torch", std::string(name) + " is not loaded", hint);
  return library;
}

}  // namespace

void find_torch(bool cuda) {
  const char* const old = "torch 2.10 or later is needed";
  void* const cpu = loaded("libtorch_cpu.so", "import torch before this package");
#define FK_REQUIRE(result, name, arguments) require(cpu, #name, functions.name, old);
#define FK_FIND(result, name, arguments) find(cpu, #name, functions.name);
  FK_TORCH_FUNCTIONS(FK_REQUIRE)
  FK_TORCH_LATER(FK_FIND)
#undef FK_REQUIRE
#undef FK_FIND
  if (!cuda) return;
  const char* const other = "this plugin needs a torch with CUDA";
  void* const gpu = loaded("libtorch_cuda.so", other);
#define FK_REQUIRE(result, name, arguments) require(gpu, #name, functions.name, other);
  FK_CUDA_FUNCTIONS(FK_REQUIRE)
#undef FK_REQUIRE
}

const Torch& torch() { return functions; }

void need(int32_t status, const char* what) {
  if (status != 0)
    fail("torch", std::string(what) + " failed with status " + std::to_string(status));
}

TensorHandle TensorHandle::copy() const {
  Handle out = nullptr;
  need(torch().aoti_torch_new_tensor_handle(handle_, &out), "a new reference to a tensor");
  return TensorHandle(out);
}

}  // namespace fk::shim
