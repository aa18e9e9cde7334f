// SPDX-License-Identifier: Apache-2.0
#include "core/cases/exchanged.hpp"

#include <algorithm>
#include <array>

#include "core/tensor/random.hpp"

namespace fk {

namespace {

// Exchanges two different numbers, if there are any.
void exchange(Random random, Tensor& t) {
  if (t.numel() < 2) return;
  const int64_t last = t.shape.back(), width = last > 1 ? last : t.numel();
  const int64_t row = random.integer(0, t.numel() / width) * width, a = random.integer(0, width);
  const double one = t.at(row + a);
  for (int64_t step = 1; step < width; ++step) {
    const int64_t b = (a + step) % width;
    const double other = t.at(row + b);
    if (other == one) continue;
    t.set(row + a, other);
    return t.set(row + b, one);
  }
}

}  // namespace

bool may_exchange(const ResolvedCase& resolved, const CaseField& field) {
  const std::string& name = field.slot->name;
  const std::array kinds = {"randint", "perm", "skipping", "unique", "routed"};
  const std::string kind = field.values.substr(0, field.values.find('('));
  return field.present && field.entries && !is_float(field.dtype) &&
         field.slot->section == SectionId::forward && field.slot->role == Role::in &&
         std::ranges::count(kinds, kind) &&
         !(resolved.contents && resolved.contents->count(name)) &&
         std::ranges::none_of(resolved.fields, [&](const CaseField& other) {
           return other.values.find(name) != std::string::npos;
         });
}

void exchange_numbers(const ResolvedCase& resolved, uint64_t seed, CaseValues& values) {
  for (const auto& field : resolved.fields) {
    const auto made = values.find(field.slot->name);
    if (made == values.end() || !may_exchange(resolved, field)) continue;
    for (Tensor& t : made->second) exchange(Random(seed_of("exchange " + made->first, seed)), t);
  }
}

}  // namespace fk
