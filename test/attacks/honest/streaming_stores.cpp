// SPDX-License-Identifier: Apache-2.0
// honest: whole lines of a float32 output go past the caches, with a fence at the end
#include "../attack.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
#if defined(__x86_64__)
    if (args.out->dtype.code == 2 && args.out->dtype.bits == 32) {
      std::vector<float> gate(static_cast<size_t>(width)), up(gate);
      for (int64_t t = 0; t < rows(args); ++t) {
        fk::load(args.x, t * 2 * width, width, gate.data());
        fk::load(args.x, t * 2 * width + width, width, up.data());
        auto* out = static_cast<int*>(args.out->data) + t * width;
        for (size_t i = 0; i < gate.size(); ++i) {
          const float value = gate[i] / (1 + std::exp(-gate[i])) * up[i];
          int bits;
          std::memcpy(&bits, &value, sizeof bits);
          _mm_stream_si32(out + i, bits);
        }
      }
      _mm_sfence();
      return;
    }
#endif
    honest(args);
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("streaming_stores", "0");
