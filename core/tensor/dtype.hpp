// SPDX-License-Identifier: Apache-2.0
//
// Element types: names in every spelling of checkpoints and frameworks, DLPack codes, and
// conversions. Verdicts rest on the conversions, so they are exact to the last bit.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

/// The values are internal and never leave the process; the ABI uses DLPack's pair.
enum class DType : uint8_t {
  f32,
  f64,
  f16,
  bf16,
  f8e4m3,  ///< the "fn" variant: no infinity, 448 is the largest, S.1111.111 is NaN
  f8e5m2,  ///< IEEE-like, with infinity
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  boolean,  ///< one byte, 0 or 1
};

inline constexpr int kDTypeCount = 15;

int bits(DType dtype);
int64_t bytes(DType dtype);
bool is_float(DType dtype);
bool is_integer(DType dtype);  ///< boolean is not an integer

/// "f32", "bf16", "f8e4m3", "bool", ...
std::string_view name(DType dtype);
/// "F32", "BF16", "F8_E4M3", "BOOL", ...
std::string_view safetensors_name(DType dtype);
/// Accepts name(), safetensors_name(), "float32", "torch.bfloat16", "half", "fp8_e4m3fn", ... in
/// any case. Error at `where` with the nearest name.
DType dtype_from_name(std::string_view text, const std::string& where = "dtype");
std::vector<DType> all_dtypes();

/// DLPack's type code and bits per element; lanes are always 1.
struct DLPackType {
  uint8_t code;
  uint8_t bits;
  bool operator==(const DLPackType&) const = default;
};
DLPackType to_dlpack(DType dtype);
/// Error for a pair that this host does not know.
DType from_dlpack(DLPackType type, const std::string& where = "dtype");

/// The distance from 1 to the next larger value (2^-7 for bf16, 2^-3 for f8e4m3); 0 for integers.
double epsilon(DType dtype);
/// Largest and smallest finite value.
double largest(DType dtype);
double lowest(DType dtype);

/// Single elements; the pointers need no alignment. `to_double` is exact, except for integers
/// beyond 2^53. `from_double` rounds once from double, to nearest, ties to even. f8e4m3 saturates
/// at 448 (infinity included); other floats overflow to infinity. Integers saturate and turn NaN
/// into 0; boolean is `value != 0`.
double to_double(const void* element, DType dtype);
void from_double(double value, void* element, DType dtype);

/// The same on bit patterns.
uint16_t f16_from(double value);
uint16_t bf16_from(double value);
uint8_t f8e4m3_from(double value);
uint8_t f8e5m2_from(double value);
float f16_to_float(uint16_t bits);
float bf16_to_float(uint16_t bits);
float f8e4m3_to_float(uint8_t bits);
float f8e5m2_to_float(uint8_t bits);

/// Converts `count` elements; the ranges must not overlap unless the types are equal. No alignment
/// needed. Vectorised between f32 and bf16 or f16 [measured in test/unit/tensor]. Others go through
/// to_double; integers to integers are exact and saturate.
void convert(const void* source, DType source_dtype, void* target, DType target_dtype,
             int64_t count);

}  // namespace fk
