// SPDX-License-Identifier: Apache-2.0
#include "core/cases/recorded_order.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>

#include "core/cases/generator_text.hpp"
#include "core/cases/shuffle.hpp"

namespace fk {

namespace {

constexpr double kOrdersLeast = 20'000;  // too many to remember

bool is_read(const CaseField& f) {
  return f.present && f.entries > 0 && f.slot->section == SectionId::forward && f.slot->is_read();
}

bool is_recorded(const ResolvedCase& r, const CaseField& f) {
  return r.contents && r.contents->count(f.slot->name);
}

bool has_floats(const ResolvedCase& r) {
  return std::any_of(r.fields.begin(), r.fields.end(),
                     [](const CaseField& f) { return is_read(f) && is_float(f.dtype); });
}

GeneratorText generator_of(const ResolvedCase& r, const CaseField& f) {
  return f.values.empty() ? GeneratorText{} : GeneratorText::parse(f.values, r.name);
}

// True if the contract's generator makes every row independently, and no other field depends on the
// order.
bool can_be_reordered(const ResolvedCase& r, const CaseField& f) {
  if (!is_read(f) || !is_recorded(r, f) || is_float(f.dtype) || f.shape.empty()) return false;
  const std::string name = generator_of(r, f).name;
  if (name != "unique" && name != "routed" && (name != "randint" || has_floats(r))) return false;
  return std::none_of(r.fields.begin(), r.fields.end(), [&](const CaseField& other) {
    const auto args = generator_of(r, other).args;
    return std::find(args.begin(), args.end(), f.slot->name) != args.end();
  });
}

size_t row_bytes(const Tensor& t) {
  return t.shape[0] > 0 ? static_cast<size_t>(t.bytes() / t.shape[0]) : 0;
}

// Logarithm of the number of distinct orders of its rows.
double log_of_orders(const Tensor& t) {
  const auto* at = reinterpret_cast<const char*>(t.data());
  std::map<std::string_view, int64_t> rows;
  for (int64_t i = 0; i < t.shape[0]; ++i)
    ++rows[{at + static_cast<size_t>(i) * row_bytes(t), row_bytes(t)}];
  double out = std::lgamma(static_cast<double>(t.shape[0]) + 1);
  for (const auto& [row, count] : rows) out -= std::lgamma(static_cast<double>(count) + 1);
  return out;
}

}  // namespace

void reorder_recorded(const ResolvedCase& resolved, uint64_t seed, CaseValues& values) {
  for (const CaseField& f : resolved.fields) {
    if (!can_be_reordered(resolved, f)) continue;
    auto& tensors = values.at(f.slot->name);
    for (size_t entry = 0; entry < tensors.size(); ++entry) {
      Tensor& t = tensors[entry];
      Random random(
          seed_of("order of " + f.slot->shape[0].text() + "#" + std::to_string(entry), seed));
      const Tensor before = t;
      const size_t width = row_bytes(t);
      size_t to = 0;
      for (const int64_t from : permutation(t.shape[0], random))
        std::memcpy(
            static_cast<std::byte*>(t.data()) + width * to++,
            static_cast<const std::byte*>(before.data()) + width * static_cast<size_t>(from),
            width);
    }
  }
}

bool inputs_are_known(const ResolvedCase& resolved) {
  if (!resolved.contents) return false;
  bool made = false, reordered = false;
  for (const CaseField& f : resolved.fields) {
    made |= is_read(f) && is_float(f.dtype) && !is_recorded(resolved, f);
    if (!can_be_reordered(resolved, f)) continue;
    for (const Tensor& t : resolved.contents->at(f.slot->name))
      reordered |= log_of_orders(t) > std::log(kOrdersLeast);
  }
  return !made && (has_floats(resolved) || !reordered);
}

}  // namespace fk
