// SPDX-License-Identifier: Apache-2.0
#include "core/judge/plan/case_plan.hpp"

#include <algorithm>
#include <set>

#include "core/base/paths.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

CaseVerdict row_of(const std::string& name, const std::string& variant, Status status) {
  CaseVerdict row;
  row.op = "rms_norm";
  row.case_name = name;
  row.variant = variant;
  row.status = status;
  row.size = "smoke";
  row.beside = true;
  return row;
}

std::vector<CasePlanEntry> docket_of(const std::string& op, const JudgeOptions& options) {
  const Catalog catalog(paths::registry_dirs());
  return case_plan({op}, catalog, options);
}

}  // namespace

TEST_CASE("smaller cases come first, once, and only where nobody has named some") {
  JudgeOptions options;
  options.size = "ci";
  const auto all = docket_of("rms_norm", options);
  size_t smaller = 0, as_written = 0, no_rows = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const CaseVerdict& row = all[i].row;
    if (!row.beside || all[i].after) continue;
    CHECK(smaller++ == i);
    CHECK((row.size == "smoke" || row.size == kRangeSize));
    CHECK(all[i].asked.size == row.size);
    CHECK(all[i].asked.variant == row.variant);
    CHECK(all[i].extra == !row.variant.empty());
    CHECK(all[i].other_dtype == (row.variant == "bf16" || row.variant == "f16" ||
                                 row.variant == "f32" || row.variant == "bf16, out f32"));
    as_written += row.variant.empty();
    no_rows += row.variant == "no rows";
  }
  CHECK(as_written >= 5);
  CHECK(no_rows == 2);  // of cases in float32, and of those in bfloat16 for who takes no other
  CHECK(all.size() > smaller);
  CHECK(all.back().after);
  options.cases = {all.back().row.case_name};
  for (const CasePlanEntry& entry : docket_of("rms_norm", options)) CHECK_FALSE(entry.row.beside);
  options = {};
  options.size = "smoke";
  for (const CasePlanEntry& entry : docket_of("rms_norm", options))
    CHECK(entry.row.beside == entry.after);
}

TEST_CASE("smaller cases of a collective are called by no other number of ranks than need be") {
  JudgeOptions options;
  options.size = "ci";
  std::set<int> asked, smaller;
  for (const CasePlanEntry& entry : docket_of("all_reduce", options))
    if (!entry.after) (entry.row.beside ? smaller : asked).insert(entry.row.ranks);
  REQUIRE_FALSE(smaller.empty());
  asked.insert(*smaller.begin());
  CHECK(std::includes(asked.begin(), asked.end(), smaller.begin(), smaller.end()));
}

TEST_CASE("a variant of a smaller case is judged once, where the case is taken") {
  SmallerCases cases;
  const auto judged = [&](const char* name, const char* variant, bool dtype, Status status) {
    const CaseVerdict row = row_of(name, variant, status);
    if (!cases.wants(row, dtype)) return false;
    cases.judged(row);
    return true;
  };
  // A candidate which refuses a case as written gets it in other dtypes, until it takes one.
  CHECK(judged("a", "", false, Status::refused));
  CHECK(judged("a", "bf16", true, Status::correct));
  CHECK(judged("a", "f16", true, Status::refused));  // had by nobody yet
  CHECK_FALSE(judged("a", "no rows", false, Status::correct));
  CHECK(judged("b", "", false, Status::refused));
  CHECK(judged("b", "bf16", true, Status::correct));
  CHECK(judged("b", "f16", true, Status::refused));
  CHECK(judged("c", "", false, Status::correct));
  CHECK_FALSE(judged("c", "bf16", true, Status::correct));
  CHECK(judged("c", "no rows", false, Status::correct));
  CHECK(judged("d", "", false, Status::correct));
  CHECK_FALSE(judged("d", "no rows", false, Status::correct));
  // Every row of a requested case is judged.
  CaseVerdict asked = row_of("full0", "bf16", Status::correct);
  asked.beside = false;
  CHECK(cases.wants(asked, true));
}

TEST_CASE("what nothing can be said of beside the others is left out") {
  std::vector<CaseVerdict> rows;
  for (const Status status : {Status::refused, Status::unused, Status::untestable, Status::unjudged,
                              Status::environment, Status::correct, Status::wrong})
    rows.push_back(row_of(name_of(status), "", status));
  rows.push_back(row_of("asked", "", Status::refused));
  rows.back().beside = false;
  rows.push_back(row_of("failed", "", Status::environment));
  rows.back().why = "the oracle ended";
  settle(rows);
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].case_name == "correct");
  CHECK(rows[1].case_name == "wrong");
  CHECK(rows[2].case_name == "asked");
  CHECK(rows[3].case_name == "failed");
}

namespace {

JudgeOptions by_default(const std::string& device) {
  JudgeOptions options;
  options.thorough = false;
  options.device = device;
  return options;
}

std::set<std::string> names_of(const std::vector<CasePlanEntry>& all, bool left_out) {
  std::set<std::string> out;
  for (const CasePlanEntry& entry : all)
    if (!entry.row.beside && entry.row.left_out == left_out) out.insert(entry.row.case_name);
  return out;
}

}  // namespace

