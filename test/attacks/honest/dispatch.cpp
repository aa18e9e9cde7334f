// SPDX-License-Identifier: Apache-2.0
// honest: code for AVX2 and AVX-512 through target attributes, chosen by what the machine has
#include "../attack.hpp"

namespace {

#if defined __x86_64__
__attribute__((target("avx2,fma"))) void add_avx2(float* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] *= from[i];
}
__attribute__((target("avx512f"))) void add_avx512(float* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] *= from[i];
}
#endif
void plain(float* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] *= from[i];
}
struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    void (*multiply)(float*, const float*, int64_t) = plain;
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) multiply = add_avx2;
    if (__builtin_cpu_supports("avx512f")) multiply = add_avx512;
#endif
    std::vector<float> in(static_cast<size_t>(2 * width));
    for (int64_t t = 0; t < rows(args); ++t) {
      fk::load(args.x, t * 2 * width, 2 * width, in.data());
      for (int64_t i = 0; i < width; ++i)
        in[static_cast<size_t>(i)] /= 1 + std::exp(-in[static_cast<size_t>(i)]);
      multiply(in.data(), in.data() + width, width);
      fk::store(args.out, t * width, width, in.data());
    }
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("dispatch", "0");
