// SPDX-License-Identifier: Apache-2.0
// If this fails, fk/cpp/floats.hpp, which converts in plugins, disagrees with the host's own
// conversions. The test tries every value of both 16-bit types. It also tries floats at, beside and
// between the values to which they round.
#include "fk/cpp/floats.hpp"

#include <bit>
#include <cmath>

#include "core/tensor/dtype.hpp"
#include "test/catch.hpp"

namespace {

uint16_t host_bits(float value, fk::DType type) {
  uint16_t out = 0;
  fk::convert(&value, fk::DType::f32, &out, type, 1);
  return out;
}

void compare(float value) {
  if (std::isnan(value)) {
    CHECK(std::isnan(fk::from_f16(fk::to_f16(value))));
    CHECK(std::isnan(fk::from_bf16(fk::to_bf16(value))));
    return;
  }
  INFO(value);
  if (fk::to_f16(value) != host_bits(value, fk::DType::f16))
    CHECK(fk::to_f16(value) == host_bits(value, fk::DType::f16));
  if (fk::to_bf16(value) != host_bits(value, fk::DType::bf16))
    CHECK(fk::to_bf16(value) == host_bits(value, fk::DType::bf16));
}

}  // namespace

TEST_CASE("floats_halves_convert_like_the_host") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    float wide = 0;
    fk::convert(&half, fk::DType::f16, &wide, fk::DType::f32, 1);
    const float mine = fk::from_f16(half);
    if (std::isnan(wide))
      CHECK(std::isnan(mine));
    else if (std::bit_cast<uint32_t>(wide) != std::bit_cast<uint32_t>(mine))
      CHECK(mine == wide);
    // The value, its neighbours among floats, and the middle between it and the next half.
    compare(mine);
    compare(std::nextafter(mine, 1e30f));
    compare(std::nextafter(mine, -1e30f));
    const float next = fk::from_f16(static_cast<uint16_t>(half + 1));
    if (std::isfinite(mine) && std::isfinite(next)) {
      const float middle = mine + (next - mine) / 2;
      compare(middle);
      compare(std::nextafter(middle, 1e30f));
      compare(std::nextafter(middle, -1e30f));
    }
    const float brain = fk::from_bf16(half);
    compare(brain);
    compare(std::bit_cast<float>(bits << 16 | 0x8000));
    compare(std::bit_cast<float>(bits << 16 | 0x7fff));
    compare(std::bit_cast<float>(bits << 16 | 0x8001));
  }
  for (const float value :
       {65504.0f, 65519.99f, 65520.0f, 1e10f, 5.9e-8f, 2.98e-8f, 2.9802322e-8f}) {
    compare(value);
    compare(-value);
  }
}
