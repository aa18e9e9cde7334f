// SPDX-License-Identifier: Apache-2.0
//
// Conversions between element types. Scalars go through double, whose 53 bits hold every value of
// the smaller floats, so each conversion rounds once. The bulk paths between f32 and the 16-bit
// floats are integer arithmetic without branches, which the compiler vectorises.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/error.hpp"
#include "core/tensor/dtype.hpp"

// Lets one binary use AVX2 where the processor has it. Integer work only, so results cannot differ.
// Sanitizers do not support the resolver functions.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FK_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define FK_CLONES
#endif

namespace fk {
namespace {

// A small IEEE-like float. `finite_only` is the e4m3fn family: no infinity, one NaN per sign.
struct Format {
  int mantissa_bits;
  int exponent_bias;
  uint32_t largest;   // bit pattern of the largest finite value
  uint32_t infinity;  // the result of an overflow
  uint32_t nan;
  int sign_shift;
};
// In the order of the members of Format.
constexpr Format kF16 = {10, 15, 0x7BFF, 0x7C00, 0x7E00, 15};
constexpr Format kBf16 = {7, 127, 0x7F7F, 0x7F80, 0x7FC0, 15};
constexpr Format kF8e4m3 = {3, 7, 0x7E, 0x7E, 0x7F, 7};
constexpr Format kF8e5m2 = {2, 15, 0x7B, 0x7C, 0x7E, 7};

uint32_t encode(double value, const Format& format) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint32_t sign = static_cast<uint32_t>(bits >> 63) << format.sign_shift;
  const uint64_t magnitude = bits & 0x7FFF'FFFF'FFFF'FFFF;
  if (magnitude > 0x7FF0'0000'0000'0000) return sign | format.nan;
  if (magnitude == 0x7FF0'0000'0000'0000) return sign | format.infinity;
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  // Below the smallest normal the unit in the last place is constant, so more bits are dropped.
  const int smallest = 1 - format.exponent_bias;
  const int dropped = 52 - format.mantissa_bits + std::max(0, smallest - exponent);
  if (dropped > 53) return sign;  // below half of the smallest subnormal, double's own included
  const uint64_t significand = (magnitude & 0xF'FFFF'FFFF'FFFF) | 0x10'0000'0000'0000;
  uint64_t kept = significand >> dropped;
  const uint64_t rest = significand & ((uint64_t{1} << dropped) - 1);
  const uint64_t half = uint64_t{1} << (dropped - 1);
  kept += (rest > half || (rest == half && (kept & 1) != 0)) ? 1 : 0;
  // A carry out of the mantissa raises the exponent by itself; `base` excludes the implicit one.
  const int64_t base = exponent < smallest ? 0 : exponent + format.exponent_bias - 1;
  const int64_t result = (base << format.mantissa_bits) + static_cast<int64_t>(kept);
  if (result > static_cast<int64_t>(format.largest)) return sign | format.infinity;
  return sign | static_cast<uint32_t>(result);
}

float decode(uint32_t bits, const Format& format) {
  const bool negative = ((bits >> format.sign_shift) & 1) != 0;
  const uint32_t magnitude = bits & ((uint32_t{1} << format.sign_shift) - 1);
  float value = 0;
  if (magnitude > format.infinity) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (magnitude > format.largest) {
    value = std::numeric_limits<float>::infinity();
  } else {
    const uint32_t mask = (uint32_t{1} << format.mantissa_bits) - 1;
    const auto field = static_cast<int>(magnitude >> format.mantissa_bits);
    const uint32_t mantissa = (magnitude & mask) | (field > 0 ? mask + 1 : 0);
    value = std::ldexp(static_cast<float>(mantissa),
                       std::max(field, 1) - format.exponent_bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

template <class T>
T read(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

template <class T>
void write(void* element, T value) {
  std::memcpy(element, &value, sizeof value);
}

template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(value);  // the process never leaves round-to-nearest-even
  // max() of 64-bit types rounds up to a power of two, which does not fit itself: hence >=.
  if (rounded >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  if (rounded <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  return static_cast<T>(rounded);
}

// Any integer type fits into the sign and 64 bits.
struct Wide {
  bool negative;
  uint64_t bits;  // two's complement when negative
};

Wide read_integer(const void* element, DType dtype) {
  const auto of = [](int64_t value) { return Wide{value < 0, static_cast<uint64_t>(value)}; };
  switch (dtype) {
    case DType::i8:
      return of(read<int8_t>(element));
    case DType::i16:
      return of(read<int16_t>(element));
    case DType::i32:
      return of(read<int32_t>(element));
    case DType::i64:
      return of(read<int64_t>(element));
    case DType::u8:
      return {false, read<uint8_t>(element)};
    case DType::u16:
      return {false, read<uint16_t>(element)};
    case DType::u32:
      return {false, read<uint32_t>(element)};
    case DType::u64:
      return {false, read<uint64_t>(element)};
    default:
      return {false, read<uint8_t>(element) != 0 ? uint64_t{1} : uint64_t{0}};
  }
}

template <class T>
void write_saturated(Wide value, void* element) {
  if (value.negative) {
    const auto number = static_cast<int64_t>(value.bits);
    if constexpr (std::is_signed_v<T>) {
      write(element,
            static_cast<T>(std::max<int64_t>(number, int64_t{std::numeric_limits<T>::min()})));
    } else {
      write(element, T{0});
    }
    return;
  }
  write(element, static_cast<T>(std::min<uint64_t>(
                     value.bits, static_cast<uint64_t>(std::numeric_limits<T>::max()))));
}

void write_integer(Wide value, void* element, DType dtype) {
  switch (dtype) {
    case DType::i8:
      return write_saturated<int8_t>(value, element);
    case DType::i16:
      return write_saturated<int16_t>(value, element);
    case DType::i32:
      return write_saturated<int32_t>(value, element);
    case DType::i64:
      return write_saturated<int64_t>(value, element);
    case DType::u8:
      return write_saturated<uint8_t>(value, element);
    case DType::u16:
      return write_saturated<uint16_t>(value, element);
    case DType::u32:
      return write_saturated<uint32_t>(value, element);
    case DType::u64:
      return write_saturated<uint64_t>(value, element);
    default:
      return write(element, static_cast<uint8_t>(value.bits != 0 ? 1 : 0));
  }
}

uint32_t bf16_bits(uint32_t bits) {
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const uint32_t nan = ((bits >> 16) & 0x8000) | 0x7FC0;
  return (bits & 0x7FFF'FFFF) > 0x7F80'0000 ? nan : rounded;
}

FK_CLONES void f32_to_bf16(const char* source, char* target, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, source + 4 * i, 4);
    const auto rounded = static_cast<uint16_t>(bf16_bits(bits));
    std::memcpy(target + 2 * i, &rounded, 2);
  }
}

FK_CLONES void bf16_to_f32(const char* source, char* target, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, source + 2 * i, 2);
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    std::memcpy(target + 4 * i, &bits, 4);
  }
}

// Rounds by integer arithmetic. For normal results it adds just under half a unit in the last
// place. For subnormal results the adder of floats aligns the significand under the magic number
// 0.5.
uint32_t f16_bits(uint32_t bits) {
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7FFF'FFFF;
  const uint32_t normal = (magnitude - 0x3800'0000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
  const uint32_t subnormal = std::bit_cast<uint32_t>(shifted) - 0x3F00'0000;
  uint32_t result = magnitude < 0x3880'0000 ? subnormal : normal;
  result = magnitude >= 0x477F'F000 ? 0x7C00 : result;  // 65520 and up
  result = magnitude > 0x7F80'0000 ? 0x7E00 : result;
  return sign | result;
}

FK_CLONES void f32_to_f16(const char* source, char* target, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, source + 4 * i, 4);
    const auto rounded = static_cast<uint16_t>(f16_bits(bits));
    std::memcpy(target + 2 * i, &rounded, 2);
  }
}

FK_CLONES void f16_to_f32(const char* source, char* target, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, source + 2 * i, 2);
    const uint32_t magnitude = half & 0x7FFFU;
    const uint32_t normal = (magnitude << 13) + 0x3800'0000;
    const auto subnormal =
        std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24F);
    uint32_t bits = magnitude < 0x400 ? subnormal : normal;
    bits = magnitude >= 0x7C00 ? (magnitude << 13) | 0x7F80'0000 : bits;
    bits = magnitude > 0x7C00 ? 0x7FC0'0000 : bits;
    bits |= static_cast<uint32_t>(half & 0x8000U) << 16;
    std::memcpy(target + 4 * i, &bits, 4);
  }
}

FK_CLONES void f32_to_f64(const char* source, char* target, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, source + 4 * i, 4);
    const auto wide = static_cast<double>(value);
    std::memcpy(target + 8 * i, &wide, 8);
  }
}

