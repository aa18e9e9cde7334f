// SPDX-License-Identifier: Apache-2.0
// A candidate which knows a recording must not know the answers to the judge's calls.
#include "core/cases/recorded_order.hpp"

#include <algorithm>
#include <cstring>

#include "core/tensor/compare.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

namespace {

using fk::DType;
using fk::Shape;
using fk::Tensor;

using Contents = std::map<std::string, std::vector<Tensor>>;

fk::ResolvedCase case_of(const std::string& op, fk::Case source, Contents contents) {
  source.contents = std::make_shared<Contents>(std::move(contents));
  return fk::resolve(catalog().at(op), source, {});
}

// One expert per token, which is its row modulo `experts`.
fk::ResolvedCase align(int64_t tokens, int64_t experts) {
  Tensor ids(DType::i32, {tokens, 1});
  for (int64_t t = 0; t < tokens; ++t) ids.set(t, static_cast<double>(t % experts));
  fk::Case source;
  source.name = "decode.0";
  source.axes = {{"T", tokens}, {"K", 1}};
  source.init = {{"num_experts", std::to_string(experts)}};
  return case_of("moe_align", source, {{"topk_ids", {ids}}});
}

std::vector<double> rows(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.numel(); ++i) out.push_back(t.at(i));
  return out;
}

}  // namespace

TEST_CASE("recorded choices of experts come in another order, and none gets more tokens") {
  const auto resolved = align(64, 16);
  const auto made = [&](uint64_t seed) {
    auto values = fk::make_forward_inputs(resolved, 1, 1, fk::Family::ordinary);
    fk::reorder_recorded(resolved, seed, values);
    return rows(values.at("topk_ids").at(0));
  };
  auto first = made(1);
  const auto recorded = rows(resolved.contents->at("topk_ids")[0]);
  CHECK(first != recorded);
  CHECK(first != made(2));
  CHECK(first == made(1));
  auto sorted = recorded;
  std::sort(sorted.begin(), sorted.end());
  std::sort(first.begin(), first.end());
  CHECK(first == sorted);
}

TEST_CASE("inputs are known where all was recorded and few orders are left") {
  CHECK_FALSE(fk::inputs_are_known(align(64, 16)));
  CHECK(fk::inputs_are_known(align(1, 16)));  // one row
  CHECK(fk::inputs_are_known(align(64, 1)));  // rows that are equal
  CHECK_FALSE(fk::inputs_are_known(align(64, 2)));
  CHECK(fk::inputs_are_known(align(7, 16)));
  auto made_up = align(1, 16);
  made_up.contents = nullptr;
  CHECK_FALSE(fk::inputs_are_known(made_up));
}

TEST_CASE("floats that were recorded are known, and those that are made are not") {
  fk::Case source;
  source.name = "decode.0";
  source.axes = {{"T", 64}};
  source.init = {{"size", "8"}};
  CHECK(fk::inputs_are_known(
      case_of("silu_and_mul", source, {{"x", {Tensor(DType::f32, {64, 16})}}})));
  CHECK_FALSE(fk::inputs_are_known(case_of("silu_and_mul", source, {})));
}
