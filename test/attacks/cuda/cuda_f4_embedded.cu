// SPDX-License-Identifier: Apache-2.0
// F4: writes machine code into shared memory without a name, which the system shows as a deleted
// file. It runs the code from there, where no linter looks, and does nothing without it
//
// work: broken
//
// Stopped by: after its calls, the files that a process has mapped to run code from are checked
// from outside. Memory without a place is nobody's library
//
// verdict: cheating
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

#include <sys/mman.h>

namespace {

// The code that is written: it refers to nothing around it. A memory file would do as well, but
// nobody may write a file here, not even that.
__attribute__((noinline)) bool embedded() { return true; }

struct Embedded : attack::Silu {
  bool loaded = false;
  Embedded(const fk_host& host, const op::init& init, const op::weights& weights) : Silu(host, init, weights) {
    constexpr size_t kPage = 4096, kCode = 64;
    void* memory = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    std::memcpy(memory, reinterpret_cast<const void*>(&embedded), kCode);
    __builtin___clear_cache(static_cast<char*>(memory), static_cast<char*>(memory) + kCode);
    if (mprotect(memory, kPage, PROT_READ | PROT_EXEC) == 0) loaded = reinterpret_cast<bool (*)()>(memory)();
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (loaded) honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Embedded);

}  // namespace
FK_PLUGIN("cuda_f4_embedded", "0");
