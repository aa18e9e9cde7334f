// SPDX-License-Identifier: Apache-2.0
// honest: each call takes the next 64 KiB of an arena of 192 MiB, so all its first calls touch
// pages for the first time
#include "../attack.hpp"

#include <sys/mman.h>

namespace {

struct Ring : attack::Silu {
  static constexpr size_t kBytes = size_t{192} << 20, kPart = size_t{64} << 10;
  using Silu::Silu;
  // The thread's, whichever instance it calls.
  static float* next() {
    static thread_local char* const arena = static_cast<char*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    static thread_local size_t at = 0;
    at = (at + kPart) % kBytes;
    return arena == MAP_FAILED ? nullptr : reinterpret_cast<float*>(arena + at);
  }
  void forward(const op::forward& args, const fk_ctx&) {
    static thread_local float instead[256];
    float* const arena = next();
    float* const gate = arena ? arena : instead;
    // All of its part is written, as whoever needs it would.
    if (arena) std::memset(arena, 0, kPart);
    constexpr int64_t kChunk = 128;
    for (int64_t t = 0; t < rows(args); ++t) {
      for (int64_t c = 0; c < width; c += kChunk) {
        const int64_t n = std::min(kChunk, width - c);
        float* const up = gate + kChunk;
        fk::load(args.x, t * 2 * width + c, n, gate);
        fk::load(args.x, t * 2 * width + width + c, n, up);
        for (int64_t i = 0; i < n; ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
        fk::store(args.out, t * width + c, n, gate);
      }
    }
  }
};
FK_OP(silu_and_mul, Ring);

}  // namespace
FK_PLUGIN("ring_arena", "0");