// The comparison reads every type as double; 16-bit floats are converted through float32.
void half_to_f64(const char* source, DType dtype, char* target, int64_t count) {
  constexpr int64_t kAtOnce = 1024;
  float block[kAtOnce];
  for (int64_t begin = 0; begin < count; begin += kAtOnce) {
    const int64_t size = std::min(kAtOnce, count - begin);
    auto* floats = reinterpret_cast<char*>(block);
    (dtype == DType::bf16 ? bf16_to_f32 : f16_to_f32)(source + 2 * begin, floats, size);
    f32_to_f64(floats, target + 8 * begin, size);
  }
}

}  // namespace

uint16_t f16_from(double value) { return static_cast<uint16_t>(encode(value, kF16)); }
uint16_t bf16_from(double value) { return static_cast<uint16_t>(encode(value, kBf16)); }
uint8_t f8e4m3_from(double value) { return static_cast<uint8_t>(encode(value, kF8e4m3)); }
uint8_t f8e5m2_from(double value) { return static_cast<uint8_t>(encode(value, kF8e5m2)); }
float f16_to_float(uint16_t bits) { return decode(bits, kF16); }
float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
float f8e4m3_to_float(uint8_t bits) { return decode(bits, kF8e4m3); }
float f8e5m2_to_float(uint8_t bits) { return decode(bits, kF8e5m2); }

