// SPDX-License-Identifier: Apache-2.0
// Attention in tiles (baselines/cuda/attention/flash_attention3_plan.cuh). The tile of a request's
// last keys has rows of the next request too. These rows must not change the answer.
#include <cuda/attention/flash_attention3_plan.cuh>

#include <cmath>
#include <limits>

#include "test/catch.hpp"

namespace {

using namespace fkc;
using T = __nv_bfloat16;

constexpr int64_t kTokens = 6, kD = 64;  // of two requests, three each

struct Rows {
  alignas(16) T at[kTokens * kD];
  int64_t shape[3] = {kTokens, 1, kD}, strides[3] = {kD, kD, 1};
  fk_in view() const {
    fk_in v{};
    v.data = at;
    v.ndim = 3;
    v.dtype = {4, 16, 1};
    v.shape = const_cast<int64_t*>(shape);
    v.strides = const_cast<int64_t*>(strides);
    return v;
  }
};

TEST_CASE("infinities of the next request's values do not come to the one before") {
  Rows q, k, v, out;
  for (int64_t i = 0; i < kTokens * kD; ++i) {
    q.at[i] = k.at[i] = from_float<T>(0.125F);
    v.at[i] = from_float<T>(i < kTokens / 2 * kD ? 2.F : std::numeric_limits<float>::infinity());
  }
  const tiles::Heads heads(1, 1, kD);
  std::vector<char> blob(static_cast<size_t>(tiles::plan_bytes(kTokens, 2, heads)));
  fk_ctx ctx{};
  ctx.plan_bytes = tiles::plan(
      2, heads, 0, false,
      [](int64_t r) {
        return tiles::Request{3 * r, 3, 3, 3 * r};
      },
      blob.data());
  ctx.plan = blob.data();
  tiles::Arguments a{};
  a.out = out.at, a.out_token = kD, a.out_head = kD, a.scale = 1;
  const fk_in query = q.view(), keys = k.view(), values = v.view();
  tiles::attend<T>(a, heads, &query, &keys, &values, ctx);
  for (int64_t i = 0; i < kTokens / 2 * kD; ++i) CHECK(to_float(out.at[i]) == 2.F);
  for (int64_t i = kTokens / 2 * kD; i < kTokens * kD; ++i) CHECK(std::isinf(to_float(out.at[i])));
}

}  // namespace
