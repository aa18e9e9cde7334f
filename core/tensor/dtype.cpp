// SPDX-License-Identifier: Apache-2.0
//
// Names and codes of element types; conversions are in convert.cpp.

#include "core/tensor/dtype.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

enum class Kind : uint8_t { real, integer, boolean };

struct Facts {
  DType dtype;
  std::string_view name, safetensors;
  Kind kind;
  int bits;
  DLPackType dlpack;
  double epsilon, largest, lowest;
};

template <class T>
constexpr double kMax = static_cast<double>(std::numeric_limits<T>::max());
template <class T>
constexpr double kMin = static_cast<double>(std::numeric_limits<T>::lowest());

// The rows have the order of the enumeration; a check follows below. The columns are the members of
// Facts.
constexpr std::array<Facts, kDTypeCount> kFacts = {{
    {DType::f32, "f32", "F32", Kind::real, 32, {2, 32}, 0x1p-23, kMax<float>, kMin<float>},
    {DType::f64, "f64", "F64", Kind::real, 64, {2, 64}, 0x1p-52, kMax<double>, kMin<double>},
    {DType::f16, "f16", "F16", Kind::real, 16, {2, 16}, 0x1p-10, 65504, -65504},
    {DType::bf16, "bf16", "BF16", Kind::real, 16, {4, 16}, 0x1p-7, 0x1.fep127, -0x1.fep127},
    {DType::f8e4m3, "f8e4m3", "F8_E4M3", Kind::real, 8, {10, 8}, 0x1p-3, 448, -448},
    {DType::f8e5m2, "f8e5m2", "F8_E5M2", Kind::real, 8, {12, 8}, 0x1p-2, 57344, -57344},
    {DType::i8, "i8", "I8", Kind::integer, 8, {0, 8}, 0, 127, -128},
    {DType::u8, "u8", "U8", Kind::integer, 8, {1, 8}, 0, 255, 0},
    {DType::i16, "i16", "I16", Kind::integer, 16, {0, 16}, 0, 32767, -32768},
    {DType::u16, "u16", "U16", Kind::integer, 16, {1, 16}, 0, 65535, 0},
    {DType::i32, "i32", "I32", Kind::integer, 32, {0, 32}, 0, kMax<int32_t>, kMin<int32_t>},
    {DType::u32, "u32", "U32", Kind::integer, 32, {1, 32}, 0, kMax<uint32_t>, 0},
    {DType::i64, "i64", "I64", Kind::integer, 64, {0, 64}, 0, kMax<int64_t>, kMin<int64_t>},
    {DType::u64, "u64", "U64", Kind::integer, 64, {1, 64}, 0, kMax<uint64_t>, 0},
    {DType::boolean, "bool", "BOOL", Kind::boolean, 8, {6, 8}, 0, 1, 0},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    if (static_cast<std::size_t>(kFacts[i].dtype) != i) return false;
  }
  return true;
}
static_assert(in_order(), "kFacts follows the order of DType");

const Facts& facts(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  FK_CHECK(index < kFacts.size(), "not a DType");
  return kFacts[index];
}

struct Alias {
  std::string_view name;
  DType dtype;
};
constexpr Alias kAliases[] = {
    {"float32", DType::f32},
    {"float", DType::f32},
    {"single", DType::f32},
    {"fp32", DType::f32},
    {"float64", DType::f64},
    {"double", DType::f64},
    {"fp64", DType::f64},
    {"float16", DType::f16},
    {"half", DType::f16},
    {"fp16", DType::f16},
    {"bfloat16", DType::bf16},
    {"bfloat", DType::bf16},
    {"float8_e4m3fn", DType::f8e4m3},
    {"float8_e4m3", DType::f8e4m3},
    {"fp8_e4m3fn", DType::f8e4m3},
    {"fp8_e4m3", DType::f8e4m3},
    {"f8_e4m3fn", DType::f8e4m3},
    {"f8_e4m3", DType::f8e4m3},
    {"f8e4m3fn", DType::f8e4m3},
    {"e4m3", DType::f8e4m3},
    {"fp8", DType::f8e4m3},
    {"float8_e5m2", DType::f8e5m2},
    {"fp8_e5m2", DType::f8e5m2},
    {"f8_e5m2", DType::f8e5m2},
    {"e5m2", DType::f8e5m2},
    {"int8", DType::i8},
    {"char", DType::i8},
    {"uint8", DType::u8},
    {"byte", DType::u8},
    {"int16", DType::i16},
    {"short", DType::i16},
    {"uint16", DType::u16},
    {"int32", DType::i32},
    {"int", DType::i32},
    {"uint32", DType::u32},
    {"int64", DType::i64},
    {"long", DType::i64},
    {"uint64", DType::u64},
    {"boolean", DType::boolean},
};

}  // namespace

int bits(DType dtype) { return facts(dtype).bits; }
int64_t bytes(DType dtype) { return facts(dtype).bits / 8; }
bool is_float(DType dtype) { return facts(dtype).kind == Kind::real; }
bool is_integer(DType dtype) { return facts(dtype).kind == Kind::integer; }
std::string_view name(DType dtype) { return facts(dtype).name; }
std::string_view safetensors_name(DType dtype) { return facts(dtype).safetensors; }
DLPackType to_dlpack(DType dtype) { return facts(dtype).dlpack; }
double epsilon(DType dtype) { return facts(dtype).epsilon; }
double largest(DType dtype) { return facts(dtype).largest; }
double lowest(DType dtype) { return facts(dtype).lowest; }

DType dtype_from_name(std::string_view text, const std::string& where) {
  std::string wanted = lower(text);
  if (wanted.starts_with("torch.")) wanted = wanted.substr(6);
  std::vector<std::string> known;
  for (const Facts& fact : kFacts) {
    if (fact.name == wanted) return fact.dtype;
    known.emplace_back(fact.name);
  }
  std::vector<std::string> spelled = known;
  for (const Alias& alias : kAliases) {
    if (alias.name == wanted) return alias.dtype;
    spelled.emplace_back(alias.name);
  }
  const bool near = !nearest(wanted, spelled).empty();
  fail(where, "unknown element type `" + excerpt(text) + "`",
       near ? did_you_mean(wanted, spelled) : "known: " + join(known, ", "));
}

std::vector<DType> all_dtypes() {
  std::vector<DType> result;
  for (const Facts& fact : kFacts) result.push_back(fact.dtype);
  return result;
}

DType from_dlpack(DLPackType type, const std::string& where) {
  for (const Facts& fact : kFacts) {
    if (fact.dlpack == type) return fact.dtype;
  }
  fail(where,
       fmt::format("DLPack type code {} with {} bits is not supported", type.code, type.bits));
}

}  // namespace fk
