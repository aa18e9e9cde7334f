// SPDX-License-Identifier: Apache-2.0
//
// If these fail, a reference is rounded differently from the hardware and verdicts are wrong in the
// last bit. 16-bit and 8-bit formats are checked in full.

#include "core/tensor/dtype.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "core/base/error.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/tensor.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

// Every bit pattern survives; every midpoint between neighbours goes to the even one, and a hair to
// either side goes to that side.
template <class Bits, class From, class To>
int64_t failures(Bits last, const From& from, const To& to, int sign_shift) {
  int64_t failed = 0;
  for (uint32_t i = 0; i <= last; ++i) {
    const double here = static_cast<double>(to(static_cast<Bits>(i)));
    failed += from(here) != i;
    const auto negative = static_cast<uint32_t>(i | 1U << sign_shift);
    failed += from(-here) != negative;
    if (i == last) break;
    const double middle = (here + static_cast<double>(to(static_cast<Bits>(i + 1)))) / 2;
    failed += from(middle) != (i % 2 == 0 ? i : i + 1);
    failed += from(std::nextafter(middle, 0.0)) != i;
    failed += from(std::nextafter(middle, 1e300)) != i + 1;
  }
  return failed;
}

}  // namespace

TEST_CASE("small_floats_round_to_nearest_even_everywhere", "[tensor]") {
  CHECK(failures<uint16_t>(0x7BFF, f16_from, f16_to_float, 15) == 0);
  CHECK(failures<uint16_t>(0x7F7F, bf16_from, bf16_to_float, 15) == 0);
  CHECK(failures<uint8_t>(0x7E, f8e4m3_from, f8e4m3_to_float, 7) == 0);
  CHECK(failures<uint8_t>(0x7B, f8e5m2_from, f8e5m2_to_float, 7) == 0);
}

TEST_CASE("small_floats_specials", "[tensor]") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(f16_from(65519.99) == 0x7BFF);
  CHECK(f16_from(65520) == 0x7C00);
  CHECK(f16_from(-inf) == 0xFC00);
  CHECK(bf16_from(1e39) == 0x7F80);
  CHECK(f8e4m3_from(448) == 0x7E);
  CHECK(f8e4m3_from(1e9) == 0x7E);
  CHECK(f8e4m3_from(-inf) == 0xFE);
  CHECK((f8e4m3_from(nan) & 0x7F) == 0x7F);
  CHECK(f8e5m2_from(57344) == 0x7B);
  CHECK(f8e5m2_from(61440) == 0x7C);
  CHECK(std::isnan(f16_to_float(0x7C01)));
  CHECK(std::isnan(bf16_to_float(bf16_from(nan))));
  CHECK(std::isnan(f8e4m3_to_float(0x7F)));
  CHECK(std::isnan(f8e5m2_to_float(0x7D)));
  CHECK(std::isinf(f8e5m2_to_float(0xFC)));
  CHECK(f16_from(0x1p-25) == 0);
  CHECK(f16_from(0x1.8p-25) == 1);
  CHECK(bf16_from(5e-324) == 0);
  CHECK(std::signbit(f16_to_float(f16_from(-0.0))));
}

TEST_CASE("bulk_conversion_equals_scalar", "[tensor]") {
  // All 16-bit patterns up, and float patterns with every exponent down.
  std::vector<uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(halves.size());
  for (const DType dtype : {DType::f16, DType::bf16}) {
    convert(halves.data(), dtype, floats.data(), DType::f32, 65536);
    int64_t failed = 0;
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const auto wanted = static_cast<float>(to_double(&halves[i], dtype));
      failed += std::isnan(wanted)
                    ? !std::isnan(floats[i])
                    : std::bit_cast<uint32_t>(wanted) != std::bit_cast<uint32_t>(floats[i]);
    }
    CHECK(failed == 0);
  }
  std::vector<float> values;
  Random random(7);
  for (uint32_t top = 0; top < 65536; ++top) {
    for (const uint32_t low : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU,
                               static_cast<uint32_t>(random.integer(0, 65536))}) {
      values.push_back(std::bit_cast<float>(top << 16 | low));
    }
  }
  const auto count = static_cast<int64_t>(values.size());
  std::vector<uint16_t> got(values.size());
  for (const DType dtype : {DType::f16, DType::bf16}) {
    convert(values.data(), DType::f32, got.data(), dtype, count);
    int64_t failed = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      uint16_t wanted = 0;
      from_double(static_cast<double>(values[i]), &wanted, dtype);
      if (std::isnan(values[i])) {
        failed += !std::isnan(to_double(&got[i], dtype));
      } else {
        failed += wanted != got[i];
      }
    }
    CHECK(failed == 0);
  }
}

TEST_CASE("integers_saturate_and_round_to_even", "[tensor]") {
  const Tensor source = Tensor::of(DType::f64, {6}, {2.5, 3.5, -1e30, 1e30, NAN, -0.4});
  CHECK(source.to(DType::i8).values() == std::vector<double>{2, 4, -128, 127, 0, 0});
  CHECK(source.to(DType::u8).values() == std::vector<double>{2, 4, 0, 255, 0, 0});
  CHECK(source.to(DType::boolean).values() == std::vector<double>{1, 1, 1, 1, 1, 1});
  CHECK(source.to(DType::i64).as<int64_t>()[3] == INT64_MAX);
  CHECK(source.to(DType::i64).as<int64_t>()[2] == INT64_MIN);
  CHECK(source.to(DType::u64).as<uint64_t>()[3] == UINT64_MAX);
  Tensor wide(DType::i64, {2});
  wide.as<int64_t>()[0] = (int64_t{1} << 53) + 1;
  wide.as<int64_t>()[1] = -5;
  CHECK(wide.to(DType::u64).as<uint64_t>()[0] == (uint64_t{1} << 53) + 1);
  CHECK(wide.to(DType::u64).as<uint64_t>()[1] == 0);
  CHECK(wide.to(DType::i8).as<int8_t>()[0] == 127);
}

TEST_CASE("dtype_names_and_codes_round_trip", "[tensor]") {
  for (const DType dtype : all_dtypes()) {
    CHECK(dtype_from_name(name(dtype)) == dtype);
    CHECK(dtype_from_name(safetensors_name(dtype)) == dtype);
    CHECK(from_dlpack(to_dlpack(dtype)) == dtype);
    CHECK(bytes(dtype) * 8 == bits(dtype));
  }
  CHECK(dtype_from_name("torch.bfloat16") == DType::bf16);
  CHECK(dtype_from_name("float8_e4m3fn") == DType::f8e4m3);
  CHECK(message_of<Error>([] { dtype_from_name("bfloat61"); }) ==
        "dtype: unknown element type `bfloat61` (did you mean `bfloat16`?)");
  CHECK_THAT(message_of<Error>([] { dtype_from_name("quaternion", "f.yaml:1:2"); }),
             ContainsSubstring("f.yaml:1:2: unknown element type `quaternion` (known: f32, "));
  CHECK_THROWS_AS(from_dlpack({5, 64}), Error);
}
