// SPDX-License-Identifier: Apache-2.0
// Contents of ranks whose sums are judged. Libraries round between ranks, and their sums are right
// on all contents. A sum without one rank, or with rounded float32, is wrong.
#include <cmath>

#include "core/base/error.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/cases/numerics/judgement.hpp"
#include "test/catch.hpp"

namespace {

fk::Contract sum_of(int ranks) {
  return fk::Contract::parse(
      "op: sum\nrevision: 1\nsummary: a sum\naxes: {M: rows, N: columns, NR: ranks}\n"
      "init:\n  - {name: comm, type: comm, axis: NR}\n"
      "forward:\n  - {name: x, role: in, shape: [M, N], dtype: float}\n"
      "  - {name: held, role: in, shape: [M, N], dtype: x, replicated: true}\n"
      "  - {name: out, role: out, shape: [M, N], dtype: x, replicated: true}\n"
      "tolerance: {numerics: reduction, length: NR}\n"
      "cases:\n  smoke:\n    - {NR: " +
          std::to_string(ranks) + ", M: 20, N: 1000}\n",
      "sum.yaml", 1, "test");
}

struct Ranks {
  fk::ErrorModel model;
  std::vector<fk::Tensor> x, held;  // by rank
  Ranks(int ranks, fk::DType dtype, fk::Family family, uint64_t seed) {
    const auto c = sum_of(ranks);
    fk::Variant variant;
    variant.dtypes["x"] = dtype;
    auto resolved = fk::resolve(c, c.cases[0], variant);
    model = fk::error_model(resolved, *resolved.find("out"));
    for (resolved.rank = 0; resolved.rank < ranks; ++resolved.rank) {
      auto values = fk::make_inputs(resolved, seed, 1, family);
      x.push_back(std::move(values.at("x")[0]));
      held.push_back(std::move(values.at("held")[0]));
    }
  }
  fk::Tensor want() const {
    fk::Tensor out(fk::DType::f32, x[0].shape);
    for (int64_t i = 0; i < out.numel(); ++i) {
      double sum = 0;
      for (const auto& of : x) sum += of.at(i);
      out.set(i, sum);
    }
    return out;
  }
  // Adds one rank's term after the other's, and rounds the sum to the dtype every time. `last` says
  // how often the last rank's comes. `travel` is the dtype of terms on their way.
  fk::Tensor in_turn(int last, fk::DType travel) const {
    fk::Tensor sum = x[0];
    for (size_t r = 1; r < x.size(); ++r) {
      const fk::Tensor term = x[r].to(travel);
      for (int n = r + 1 < x.size() ? 1 : last; n > 0; --n)
        for (int64_t i = 0; i < sum.numel(); ++i) sum.set(i, sum.at(i) + term.at(i));
    }
    return sum;
  }
};

}  // namespace

TEST_CASE("sums_over_ranks_rounded_at_every_rank_are_right_on_all_contents") {
  for (const int ranks : {2, 3, 8})
    for (const auto dtype : {fk::DType::f32, fk::DType::bf16})
      for (const auto family : fk::all_families()) {
        for (uint64_t seed = 1; seed <= (kSanitized ? 1 : 12); ++seed) {
          const Ranks of(ranks, dtype, family, seed);
          const fk::Tensor want = of.want();
          const auto honest = fk::judge(of.in_turn(1, dtype), want, of.model);
          INFO(ranks << " ranks, " << fk::name(dtype) << ", " << fk::family_name(family)
                     << ", seed " << seed << ": " << honest.worst << " " << honest.text);
          CHECK(honest.ok);
          CHECK_FALSE(fk::judge(of.in_turn(0, dtype), want, of.model).ok);
          CHECK_FALSE(fk::judge(of.in_turn(2, dtype), want, of.model).ok);
          if (dtype == fk::DType::f32)
            CHECK_FALSE(fk::judge(of.in_turn(1, fk::DType::bf16), want, of.model).ok);
        }
      }
}

TEST_CASE("sums_over_ranks_have_zeros_where_each_rank_has_its_own") {
  for (const auto family : {fk::Family::sparse, fk::Family::denormals}) {
    INFO(fk::family_name(family));
    const Ranks of(3, fk::DType::f32, family, 7);
    int64_t nothing = 0, together = 0;
    for (int64_t i = 0; i < of.x[0].numel(); ++i) {
      const auto none = [&](size_t r) { return std::abs(of.x[r].at(i)) < 0x1p-100; };
      nothing += none(0), together += none(0) == none(1) && none(1) == none(2);
      // All ranks hold the same sum.
      REQUIRE(of.held[1].at(i) == of.held[0].at(i));
      REQUIRE(of.held[2].at(i) == of.held[0].at(i));
    }
    CHECK(nothing > 0);
    CHECK(together < of.x[0].numel());
  }
}