TEST_CASE("a default verdict leaves out cases by what they take, and a thorough one none") {
  using Names = std::set<std::string>;
  const auto on_cpu = docket_of("rms_norm", by_default("cpu"));
  CHECK(names_of(on_cpu, true) == Names{"rows_8192"});
  CHECK(names_of(on_cpu, false) == Names{"full0", "full1"});
  for (const CasePlanEntry& entry : on_cpu) {
    if (entry.row.left_out) CHECK(entry.row.status == Status::unused);
    if (entry.row.left_out) CHECK_FALSE(entry.row.why.empty());
    // Nobody is judged with hidden rows of what was left out.
    if (entry.after) CHECK(entry.row.case_name != "rows_8192");
    if (entry.row.beside || entry.row.left_out) continue;
    CHECK(entry.timed == (entry.row.case_name == "full0"));
    CHECK_FALSE(entry.cheap);
  }
  CHECK(std::ranges::any_of(on_cpu, [](const auto& e) { return e.after; }));
  JudgeOptions thorough = by_default("cpu");
  thorough.thorough = true;
  for (const CasePlanEntry& entry : docket_of("rms_norm", thorough)) {
    CHECK_FALSE(entry.row.left_out);
    CHECK(entry.timed == (entry.row.size != kRangeSize));
    CHECK(entry.cheap);
  }
}

TEST_CASE("range cases are judged beside others, by default and thoroughly, and are never timed") {
  for (const bool thorough : {false, true}) {
    JudgeOptions options = by_default("cpu");
    options.thorough = thorough;
    std::vector<std::string> ranges;
    bool begun = false;
    for (const CasePlanEntry& entry : docket_of("paged_attention", options)) {
      begun |= !entry.row.beside;
      if (entry.row.size != kRangeSize) continue;
      CHECK_FALSE(begun);  // nothing long comes before them
      CHECK(entry.row.beside);
      CHECK_FALSE(entry.timed);
      CHECK_FALSE(entry.after);
      CHECK(entry.extra == entry.other_dtype);
      if (!entry.extra) ranges.push_back(entry.row.case_name);
    }
    CHECK(ranges == std::vector<std::string>{"requests", "context", "page", "heads", "width",
                                             "queries", "offsets"});
  }
  // Memory of a GPU that processes share has no gaps; `check` has these cases there.
  for (const CasePlanEntry& entry : docket_of("paged_attention", by_default("cuda:0")))
    CHECK(entry.row.case_name != "offsets");
  JudgeOptions small = by_default("cpu");
  small.size = "smoke";
  for (const CasePlanEntry& entry : docket_of("paged_attention", small))
    CHECK(entry.row.size != kRangeSize);
}

TEST_CASE("a range case that is left out keeps its row") {
  std::vector<CaseVerdict> rows = {row_of("rows", "", Status::unused),
                                   row_of("full0", "", Status::correct)};
  rows[0].size = kRangeSize;
  rows[0].left_out = true;
  rows[1].beside = false;
  settle(rows);
  REQUIRE(rows.size() == 2);
  const Aggregate all = aggregate_of(rows);
  CHECK(all.left_out == 1);
  CHECK(all.beside == 0);
  CHECK(all.cases == 1);
}

TEST_CASE("small cases, and those that somebody has named, are never left out") {
  const Catalog catalog(paths::registry_dirs());
  for (const auto& op : catalog.ops()) {
    INFO(op);
    const Contract& contract = catalog.at(op);
    JudgeOptions thorough = by_default("cpu");
    thorough.thorough = true;
    const auto small = [](const std::vector<CasePlanEntry>& all) {
      std::vector<std::string> out;
      for (const CasePlanEntry& e : all)
        if (e.row.size == "smoke" && e.cheap) out.push_back(e.row.case_name + e.row.variant);
      return out;
    };
    const auto by_time = docket_of(op, by_default("cpu"));
    CHECK(small(by_time) == small(docket_of(op, thorough)));
    const bool any =
        std::ranges::any_of(contract.cases, [](const Case& c) { return c.size == "full"; });
    // One is judged whatever it takes, and it is timed.
    CHECK(names_of(by_time, false).empty() == !any);
    CHECK(std::ranges::any_of(by_time, [](const CasePlanEntry& e) {
            return e.timed && !e.row.beside && !e.row.left_out;
          }) == any);
  }
  JudgeOptions named = by_default("cpu");
  named.cases = {"rows_8192"};
  CHECK(names_of(docket_of("rms_norm", named), false) == std::set<std::string>{"rows_8192"});
}

TEST_CASE("a GPU's default verdict has larger cases than a CPU's") {
  const auto cpu = names_of(docket_of("linear", by_default("cpu")), false),
             gpu = names_of(docket_of("linear", by_default("cuda:0")), false);
  CHECK(std::ranges::includes(gpu, cpu));
  CHECK(gpu.size() > cpu.size());
}

// `--size full --dtype f32` was accepted, and judged no case in float32.
TEST_CASE("a full case is judged in another dtype on request, and an unknown dtype is refused") {
  JudgeOptions options;
  options.size = "full";
  const auto narrowed = [&] {
    std::set<std::string> out;
    for (const CasePlanEntry& entry : docket_of("silu_and_mul", options))
      if (entry.row.size == "full" && entry.row.variant == "f32") out.insert(entry.row.case_name);
    return out;
  };
  CHECK(narrowed().empty());
  options.variants = {"all"};
  CHECK(narrowed().empty());
  options.variants.clear();
  options.dtypes = {"f32"};
  options.thorough = true;
  CHECK(narrowed().size() > 1);
  options.dtypes = {"bf16"};  // of the cases as written
  CHECK(narrowed().empty());
  options.dtypes = {"f64"};
  CHECK_THROWS_WITH(narrowed(), ContainsSubstring("no full case takes f64"));
}
