// SPDX-License-Identifier: Apache-2.0
// Bytes that ranks must bring to each other, counted: too many would condemn honest kernels.
#include "core/cases/received.hpp"

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "test/catch.hpp"

namespace {

using fk::Tensor;

// Four tokens of two choices each on every one of three ranks, which have two experts each.
fk::Contract routed(const std::string& wire) {
  return fk::Contract::parse(
      "op: sent\nrevision: 1\nsummary: tokens go to experts\n"
      "axes: {T: tokens, K: choices, E: experts, NR: ranks}\n"
      "init:\n  - {name: comm, type: comm, axis: NR}\n"
      "  - {name: num_experts, type: int, axis: E}\n"
      "forward:\n  - {name: x, role: in, shape: [T], dtype: float}\n"
      "  - {name: ids, role: in, shape: [T, K], dtype: [i32], values: unique(E)}\n"
      "  - {name: out, role: out, shape: [T], dtype: x}\n"
      "cost: {flops: \"0\", wire: \"" +
          wire +
          "\"}\ntolerance: {numerics: elementwise}\ncases:\n"
          "  smoke:\n    - {NR: 3, T: 4, K: 2, num_experts: 6}\n",
      "sent.yaml", 1, "test");
}

double bytes(const std::string& wire) {
  const int experts[3][4][2] = {{{0, 1}, {2, 3}, {0, 4}, {1, 0}},
                                {{2, 3}, {3, 2}, {2, 3}, {0, 5}},
                                {{2, 0}, {2, 3}, {3, 4}, {5, 4}}};
  const fk::Contract contract = routed(wire);
  const auto resolved = fk::resolve(contract, contract.cases[0], {});
  return fk::wire_bytes(resolved, [&](const fk::ResolvedCase& there, const std::string& field) {
    REQUIRE(field == "ids");
    Tensor out(fk::DType::i32, {4, 2});
    for (int t = 0; t < 4; ++t)
      for (int k = 0; k < 2; ++k) out.set(2 * t + k, experts[there.rank][t][k]);
    return out;
  });
}

}  // namespace

TEST_CASE("wire_counts_each_token_once_for_each_rank_that_it_comes_to") {
  // To rank 1 come one token of rank 0, for two experts, and three of rank 2.
  CHECK(bytes("tokens_in") == 4);
  // Rank 2 has three tokens with an expert elsewhere, rank 0 two, rank 1 one.
  CHECK(bytes("tokens_out") == 3);
  // One rank alone: 2 in and 2 out, 4 and 1, 2 and 3.
  CHECK(bytes("10*tokens_in+7*tokens_out") == 47);
  CHECK(bytes("2*T*(NR-1)") == 16);
}

TEST_CASE("wire_is_of_ops_with_ranks") {
  CHECK_THROWS_AS(
      fk::Contract::parse("op: lonely\nrevision: 1\nsummary: none\naxes: {T: tokens}\n"
                          "forward:\n  - {name: x, role: in, shape: [T], dtype: float}\n"
                          "  - {name: out, role: out, shape: [T], dtype: x}\ncost: {wire: 2*T}\n"
                          "tolerance: {numerics: elementwise}\ncases:\n  smoke:\n    - {T: 3}\n",
                          "lonely.yaml", 1, "test"),
      fk::Error);
}

// Four ranks: a part of a sum that all have is gathered and given out, a part of one rank is sent
// to it.
TEST_CASE("wire_of_the_registry_is_that_of_the_busiest_rank") {
  const fk::Catalog catalog(fk::paths::registry_dirs());
  const auto wire = [&](const std::string& op, const fk::Axes& axes) {
    return catalog.at(op).wire->eval(axes);
  };
  const fk::Axes rows = {{"NR", 4}, {"M", 3}, {"N", 16}, {"K", 5}, {"O", 50}};
  CHECK(wire("all_reduce", rows) == 2 * 2 * 3 * (3 * 16) / 4);
  CHECK(wire("reduce_scatter", rows) == 2 * 3 * (3 * 16));
  CHECK(wire("all_gather_columns", rows) == 2 * 3 * (50 - 2));  // the last rank has two of its own
  CHECK(wire("linear_reduce_scatter", rows) == 2 * 3 * (3 * 5));
  CHECK(wire("linear_all_reduce", rows) == 2 * 3 * 15);
  CHECK(wire("all_reduce_add_rms_norm", {{"NR", 4}, {"T", 3}, {"C", 16}}) == 2 * 2 * 3 * 48 / 4);
  for (const char* op : {"moe_dispatch", "moe_combine"}) {
    CHECK(wire(op, {{"C", 16}, {"tokens_in", 7}, {"tokens_out", 3}}) == 2 * 16 * 7);
    CHECK(wire(op, {{"C", 16}, {"tokens_in", 2}, {"tokens_out", 3}}) == 2 * 16 * 3);
  }
}

// An op alone on a machine waits for no link, and no rank gets more than all inputs.
TEST_CASE("wire_of_the_registry_is_nothing_with_one_rank_and_less_than_all_inputs") {
  const fk::Catalog catalog(fk::paths::registry_dirs());
  int seen = 0;
  for (const std::string& op : catalog.ops()) {
    const fk::Contract& contract = catalog.at(op);
    if (!contract.wire) continue;
    INFO(op);
    for (const fk::Case& source : contract.cases) {
      if (source.size == "full") continue;
      const auto choices = [](const fk::ResolvedCase& there, const std::string& field) {
        return fk::make_field(there, field, 7, 1).at(0);
      };
      const auto resolved = fk::resolve(contract, source, {});
      const double together = fk::wire_bytes(resolved, choices);
      double inputs = 0;
      for (const auto& field : resolved.fields)
        if (field.present && field.slot->role != fk::Role::out)
          inputs += 2.0 * static_cast<double>(field.entries * fk::numel(field.shape));
      const auto ranks = static_cast<double>(resolved.axes.at(contract.comm()->axis));
      CHECK(together <= (ranks - 1) * inputs);
      seen += together > 0;
      fk::Case alone = source;
      alone.axes[contract.comm()->axis] = 1;
      if (op == "all_gather_columns") alone.init["out_features"] = "1";
      CHECK(fk::wire_bytes(fk::resolve(contract, alone, {}), choices) == 0);
    }
  }
  CHECK(seen > 20);
}
