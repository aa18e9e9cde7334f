// SPDX-License-Identifier: Apache-2.0
#include "core/archive/elites.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace fk {

namespace {

std::string power_of_two(int64_t value) {
  return value <= 0 ? "0" : std::to_string(std::bit_floor(static_cast<uint64_t>(value)));
}

}  // namespace

std::string cell_of(const Features& f) {
  std::string out;
  const auto add = [&](const char* name, const std::string& value) {
    out += (out.empty() ? "" : " ") + std::string(name) + "=" + value;
  };
  if (f.launches) add("launches", std::to_string(*f.launches));
  if (f.shared_bytes) add("shared", power_of_two(*f.shared_bytes));
  if (f.registers) add("registers", power_of_two(*f.registers));
  if (f.tensor_cores) add("tensor_cores", *f.tensor_cores ? "yes" : "no");
  if (f.threads) add("threads", *f.threads ? "yes" : "no");
  if (!f.tag.empty()) add("tag", f.tag);
  return out;
}

double fitness_of(const JudgedProgram& program) {
  return program.verdict.right() ? program.verdict.low.value_or(0) : 0;
}

std::vector<const JudgedProgram*> elites_of(const std::vector<JudgedProgram>& programs) {
  std::map<std::string, const JudgedProgram*> cells;
  for (const auto& p : programs) {
    if (!p.verdict.right()) continue;
    const auto [at, fresh] = cells.emplace(cell_of(p.features), &p);
    if (!fresh && fitness_of(p) > fitness_of(*at->second)) at->second = &p;
  }
  std::vector<const JudgedProgram*> out;
  for (const auto& [cell, p] : cells) out.push_back(p);
  std::ranges::stable_sort(out, [](const JudgedProgram* a, const JudgedProgram* b) {
    return fitness_of(*a) > fitness_of(*b);
  });
  return out;
}

std::vector<const JudgedProgram*> sampled(const std::vector<JudgedProgram>& programs, size_t count,
                                          std::mt19937_64& random) {
  std::vector<const JudgedProgram*> elites = elites_of(programs), others, out;
  for (const auto& p : programs)
    if (p.verdict.right() && std::ranges::find(elites, &p) == elites.end()) others.push_back(&p);
  if (elites.empty() || count == 0) return out;
  const auto take = [&](std::vector<const JudgedProgram*>& from, size_t at) {
    out.push_back(from[at]);
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(at));
  };
  take(elites, 0);
  while (out.size() < count && (!elites.empty() || !others.empty())) {
    auto& from = others.empty() || (!elites.empty() && out.size() % 2 == 1) ? elites : others;
    take(from, random() % from.size());
  }
  return out;
}

}  // namespace fk
