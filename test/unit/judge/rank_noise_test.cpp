// SPDX-License-Identifier: Apache-2.0
// A sum which cancels between ranks is as inexact as the ranks' terms.
#include <functional>

#include "core/base/paths.hpp"
#include "core/cases/comparison.hpp"
#include "core/cases/numerics/moved_inputs.hpp"
#include "core/check/rank_oracle.hpp"
#include "core/contract/contract.hpp"
#include "core/tensor/compare.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

constexpr int kRanks = 8;

// The sum of all ranks' x, term by term.
CaseValues sum_of(const std::vector<CaseValues>& ranks, DType dtype,
                  const std::function<double(double sum, double term)>& add) {
  Tensor out(dtype, ranks[0].at("x")[0].shape);
  for (int64_t i = 0; i < out.numel(); ++i) {
    double sum = 0;
    for (const CaseValues& rank : ranks) sum = add(sum, rank.at("x")[0].at(i));
    out.set(i, sum);
  }
  return {{"out", {out}}};
}

}  // namespace

TEST_CASE("sums over ranks that cancel are right in float32, and in nothing less") {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at("all_reduce");
  Case source = contract.cases[0];
  source.axes["NR"] = kRanks, source.axes["M"] = 33, source.axes["N"] = 4000;
  const ResolvedCase resolved = resolve(contract, source, {});
  const auto exact = [](double sum, double term) { return sum + term; };
  const auto in_float = [](double sum, double term) {
    return static_cast<double>(static_cast<float>(sum) + static_cast<float>(term));
  };
  const auto in_bfloat = [](double sum, double term) {
    Tensor one(DType::bf16, {1});
    one.set(0, sum + term);
    return one.at(0);
  };
  int cancelled = 0;
  // In these a rank's own contents said little of the sum.
  for (const uint64_t seed : {4, 16}) {
    auto ranks = contents_of_ranks(resolved, seed, 2, Family::sparse);
    const auto usual = contents_of_ranks(resolved, seed, 2, Family::ordinary);
    // Padding of a model is zero on all ranks.
    for (size_t r = 1; r < ranks.size(); ++r)
      for (int64_t i = 0; i < ranks[r].at("x")[0].numel(); ++i)
        ranks[r].at("x")[0].set(i, ranks[0].at("x")[0].at(i) == 0 ? 0 : usual[r].at("x")[0].at(i));
    const CaseValues want = sum_of(ranks, DType::f32, exact);
    ResolvedCase own = resolved;
    const auto ask = [&](const CaseValues& values, AskReference::Moved moved) {
      std::vector<CaseValues> all = ranks;
      if (moved) move_others(own, *moved, all);
      all[static_cast<size_t>(own.rank)] = values;
      return sum_of(all, DType::f32, exact);
    };
    const auto judged = [&](const CaseValues& got, const AskReference& reference) {
      const CaseValues& inputs = ranks[static_cast<size_t>(own.rank)];
      return compare_outputs(own, inputs, got, want, kMostElements, reference);
    };
    const CaseValues mine = sum_of(ranks, DType::f32, in_float);
    cancelled += !judged(mine, nullptr).ok;
    for (own.rank = 0; own.rank < (kSanitized ? 1 : kRanks); ++own.rank) {
      const Comparison found = judged(mine, ask);
      CAPTURE(seed, own.rank, found.text);
      CHECK(found.ok);
    }
    own.rank = 0;
    CHECK_FALSE(judged(sum_of(ranks, DType::f32, in_bfloat), ask).ok);
    const std::vector<CaseValues> few(ranks.begin(), ranks.end() - 1);
    CHECK_FALSE(judged(sum_of(few, DType::f32, exact), ask).ok);
  }
  CHECK(cancelled == 2);  // or nothing was asked
}

TEST_CASE("each rank moves its own contents, and all alike what they have in common") {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at("all_reduce_add_rms_norm");
  const ResolvedCase resolved = resolve(contract, contract.cases[0], {});
  const auto before = contents_of_ranks(resolved, 3, 1, Family::ordinary);
  auto after = before;
  move_others(resolved, 0, after);
  const auto same = [&](size_t a, size_t b, const char* field) {
    return same_bytes(after[a].at(field)[0], (b == a ? before : after)[b].at(field)[0]);
  };
  REQUIRE(contract.find("residual")->replicated);
  CHECK(same(0, 0, "x"));
  CHECK(same(0, 0, "residual"));
  CHECK_FALSE(same(1, 1, "x"));
  CHECK_FALSE(same(1, 1, "residual"));
  // As the rank that is compared moves it.
  ResolvedCase second = resolved;
  second.rank = 1;
  auto first = before;
  move_others(second, 0, first);
  CHECK(same_bytes(first[0].at("residual")[0], after[1].at("residual")[0]));
  CHECK(same_bytes(first[1].at("x")[0], before[1].at("x")[0]));
}
