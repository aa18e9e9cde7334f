// SPDX-License-Identifier: Apache-2.0
#include "core/judge/plan/default_cases.hpp"

#include <set>

#include "core/base/paths.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

Contract contract_with(const std::string& cases) {
  return Contract::parse(std::string(R"yaml(
op: op
revision: 1
summary: rows, and a bias
axes: {T: rows, C: channels}
init:
  - {name: size, type: int, axis: C, min: 1}
weights:
  - {name: bias, shape: [C], dtype: float, optional: true}
forward:
  - {name: x, role: in, shape: [T, C], dtype: float}
  - {name: out, role: out, shape: [T, C], dtype: x}
cost: {flops: "0"}
tolerance: {numerics: exact}
cases:
)yaml") + cases,
                         "op.yaml", 1, "tensor");
}

std::vector<const Case*> all_of(const Contract& contract) {
  std::vector<const Case*> out;
  for (const Case& source : contract.cases) out.push_back(&source);
  return out;
}

using CaseNames = std::set<std::string>;
CaseNames names_in(const std::map<std::string, std::string>& left_out) {
  CaseNames out;
  for (const auto& [name, why] : left_out) out.insert(name);
  return out;
}

}  // namespace

TEST_CASE("range cases are taken from small to large within their share, and the rest is named") {
  const Contract contract = contract_with(R"yaml(
  range:
    - {name: far, T: 3000000, size: 8}
    - {name: rows, T: 65551, size: 8}
    - {name: width, T: 2, size: 65551}
)yaml");
  const auto on_cpu = ranges_left_out(contract, all_of(contract), false);
  CHECK(names_in(on_cpu) == CaseNames{"far"});
  CHECK(on_cpu.at("far") == "there are 2.0 s for the range cases of an op");
  CHECK(names_in(ranges_left_out(contract, all_of(contract), true)) == CaseNames{"far"});
}

TEST_CASE("a default verdict has every range case of every contract") {
  const Catalog catalog(paths::registry_dirs());
  for (const auto& op : catalog.ops()) {
    const Contract& contract = catalog.at(op);
    std::vector<const Case*> ranges;
    for (const Case& source : contract.cases)
      if (source.size == kRangeSize) ranges.push_back(&source);
    for (const bool gpu : {false, true})
      for (const auto& [name, why] : ranges_left_out(contract, ranges, gpu))
        FAIL_CHECK(op << ", " << name << ": " << why);
  }
}

TEST_CASE("beyond the budget the smallest case of each form is taken, and not timed") {
  const Contract contract = contract_with(R"yaml(
  full:
    - {name: rows_1, T: 300000, size: 8}
    - {name: rows_2, T: 310000, size: 8}
    - {name: rows_3, T: 320000, size: 8}
    - {name: again, T: 400000, size: 8}
    - {name: bias, T: 500000, size: 8, with: [bias]}
    - {name: bias_again, T: 510000, size: 8, with: [bias]}
    - {name: half, T: 900000, size: 8, dtype: {x: bf16}}
    - {name: endless, T: 90000000, size: 8, dtype: {x: f16}}
)yaml");
  const DefaultCases chosen = default_cases(contract, all_of(contract), false);
  CHECK(names_in(chosen.left_out) == CaseNames{"rows_3", "again", "bias_again", "endless"});
  CHECK(chosen.timed == "rows_2");
}

TEST_CASE("each number of ranks is a form") {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at("linear_all_reduce");
  std::vector<const Case*> cases;
  std::set<int64_t> ranks;
  for (const Case& source : contract.cases)
    if (source.size == "ci") cases.push_back(&source);
  const auto left_out = default_cases(contract, cases, false).left_out;
  CHECK_FALSE(left_out.empty());
  for (const Case* source : cases)
    if (!left_out.count(source->name)) ranks.insert(source->axes.at("NR"));
  CHECK(ranks == std::set<int64_t>{2, 3, 4, 8});
}
