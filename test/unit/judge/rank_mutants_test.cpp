// SPDX-License-Identifier: Apache-2.0
// The mutation test of a case which several ranks call together. Answers of ranks without
// communication are wrong somewhere. An answer which is right on every rank is no mutant.
#include "core/judge/rank_mutants.hpp"

#include <algorithm>

#include "core/check/rank_oracle.hpp"
#include "test/catch.hpp"

namespace {

fk::Contract sums() {
  return fk::Contract::parse(
      "op: sums\nrevision: 1\nsummary: the sum of the ranks' x\naxes: {T: rows, C: width, NR: "
      "ranks}\n"
      "init:\n  - {name: comm, type: comm, axis: NR}\n"
      "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
      "  - {name: out, role: out, shape: [T, C], dtype: x, replicated: true}\n"
      "tolerance: {numerics: reduction, length: NR}\ncases:\n  smoke:\n    - {NR: 3, T: 6, C: 8}\n",
      "sums.yaml", 1, "test");
}

using Ranks = std::vector<fk::CaseValues>;

// Every rank gets the sum, in the order of the ranks, or with `alone` what it has itself.
Ranks answers(const Ranks& contents, bool alone) {
  Ranks out(contents.size());
  for (size_t r = 0; r < contents.size(); ++r) {
    fk::Tensor sum = contents[alone ? r : 0].at("x")[0].to(fk::DType::f32);
    for (size_t other = 1; !alone && other < contents.size(); ++other) {
      const fk::Tensor x = contents[other].at("x")[0].to(fk::DType::f32);
      for (int64_t i = 0; i < sum.numel(); ++i) sum.set(i, sum.at(i) + x.at(i));
    }
    out[r]["out"].push_back(std::move(sum));
  }
  return out;
}

std::vector<fk::MutantRow> tried(const Ranks& contents, bool alone, double seconds = 1e9) {
  const auto c = sums();
  const auto resolved = fk::resolve(c, c.cases[0], {});
  const auto ask = [&](const Ranks& others) { return answers(others, alone); };
  return fk::try_rank_mutants(resolved, contents, answers(contents, alone), ask, seconds);
}

bool has(const std::vector<fk::MutantRow>& list, const std::string& name) {
  return std::any_of(list.begin(), list.end(), [&](const auto& f) { return f.name == name; });
}

Ranks contents() {
  const auto c = sums();
  return fk::contents_of_ranks(fk::resolve(c, c.cases[0], {}), 1, 1);
}

}  // namespace

TEST_CASE("rank_fakes_that_do_not_talk_are_rejected") {
  const auto all = tried(contents(), false);
  for (const char* name : {"the last rank missing", "inputs of all ranks in bf16", "nobody asked",
                           "all ranks as this one", "zeros in out"})
    CHECK(has(all, name));
  // All ranks have one answer.
  CHECK_FALSE(has(all, "rank 0's answer"));
  for (const auto& mutant : all) {
    INFO(mutant.name);
    CHECK(mutant.rejected);
  }
}

TEST_CASE("rank_fakes_are_none_where_they_are_right") {
  const auto alone = tried(contents(), true);
  CHECK_FALSE(has(alone, "nobody asked"));
  CHECK_FALSE(has(alone, "all ranks as this one"));
  CHECK(has(alone, "rank 0's answer"));
  const Ranks equal(3, contents()[0]);
  CHECK_FALSE(has(tried(equal, false), "all ranks as this one"));
}

// Else a verdict would look as if all had been tried.
TEST_CASE("rank_fakes_that_there_is_no_time_for_are_named") {
  const auto all = tried(contents(), false), none = tried(contents(), false, 0);
  REQUIRE(none.size() >= all.size());  // some of those that are left may be no mutants
  for (const auto& mutant : all) {
    INFO(mutant.name);
    CHECK(has(none, mutant.name));
  }
  for (const auto& mutant : none) {
    INFO(mutant.name);
    // This one is tried whatever the time.
    CHECK((mutant.name == "the last rank missing" ? mutant.rejected : mutant.why == "no time"));
  }
}

TEST_CASE("rank_fakes_without_an_answer_are_named") {
  const auto c = sums();
  const auto resolved = fk::resolve(c, c.cases[0], {});
  const Ranks inputs = contents();
  const auto ask = [&](const Ranks& others) { return Ranks(others.size()); };
  const auto all = fk::try_rank_mutants(resolved, inputs, answers(inputs, false), ask, 1e9);
  for (const char* name : {"the last rank missing", "inputs of all ranks in bf16", "nobody asked",
                           "all ranks as this one"}) {
    INFO(name);
    const auto it = std::find_if(all.begin(), all.end(), [&](auto& f) { return f.name == name; });
    REQUIRE(it != all.end());
    CHECK(it->why == "the oracle has no answer to it");
    CHECK_FALSE(it->rejected);
  }
  CHECK(has(all, "zeros in out"));
}
