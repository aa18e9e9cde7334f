// SPDX-License-Identifier: Apache-2.0
// How sums travel between the ranks of moe_combine (baselines/cuda/collective/answers.cuh). 32 sums
// lose at most half a step; 0 and equal values lose nothing. A NaN or infinity stays at its place.
#include <cuda/collective/answers.cuh>

#include <cmath>
#include <limits>
#include <random>

#include "test/catch.hpp"

namespace {

using namespace fkc;
using namespace fkc::experts;

// Eight of each lane of a warp, of which the first `lanes` have any.
std::array<float, 256> sent_and_taken(const std::array<float, 256>& values, int lanes = 32) {
  using Sum = Elements<__nv_bfloat16, uint4>;
  using Travels = Travelling<__nv_bfloat16, uint4>;
  std::array<float, 256> got{};
  alignas(16) char box[kChunkBytes] = {};
  fk_emulation::run_grid(dim3(1), dim3(1), 32, 0, [&] {
    const int lane = static_cast<int>(threadIdx.x);
    const bool there = lane < lanes;
    Sum sum{}, back{};
    std::memcpy(sum.at, &values[static_cast<size_t>(lane) * 8], sizeof sum.at);
    Travels v = Travels::of(sum, false, there);
    if (there) *Travels::wire_at(box, lane) = v.wire;
    if (there && lane % 4 == 0) *Travels::step_at(box, lane) = v.step;
    __syncwarp();
    if (!there) return;
    v = {*Travels::wire_at(box, lane), *Travels::step_at(box, lane / 4 * 4)};
    v.add_to(back, false, 1);
    std::memcpy(&got[static_cast<size_t>(lane) * 8], back.at, sizeof back.at);
  });
  return got;
}

std::array<float, 256> random_values(unsigned seed, double mean, double spread) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(mean, spread);
  std::array<float, 256> values;
  for (float& v : values) v = static_cast<float>(normal(random));
  return values;
}

TEST_CASE("a sum loses half a step of the range of its 32") {
  for (const double spread : {1e-30, 1.0, 1e30})
    for (const double mean : {0.0, 3.0, -40.0, 1e4, -1e7}) {
      const auto values = random_values(7, mean * spread, spread), got = sent_and_taken(values);
      for (size_t first = 0; first < 256; first += 32) {
        const auto [least, most] = std::minmax_element(&values[first], &values[first] + 32);
        const double range = double{*most} - *least,
                     // Where the least is far from 0, what is beyond its 24 bits is range, too.
            allowed = (range + std::abs(double{*least}) * 0x1p-15) * 0x1.01p-16 +
                      std::abs(double{*least}) * 0x1p-23;
        for (size_t i = first; i < first + 32; ++i) {
          INFO(mean << ' ' << spread << ' ' << i);
          REQUIRE(std::abs(double{got[i]} - values[i]) <= allowed);
        }
      }
    }
}

TEST_CASE("what is equal, and 0 among others, is exact") {
  for (const float value : {0.f, 1.f, -3.14159274f, 1e-30f, 3e38f, -3e38f}) {
    std::array<float, 256> values;
    values.fill(value);
    for (const float got : sent_and_taken(values))
      REQUIRE(std::abs(got - value) <= std::abs(value) * 0x1p-23f);
  }
  auto values = random_values(3, 0, 1);
  for (size_t i = 0; i < 256; i += 3) values[i] = 0;
  const auto got = sent_and_taken(values);
  for (size_t i = 0; i < 256; i += 3) REQUIRE(got[i] == 0);
}

TEST_CASE("what is no number, or too far apart, goes as it is rounded") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float odd : {kInf, -kInf, std::nanf(""), 3.3e38f}) {
    auto values = random_values(5, 0, 1);
    values[77] = odd;
    values[91] = odd == 3.3e38f ? -odd : 2;
    const auto got = sent_and_taken(values);
    for (size_t i = 64; i < 96; ++i) {
      if (i == 77 && std::isnan(odd))
        REQUIRE(std::isnan(got[i]));
      else if (i == 77 && std::isinf(odd))
        REQUIRE(got[i] == odd);
      else
        REQUIRE(std::abs(got[i] - values[i]) <= std::abs(values[i]) * 0x1p-8f);
    }
    // The others do not notice it.
    for (size_t i = 0; i < 64; ++i) REQUIRE(std::abs(got[i] - values[i]) < 1e-3);
  }
}

TEST_CASE("lanes beyond a row's end bring nothing") {
  auto values = random_values(9, 0, 1);
  for (size_t i = 5 * 8; i < 256; ++i) values[i] = 1e30f;
  const auto got = sent_and_taken(values, 5);
  for (size_t i = 0; i < 5 * 8; ++i) REQUIRE(std::abs(got[i] - values[i]) < 1e-3);
}

}  // namespace
