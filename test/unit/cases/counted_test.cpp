// SPDX-License-Identifier: Apache-2.0
// Outputs with a count: what is compared, and which contracts are refused.
#include "core/cases/counted.hpp"

#include "core/base/error.hpp"
#include "test/catch.hpp"

namespace {

using fk::DType;
using fk::Tensor;

std::string text_with(const std::string& pairs, const std::string& counts) {
  return R"yaml(op: found
revision: 1
summary: rows that are found
axes: {K: groups, I: capacity, T: tokens}
init:
  - {name: groups, type: int, axis: K}
forward:
  - {name: x, role: in, shape: [T], dtype: [f32]}
  - {name: pairs, role: out, )yaml" +
         pairs + "}\n  - {name: counts, role: out, " + counts + R"yaml(}
tolerance: {numerics: exact}
cases:
  smoke:
    - {T: 3, I: 4, groups: 2}
)yaml";
}

fk::Contract counted_contract(const std::string& pairs, const std::string& counts) {
  return fk::Contract::parse(text_with(pairs, counts), "found.yaml", 1, "test");
}

Tensor integers(fk::Shape shape, const std::vector<double>& values) {
  Tensor t(DType::i32, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) t.set(static_cast<int64_t>(i), values[i]);
  return t;
}

std::vector<double> values(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.numel(); ++i) out.push_back(t.at(i));
  return out;
}

}  // namespace

TEST_CASE("counted_rows_of_every_group_are_compared_and_no_others") {
  const auto c = counted_contract("shape: [K, I, 2], dtype: [i32], count: counts, order: any",
                                  "shape: [K], dtype: [i32]");
  const auto r = fk::resolve(c, c.cases[0], {});
  const fk::CaseField& field = *r.find("pairs");
  fk::CaseValues outputs;
  outputs["counts"] = {integers({2}, {2, 1})};
  const Tensor pairs =
      integers({2, 4, 2}, {5, 1, 3, 2, -1, -1, -1, -1, 7, 8, -1, -1, -1, -1, -1, -1});
  const fk::Extent extent = fk::extent_of(r, field, 0, outputs);
  CHECK(extent.rows() == 3);
  CHECK(values(fk::valid_part(extent, pairs, false)) == std::vector<double>{5, 1, 3, 2, 7, 8});
  CHECK(values(fk::valid_part(extent, pairs, true)) == std::vector<double>{3, 2, 5, 1, 7, 8});

  outputs["counts"] = {integers({2}, {9, -1})};  // larger than the capacity; not a count
  CHECK(fk::extent_of(r, field, 0, outputs).rows() == 0);
  CHECK(fk::extent_of(r, *r.find("counts"), 0, outputs).rows() == 2);  // has no count itself
}

TEST_CASE("counted_by_one_number_the_first_axis_is_the_capacity") {
  const auto c =
      counted_contract("shape: [I, 3], dtype: [f32], count: counts", "shape: [1], dtype: [i64]");
  CHECK(c.count_axes(c.at("pairs")) == 0);
  const auto r = fk::resolve(c, c.cases[0], {});
  fk::CaseValues outputs;
  outputs["counts"] = {integers({1}, {3})};
  const fk::Extent extent = fk::extent_of(r, *r.find("pairs"), 0, outputs);
  CHECK(extent.capacity == 4);
  CHECK(extent.row == 3);
  CHECK(extent.rows() == 3);
}

TEST_CASE("counted_outputs_that_make_no_sense_are_refused") {
  const auto refused = [](const std::string& pairs, const std::string& counts,
                          const std::string& why) {
    CAPTURE(pairs, counts);
    CHECK_THROWS_WITH(counted_contract(pairs, counts), ContainsSubstring(why));
  };
  const std::string one = "shape: [1], dtype: [i32]";
  refused("shape: [I], dtype: [i32], count: cunts", one, "did you mean `counts`?");
  refused("shape: [I], dtype: [i32], count: x", one, "both are outputs");
  refused("shape: [I], dtype: [i32], count: counts", "shape: [1], dtype: [f32]", "whole numbers");
  refused("shape: [I], dtype: [i32], count: counts", "shape: [I], dtype: [i32]", "no axis is left");
  refused("shape: [K, I], dtype: [i32], count: counts", "shape: [I], dtype: [i32]",
          "the leading axes of `pairs`");
  refused("shape: [I], dtype: [f32], count: counts, order: any", one, "rows of floats");
  refused("shape: [I], dtype: [i32], order: any", one, "only an output with `count` may have an order");
}
