// SPDX-License-Identifier: Apache-2.0
#include "core/judge/mutation_test.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/cases/comparison.hpp"
#include "core/cases/numerics/mutants.hpp"
#include "core/cases/slice.hpp"

namespace fk {

namespace {

// About twenty mutants are made element by element; this number of elements takes a few
// milliseconds.
constexpr int64_t kElements = int64_t{1} << 15;

// The first rows, as many as are worth a test. Nothing when all rows fit, or cannot be told apart.
std::optional<Slice> first_part(const ResolvedCase& resolved, const Case& source,
                                const Variant& variant, const CaseValues& inputs) {
  if (written_elements(resolved) <= kElements) return std::nullopt;
  auto out = first_rows(resolved, source, variant, inputs, 2);
  if (!out) return std::nullopt;
  const int64_t rows = 2 * kElements / std::max<int64_t>(1, written_elements(out->resolved));
  if (rows <= 2) return out;
  auto more = first_rows(resolved, source, variant, inputs, rows);
  return more ? std::move(more) : std::move(out);
}

}  // namespace

std::vector<MutantRow> try_mutants(const ResolvedCase& resolved, const Case& source,
                                   const Variant& variant, const CaseValues& inputs,
                                   const CaseValues& want, const AskVariant& ask, double seconds) {
  const double start = now_seconds();
  std::vector<MutantRow> out;
  const auto try_on = [&](const ResolvedCase& call, const Variant& its, const CaseValues& values,
                          const CaseValues& right) {
    const AskReference asked = [&](const CaseValues& other) { return ask(call, its, other); };
    const Comparer comparer(call, values, right, asked, kQuickElements);
    const std::function<bool(const Mutant&)> take = [&](const Mutant& mutant) {
      const Comparison found = comparer.look(mutant.answer, mutant.field);
      out.push_back({mutant.name, !found.ok, found.worst});
      return now_seconds() - start < seconds;
    };
    for (const auto& name : each_mutant(call, values, right, asked, take))
      out.push_back({name, false, 0, "no time"});
  };
  if (const auto part = first_part(resolved, source, variant, inputs)) {
    const CaseValues right = ask(part->resolved, part->variant, part->values);
    if (!right.empty()) {
      try_on(part->resolved, part->variant, part->values, right);
      return out;
    }
  }
  try_on(resolved, variant, inputs, want);
  return out;
}

}  // namespace fk
