// SPDX-License-Identifier: Apache-2.0
#include "core/cases/numerics/moved_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "core/base/parts.hpp"
#include "core/cases/each_row.hpp"
#include "core/cases/selection.hpp"
#include "core/cases/tolerance.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

// Moves single elements, and rows as a whole: the first kind averages out within a sum, the second
// does not. `alike`: equal values move equally, by a hash of the value. `beside`: magnitude of
// values added to them, whose sum is rounded too.
Tensor moved(const Tensor& from, double by, uint64_t stream, bool alike, float beside) {
  Tensor out(DType::f32, from.shape);
  const int64_t width = from.shape.empty() ? 1 : std::max<int64_t>(1, from.shape.back()),
                rows = from.numel() / width;
  const auto fill = [by](std::vector<float>& to, uint64_t its, int64_t first) {
    fill_uniform(to.data(), DType::f32, static_cast<int64_t>(to.size()), its,
                 static_cast<uint64_t>(first), -by, by);
  };
  std::vector<float> all(alike ? static_cast<size_t>(from.numel()) : 0);
  fill(all, stream, 0);
  constexpr int64_t kPart = int64_t{1} << 18;  // elements
  const int64_t step = std::max<int64_t>(1, kPart / width);
  in_parts(static_cast<size_t>((rows + step - 1) / step), [&](size_t part) {
    const int64_t first = static_cast<int64_t>(part) * step,
                  count = (std::min(rows, first + step) - first) * width;
    std::vector<float> own(alike ? 0 : static_cast<size_t>(count)),
        row(static_cast<size_t>(count / width));
    fill(own, stream, first * width);
    fill(row, stream + 1, first);
    float* values = out.as<float>().data() + first * width;
    convert(static_cast<const std::byte*>(from.data()) + first * width * bytes(from.dtype),
            from.dtype, values, DType::f32, count);
    for (size_t e = 0; e < static_cast<size_t>(count); ++e) {
      uint32_t bits;
      std::memcpy(&bits, &values[e], sizeof bits);
      const float mine = alike ? all[seed_of("value", bits) % all.size()] : own[e];
      if (std::isinf(values[e])) continue;  // a masked logit
      values[e] += (values[e] + beside) * (mine + row[e / static_cast<size_t>(width)]);
    }
  });
  return out;
}

// Keeps `moved` within the range of `before`.
void keep_range(const Tensor& before, Tensor& moved) {
  double least = HUGE_VAL, most = -HUGE_VAL;
  for (int64_t i = 0; i < before.numel(); ++i)
    least = std::min(least, before.at(i)), most = std::max(most, before.at(i));
  each_row(moved, [&](int64_t, std::span<float> row) {
    for (float& v : row) v = std::clamp(v, static_cast<float>(least), static_cast<float>(most));
    return true;
  });
}

// Magnitude of the scores that a field is added to or weighed with; 0: none. These are scores up to
// 1 with a bias, by which the op chooses; and capped scores, which share a softmax with a sink.
// They saturate, so moved inputs may not move them, but they are rounded. A capped score is rounded
// twice: as a tanh and as its product.
double added_to(const ResolvedCase& resolved, const CaseField& field) {
  const Contract& contract = *resolved.contract;
  if (contract.level != 1) return 0;
  if (contract.tolerance.numerics == "selection")
    return field.slot->section == SectionId::weights ? 1 : 0;
  const Slot* cap = field.slot->name == "sinks" ? contract.find("softcap") : nullptr;
  return cap ? 2 * resolved.init[static_cast<size_t>(cap->index)].f : 0;
}

}  // namespace

CaseValues moved_inputs(const ResolvedCase& resolved, const CaseValues& inputs, uint64_t seed) {
  // If an op chooses, equal values are ordered by index and must move alike. Scores between 0 and 1
  // are rounded more coarsely than their small logits.
  const bool alike = resolved.contract->tolerance.numerics == "selection";
  const double by = probe_size(resolved) * (alike ? 4 : 1);
  CaseValues out = inputs;
  for (const auto& f : resolved.fields) {
    const auto it = out.find(f.slot->name);
    if (it == out.end() || !f.present || !is_float(f.dtype) || bytes(f.dtype) < 2) continue;
    const std::string generator = f.values.substr(0, f.values.find('('));
    // Values of a uniform generator keep their range; random numbers for drawing stay unchanged.
    const bool range = generator == "uniform";
    if (generator == "constant" || (range && (alike || resolved.contract->level > 1))) continue;
    const auto beside = static_cast<float>(added_to(resolved, f) / 8);
    const bool own = resolved.rank > 0 && !f.slot->replicated;
    const std::string what =
        "moved " + f.slot->name + (own ? " of rank " + std::to_string(resolved.rank) : "") + "#";
    for (size_t i = 0; i < it->second.size(); ++i) {
      const uint64_t stream = seed_of(what + std::to_string(i), seed);
      const Tensor& before = it->second[i];
      Tensor other = moved(before, by, stream, alike, beside);
      if (range) keep_range(before, other);
      it->second[i] = std::move(other);
    }
  }
  if (alike && seed % 2 == 1) saturate(resolved, out);
  return out;
}

void move_others(const ResolvedCase& resolved, uint64_t seed, std::vector<CaseValues>& ranks) {
  ResolvedCase other = resolved;
  for (size_t r = 0; r < ranks.size(); ++r) {
    other.rank = static_cast<int>(r);
    if (other.rank != resolved.rank) ranks[r] = moved_inputs(other, ranks[r], seed);
  }
}

}  // namespace fk