double to_double(const void* element, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return static_cast<double>(read<float>(element));
    case DType::f64:
      return read<double>(element);
    case DType::f16:
      return static_cast<double>(f16_to_float(read<uint16_t>(element)));
    case DType::bf16:
      return static_cast<double>(bf16_to_float(read<uint16_t>(element)));
    case DType::f8e4m3:
      return static_cast<double>(f8e4m3_to_float(read<uint8_t>(element)));
    case DType::f8e5m2:
      return static_cast<double>(f8e5m2_to_float(read<uint8_t>(element)));
    default:
      break;
  }
  const Wide wide = read_integer(element, dtype);
  return wide.negative ? static_cast<double>(static_cast<int64_t>(wide.bits))
                       : static_cast<double>(wide.bits);
}

void from_double(double value, void* element, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return write(element, static_cast<float>(value));
    case DType::f64:
      return write(element, value);
    case DType::f16:
      return write(element, f16_from(value));
    case DType::bf16:
      return write(element, bf16_from(value));
    case DType::f8e4m3:
      return write(element, f8e4m3_from(value));
    case DType::f8e5m2:
      return write(element, f8e5m2_from(value));
    case DType::i8:
      return write(element, saturate<int8_t>(value));
    case DType::u8:
      return write(element, saturate<uint8_t>(value));
    case DType::i16:
      return write(element, saturate<int16_t>(value));
    case DType::u16:
      return write(element, saturate<uint16_t>(value));
    case DType::i32:
      return write(element, saturate<int32_t>(value));
    case DType::u32:
      return write(element, saturate<uint32_t>(value));
    case DType::i64:
      return write(element, saturate<int64_t>(value));
    case DType::u64:
      return write(element, saturate<uint64_t>(value));
    case DType::boolean:
      return write(element, static_cast<uint8_t>(value != 0 ? 1 : 0));
  }
}

void convert(const void* source, DType source_dtype, void* target, DType target_dtype,
             int64_t count) {
  if (count <= 0) return;
  const auto* from = static_cast<const char*>(source);
  auto* to = static_cast<char*>(target);
  const int64_t from_bytes = bytes(source_dtype), to_bytes = bytes(target_dtype);
  if (source_dtype == target_dtype) {
    std::memmove(to, from, static_cast<std::size_t>(count * from_bytes));
    return;
  }
  if (source_dtype == DType::f32 && target_dtype == DType::bf16) {
    return f32_to_bf16(from, to, count);
  }
  if (source_dtype == DType::bf16 && target_dtype == DType::f32) {
    return bf16_to_f32(from, to, count);
  }
  if (source_dtype == DType::f32 && target_dtype == DType::f16) return f32_to_f16(from, to, count);
  if (source_dtype == DType::f16 && target_dtype == DType::f32) return f16_to_f32(from, to, count);
  if (target_dtype == DType::f64) {
    if (source_dtype == DType::f32) return f32_to_f64(from, to, count);
    const bool half = source_dtype == DType::bf16 || source_dtype == DType::f16;
    if (half) return half_to_f64(from, source_dtype, to, count);
  }
  const bool integers = !is_float(source_dtype) && !is_float(target_dtype);
  for (int64_t i = 0; i < count; ++i) {
    if (integers) {
      write_integer(read_integer(from + i * from_bytes, source_dtype), to + i * to_bytes,
                    target_dtype);
    } else {
      from_double(to_double(from + i * from_bytes, source_dtype), to + i * to_bytes, target_dtype);
    }
  }
}

}  // namespace fk
