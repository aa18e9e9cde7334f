// SPDX-License-Identifier: Apache-2.0
// Lists of tensors whose entries differ: in cases, in frames, in recorded graphs.
#include "core/base/error.hpp"
#include "core/cases/case_frames.hpp"
#include "core/check/check.hpp"
#include "core/graph/builder.hpp"
#include "test/catch.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace {

using fk::Shape;

const std::string kBags = R"yaml(op: bags
revision: 1
summary: rows of several tables
axes: {B: bags, V: rows, J: indices, C: channels}
init:
  - {name: tables_count, type: int}
  - {name: rows, type: ints, list: tables_count, axis: V}
  - {name: size, type: int, axis: C}
weights:
  - {name: tables, list: tables_count, shape: [V, C], dtype: float}
forward:
  - {name: starts, role: in, list: tables_count, shape: ["B+1"], dtype: [i64], values: "cu(J)"}
  - {name: ids, role: in, list: tables_count, shape: [J], dtype: [i64], values: "randint(0,V)"}
  - {name: extra, role: in, list: tables_count, shape: [J], dtype: tables, optional: true}
  - {name: out, role: out, shape: [B, tables_count, C], dtype: tables}
cost: {flops: "J*C"}
tolerance: {numerics: reduction, length: J}
cases:
  smoke:
    - {B: 3, J: [5, 0, 9], tables_count: 3, rows: [4, 1, 7], size: 2}
)yaml";

fk::Contract list_contract(const std::string& from = "", const std::string& to = "") {
  std::string text = kBags;
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return fk::Contract::parse(text, "bags.yaml", 1, "test");
}

}  // namespace

TEST_CASE("lists_have_entries_of_their_own_shape") {
  const auto c = list_contract();
  const auto r = fk::resolve(c, c.cases[0], {});
  CHECK(r.find("tables")->shape_of(0) == Shape{4, 2});
  CHECK(r.find("tables")->shape_of(2) == Shape{7, 2});
  CHECK(r.find("ids")->shape_of(1) == Shape{0});
  CHECK(r.find("starts")->entry_shapes.empty());
  CHECK(r.axes.at("J") == 14);  // outside of entries: the sum
  const fk::CaseValues values = fk::make_inputs(r, 1, 1);
  for (size_t k = 0; k < 3; ++k) {
    const auto last = static_cast<double>(values.at("ids")[k].numel());
    CHECK(values.at("starts")[k].at(3) == last);
    for (int64_t j = 0; j < values.at("ids")[k].numel(); ++j)
      CHECK(values.at("ids")[k].at(j) < static_cast<double>(r.listed.at("V")[k]));
  }
  const auto device = fk::open_device("cpu");
  const fk::CaseFrames frames(*device, r, values, {});
  const auto& list = *static_cast<const fk_in_list*>(frames.real().weights[0].p);
  REQUIRE(list.n == 3);
  CHECK(list.at[2]->shape[0] == 7);
  CHECK(frames.bytes() == 4 * (12 * 2) + 8 * (14 + 3 * 4) + 4 * 3 * 3 * 2);
}

TEST_CASE("lists_shrink_with_the_rows_of_a_case") {
  const auto c = list_contract();
  int seen = 0;
  for (const auto& variant : fk::variants_of(c, c.cases[0], false)) {
    const auto r = fk::resolve(c, c.cases[0], variant);
    fk::make_inputs(r, 1, 1);
    if (variant.name == "no rows") CHECK(r.find("ids")->shape_of(2) == Shape{0});
    if (variant.name == "one row") CHECK(r.listed.at("J") == std::vector<int64_t>{1, 0, 1});
    seen += variant.name == "no rows" || variant.name == "one row";
  }
  CHECK(seen == 2);
}

TEST_CASE("lists_that_do_not_fit_are_refused") {
  const auto refused = [](const std::string& from, const std::string& to, const std::string& why) {
    CAPTURE(from, to);
    CHECK_THROWS_WITH(
        [&] {
          const auto c = list_contract(from, to);
          fk::resolve(c, c.cases[0], {});
        }(),
        ContainsSubstring(why));
  };
  refused("rows: [4, 1, 7]", "rows: [4, 1]", "`rows` has 2 values, tables_count is 3");
  refused("J: [5, 0, 9]", "J: [5, 0]", "`J` has 2 values, `ids` 3 entries");
  refused("list: tables_count, axis: V", "axis: V", "`rows` needs 1 values");
  refused("list: tables_count, shape: [V, C]", "list: tables_cont, shape: [V, C]",
          "did you mean `tables_count`?");
}

TEST_CASE("lists_are_checked_when_a_call_is_recorded") {
  const auto root =
      std::filesystem::temp_directory_path() / ("fk_lists" + std::to_string(getpid()));
  std::filesystem::create_directories(root / "ops/l1/test");
  std::ofstream(root / "ops/l1/test/bags.yaml") << kBags;
  const fk::Catalog catalog({root});
  using fk::DType;
  using fk::Value;
  const auto record = [&](int64_t rows, int64_t ids, std::vector<int64_t> sizes) {
    fk::Builder b(catalog, "test", std::make_shared<fk::WeightTable>());
    const auto input = [&](const std::string& name, DType type, fk::Dims shape) {
      return b.input(name, type, std::move(shape));
    };
    const Value starts = input("starts", DType::i64, {b.axis("B") + 1});
    const Value out = b.call("bags", "test",
                             {{"tables_count", 2},
                              {"rows", std::move(sizes)},
                              {"size", 3},
                              {"tables", std::vector<Value>{input("t0", DType::f32, {5, 3}),
                                                            input("t1", DType::f32, {rows, 3})}},
                              {"starts", std::vector<Value>{starts, starts}},
                              {"ids", std::vector<Value>{input("i0", DType::i64, {b.axis("J")}),
                                                         input("i1", DType::i64, {ids})}},
                              {"extra", std::vector<Value>{input("x0", DType::f32, {b.axis("J")}),
                                                           input("x1", DType::f32, {9})}},
                              {"out", b.empty(DType::f32, {b.axis("B"), 2, 3})}});
    CHECK(b.shape(out)[1] == fk::Expr(2));
    const fk::Graph graph = b.finish();
    const fk::Region region(graph, graph.calls[0]);
    CHECK(region.at("ids", 1) == graph.inputs.at("i1"));
    CHECK_THROWS_WITH(region["ids"], ContainsSubstring("`ids` is a list"));
  };
  record(7, 9, {5, 7});
  CHECK_THROWS_WITH(record(6, 9, {5, 7}), ContainsSubstring("`tables` is [6, 3]"));
  CHECK_THROWS_WITH(record(7, 8, {5, 7}), ContainsSubstring("`extra` is [9]"));
  CHECK_THROWS_WITH(record(7, 9, {5}), ContainsSubstring("`rows` has 1 entries"));
  std::filesystem::remove_all(root);
}
