// SPDX-License-Identifier: Apache-2.0
#include "core/cases/numerics/unread.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/cases/each_row.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

enum class Place : uint8_t { nowhere, behind, read };

bool is_pages(const CaseField& field) {
  const auto& shape = field.slot->shape;
  return shape.size() > 2 && shape[0].text() == "P" && shape[1].text() == "Z";
}
bool is_slots(const CaseField& field) {
  return field.slot->shape.size() > 1 && field.slot->shape[0].text() == "N";
}

class Places {
 public:
  Places(const ResolvedCase& resolved, const CaseValues& values) : r_(resolved), values_(values) {}

  // The kind of place of each slot of a page.
  std::vector<Place> of_pages(const CaseField& field) const {
    const int64_t page = field.shape[1];
    std::vector<Place> out(static_cast<size_t>(field.shape[0] * page));
    const Tensor &table = first("block_tables"), &lengths = first("seq_lens");
    const int64_t width = table.shape.back();
    const auto place = [&](int64_t request, int64_t position) -> Place& {
      const auto id = static_cast<int64_t>(table.at(request * width + position / page));
      return out[static_cast<size_t>(id * page + position % page)];
    };
    for (int64_t b = 0; b < lengths.numel(); ++b)
      for (int64_t at = 0; at < width * page; ++at) {
        Place& its = place(b, at);
        its = std::max(its, static_cast<double>(at) < lengths.at(b) ? Place::read : Place::behind);
      }
    return out;
  }

  // The kind of place of each state slot. The slot of a request without tokens stays unchanged.
  std::vector<Place> of_slots(const CaseField& field) const {
    std::vector<Place> out(static_cast<size_t>(field.shape[0]));
    const Tensor& slots = first("state_slots");
    const bool begins = r_.find("has_initial_state") && r_.find("cu_seqlens");
    for (int64_t b = 0; b < slots.numel(); ++b) {
      const bool fresh = begins && first("has_initial_state").at(b) == 0 &&
                         first("cu_seqlens").at(b) < first("cu_seqlens").at(b + 1);
      if (!fresh) out[static_cast<size_t>(slots.at(b))] = Place::read;
    }
    return out;
  }

 private:
  const Tensor& first(const std::string& field) const { return values_.at(field)[0]; }
  const ResolvedCase& r_;
  const CaseValues& values_;
};

// Fields that the call writes are compared relative to the size of their whole content, so large
// numbers stay moderate.
double most_behind(const CaseField& field) {
  return field.slot->role == Role::inout ? 0x1p10 : std::min(0x1p100, largest(field.dtype) / 4);
}

}  // namespace

bool has_unread(const ResolvedCase& resolved, const CaseField& field) {
  if (!field.present || !is_float(field.dtype) || field.slot->section != SectionId::forward ||
      field.slot->role == Role::out ||
      (resolved.contents && resolved.contents->count(field.slot->name)))
    return false;
  return is_pages(field) ? resolved.find("block_tables") && resolved.find("seq_lens")
                         : is_slots(field) && resolved.find("state_slots");
}

void spoil_unread(const ResolvedCase& resolved, uint64_t seed, CaseValues& values) {
  const Places places(resolved, values);
  for (const CaseField& field : resolved.fields) {
    const auto made = values.find(field.slot->name);
    if (made == values.end() || !has_unread(resolved, field)) continue;
    const auto of = is_pages(field) ? places.of_pages(field) : places.of_slots(field);
    const auto behind = static_cast<float>(most_behind(field));
    for (size_t i = 0; i < made->second.size(); ++i) {
      Tensor& t = made->second[i];
      if (t.numel() == 0) continue;
      const uint64_t stream = seed_of("unread " + made->first + "#" + std::to_string(i), seed);
      const int64_t rows = t.numel() / t.shape.back() / static_cast<int64_t>(of.size());
      each_row(t, [&](int64_t row, std::span<float> numbers) {
        const Place place = of[static_cast<size_t>(row / rows)];
        if (place == Place::read) return false;
        const uint32_t draw = philox(static_cast<uint64_t>(row), stream)[0];
        const float sign = draw & 1 ? -1.F : 1.F;
        const float number = place == Place::behind ? behind : draw & 2 ? INFINITY : NAN;
        std::ranges::fill(numbers, sign * number);
        return true;
      });
    }
  }
}

}  // namespace fk
