// SPDX-License-Identifier: Apache-2.0
// Inputs of cases: values that belong together do, and equal seeds give equal contents.
#include "core/cases/inputs.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/cases/slice.hpp"
#include "test/catch.hpp"

namespace {

// `values` is the generator of the field under test.
fk::Contract input_contract(const std::string& fields, const std::string& cases) {
  return fk::Contract::parse(
      "op: thing\nrevision: 1\nsummary: a thing\n"
      "axes: {T: tokens, B: requests, C: channels, P: pages, W: width, Z: slots, E: experts, J: "
      "rows}\n"
      "init:\n  - {name: size, type: int, axis: C}\n"
      "weights:\n  - {name: weight, shape: [C], dtype: float, optional: true}\n"
      "forward:\n" +
          fields + "tolerance: {numerics: elementwise}\ncases:\n  smoke:\n" + cases,
      "thing.yaml", 1, "test");
}

const std::string kPaged =
    "  - {name: x, role: in, shape: [T, C], dtype: float}\n"
    "  - {name: block_tables, role: in, shape: [B, W], dtype: [i32], values: \"perm(P)\"}\n"
    "  - {name: cu, role: in, shape: [\"B+1\"], dtype: [i32], values: \"cu(T)\"}\n"
    "  - {name: lens, role: in, shape: [B], dtype: [i32], values: \"lens(cu,W*Z)\"}\n"
    "  - {name: slots, role: in, shape: [T], dtype: [i64], values: "
    "\"slots(block_tables,lens,cu,Z)\"}\n"
    "  - {name: positions, role: in, shape: [T], dtype: [i64], values: \"positions(lens,cu)\"}\n"
    "  - {name: out, role: out, shape: [T, C], dtype: x}\n";

}  // namespace

TEST_CASE("inputs_of_paged_requests_belong_together") {
  const auto c = input_contract(kPaged, "    - {T: 23, B: 4, P: 64, W: 8, Z: 4, size: 8}\n");
  for (uint64_t seed = 1; seed < 30; ++seed) {
    const auto resolved = fk::resolve(c, c.cases[0], {});
    const auto v = fk::make_inputs(resolved, seed, 1);
    const auto &cu = v.at("cu")[0], &lens = v.at("lens")[0], &table = v.at("block_tables")[0];
    CHECK(cu.at(0) == 0);
    CHECK(cu.at(4) == 23);
    std::set<double> pages, slots;
    for (int64_t i = 0; i < table.numel(); ++i) pages.insert(table.at(i));
    CHECK(pages.size() == 32);
    for (int64_t b = 0; b < 4; ++b) {
      const double queries = cu.at(b + 1) - cu.at(b);
      CHECK(queries >= 1);
      CHECK(lens.at(b) >= queries);
      CHECK(lens.at(b) <= 32);
      for (auto t = static_cast<int64_t>(cu.at(b)); t < static_cast<int64_t>(cu.at(b + 1)); ++t) {
        const double position = v.at("positions")[0].at(t), slot = v.at("slots")[0].at(t);
        CHECK(position == lens.at(b) - cu.at(b + 1) + static_cast<double>(t));
        const auto page = static_cast<int64_t>(position) / 4;
        CHECK(slot == table.at(b * 8 + page) * 4 + std::fmod(position, 4));
        CHECK(slots.insert(slot).second);  // no two tokens share a slot
      }
    }
  }
}

TEST_CASE("inputs_of_few_tokens_keep_to_the_bound_of_a_request") {
  const auto c =
      input_contract(kPaged + "  - {name: most, type: int, capture: true, expr: T}\n",
                     "    - {T: 3, B: 5, P: 40, W: 8, Z: 4, size: 8, most: 1, values: {slots: "
                     "\"some_slots(block_tables,lens,cu,Z)\"}}\n"
                     "    - {T: 3, B: 2, P: 40, W: 8, Z: 4, size: 8, most: 1}\n");
  const auto resolved = fk::resolve(c, c.cases[0], {});
  std::set<int64_t> without;
  for (uint64_t seed = 1; seed < 30; ++seed) {
    const auto v = fk::make_inputs(resolved, seed, 1);
    const auto &cu = v.at("cu")[0], &slots = v.at("slots")[0];
    CHECK(cu.at(5) == 3);
    for (int64_t b = 0; b < 5; ++b) {
      const double queries = cu.at(b + 1) - cu.at(b);
      CHECK((queries == 0 || queries == 1));
      if (queries == 0) without.insert(b);
    }
    CHECK(slots.at(0) >= 0);
    CHECK(slots.at(1) == -1);
  }
  CHECK(without.size() == 5);  // any of them may be idle
  CHECK_THROWS_AS(fk::make_inputs(fk::resolve(c, c.cases[1], {}), 1, 1), fk::Error);
}

TEST_CASE("inputs_depend_on_the_seed_and_the_names_alone") {
  const auto c = input_contract(kPaged, "    - {T: 5, B: 2, P: 16, W: 4, Z: 4, size: 8}\n");
  const auto resolved = fk::resolve(c, c.cases[0], {});
  const auto bytes = [&](uint64_t seed, const char* field) {
    const auto v = fk::make_inputs(resolved, seed, 1);
    return v.at(field)[0].values();
  };
  CHECK(bytes(1, "x") == bytes(1, "x"));
  CHECK(bytes(1, "x") != bytes(2, "x"));
}

TEST_CASE("inputs_of_routing_belong_together_and_leave_experts_idle") {
  const auto c = input_contract(
      "  - {name: rows, role: in, shape: [J], dtype: [i32], values: \"moe_rows(E)\"}\n"
      "  - {name: offsets, role: in, shape: [\"E+1\"], dtype: [i32], values: \"moe_offsets(E)\"}\n"
      "  - {name: out, role: out, shape: [J, C], dtype: float}\n",
      "    - {J: 24, E: 8, size: 4}\n");
  const auto v = fk::make_inputs(fk::resolve(c, c.cases[0], {}), 3, 1);
  const auto &rows = v.at("rows")[0], &offsets = v.at("offsets")[0];
  CHECK(offsets.at(0) == 0);
  CHECK(offsets.at(8) == 24);
  std::set<double> seen;
  for (int64_t e = 0; e < 8; ++e) {
    CHECK(offsets.at(e) <= offsets.at(e + 1));
    const auto first = static_cast<int64_t>(offsets.at(e)),
               end = static_cast<int64_t>(offsets.at(e + 1));
    for (int64_t j = first; j < end; ++j) {
      seen.insert(rows.at(j));
      if (j > first) CHECK(rows.at(j) > rows.at(j - 1));  // stable within an expert
    }
  }
  CHECK(seen.size() == 24);
}

TEST_CASE("inputs_errors_name_the_case_and_the_field") {
  const std::string out = "  - {name: out, role: out, shape: [T, C], dtype: float}\n";
  const auto make = [&](const std::string& fields, const std::string& axes) {
    const auto c = input_contract(fields + out, "    - {" + axes + ", size: 4}\n");
    return message_of<fk::Error>([&] { fk::make_inputs(fk::resolve(c, c.cases[0], {}), 1, 1); });
  };
  const auto field = [](const std::string& values) {
    return "  - {name: ids, role: in, shape: [T], dtype: [i64], values: \"" + values + "\"}\n";
  };
  CHECK_THAT(make(field("randit(0,C)"), "T: 2"), ContainsSubstring("`randint`"));
  CHECK_THAT(make(field("randint(0)"), "T: 2"), ContainsSubstring("takes 2 arguments"));
  CHECK_THAT(make(field("randint(0,T-2)"), "T: 2"), ContainsSubstring("empty range"));
  CHECK_THAT(make(field("positions(ids,ids)"), "T: 2"), ContainsSubstring("ring"));
  CHECK_THAT(make(field("slots(tables,a,b,Z)"), "T: 2, Z: 1"), ContainsSubstring("tables"));
  CHECK_THAT(make("  - {name: ids, role: in, shape: [T], dtype: [i64]}\n", "T: 2"),
             ContainsSubstring("needs a generator"));
  CHECK_THAT(make(field("arange"), "B: 2"), ContainsSubstring("T"));
}

// Without the tall rows a kernel that leaves small shares of a softmax out would not be seen.
TEST_CASE("inputs_of_sinks_have_a_few_tall_rows") {
  const auto c = input_contract(
      "  - {name: x, role: in, shape: [T, C], dtype: float, values: \"sinks(8)\"}\n"
      "  - {name: out, role: out, shape: [T, C], dtype: x}\n",
      "    - {T: 300, size: 64}\n    - {T: 1, size: 64}\n    - {T: 0, size: 64}\n");
  for (uint64_t seed = 1; seed < 10; ++seed) {
    for (const auto& [at, rows] : {std::pair{0, 3}, {1, 1}, {2, 0}}) {
      const auto resolved = fk::resolve(c, c.cases[static_cast<size_t>(at)], {});
      const fk::Tensor x = fk::make_inputs(resolved, seed, 1).at("x")[0];
      int tall = 0;
      for (int64_t row = 0; row < x.shape[0]; ++row) {
        double sum = 0;
        for (int64_t i = 0; i < 64; ++i) sum += x.at(row * 64 + i);
        CHECK(std::abs(sum / 64) < 11);
        tall += sum / 64 > 7;
      }
      CHECK(tall == rows);
    }
  }
}

TEST_CASE("inputs_of_peaks_have_one_in_every_row") {
  const auto c = input_contract(
      "  - {name: x, role: in, shape: [T, C], dtype: float, values: \"peak(9,-2,-1)\"}\n"
      "  - {name: out, role: out, shape: [T, C], dtype: x}\n",
      "    - {T: 50, size: 64}\n");
  const auto resolved = fk::resolve(c, c.cases[0], {});
  const fk::Tensor x = fk::make_inputs(resolved, 1, 1).at("x")[0];
  std::set<int64_t> places;
  for (int64_t row = 0; row < 50; ++row) {
    int high = 0;
    for (int64_t i = 0; i < 64; ++i) {
      const double v = x.at(row * 64 + i);
      CHECK(((v >= 9 && v < 9.25) || (v >= -2 && v < -1)));
      if (v > 0) ++high, places.insert(i);
    }
    CHECK(high == 1);
  }
  CHECK(places.size() > 20);
}

TEST_CASE("slice_keeps_the_first_requests_with_their_contents") {
  const auto c = input_contract(kPaged, "    - {T: 23, B: 4, P: 64, W: 8, Z: 4, size: 8}\n");
  const auto resolved = fk::resolve(c, c.cases[0], {});
  const auto values = fk::make_inputs(resolved, 1, 1);
  const auto slice = fk::first_rows(resolved, c.cases[0], {}, values, 2);
  REQUIRE(slice);
  const auto tokens = static_cast<int64_t>(values.at("cu")[0].at(2));
  CHECK(slice->resolved.axes.at("B") == 2);
  CHECK(slice->resolved.axes.at("T") == tokens);
  CHECK(slice->outputs == std::vector<std::string>{"out"});
  CHECK(slice->values.at("x")[0].shape == fk::Shape{tokens, 8});
  CHECK(slice->values.at("x")[0].at(tokens * 8 - 1) == values.at("x")[0].at(tokens * 8 - 1));
  CHECK_FALSE(fk::first_rows(resolved, c.cases[0], {}, values, 4));
}

TEST_CASE("inputs_of_pyramids_fill_their_pixels") {
  const auto c = input_contract(
      "  - {name: shapes, role: in, shape: [3, 2], dtype: [i64], values: \"levels(T)\"}\n"
      "  - {name: starts, role: in, shape: [3], dtype: [i64], values: "
      "\"level_starts(shapes,T)\"}\n",
      "    - {T: 8400, size: 1}\n    - {T: 101, size: 1}\n    - {T: 0, size: 1}\n");
  const auto whole = fk::make_inputs(fk::resolve(c, c.cases[0], {}), 1, 1);
  for (int64_t i = 0; i < 6; ++i) CHECK(whole.at("shapes")[0].at(i) == 80 >> i / 2);
  // Each has rows of its own, wherever it begins.
  std::set<std::vector<double>> seen;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    for (const fk::Case& source : c.cases) {
      const auto v = fk::make_inputs(fk::resolve(c, source, {}), seed, 1);
      const fk::Tensor &shapes = v.at("shapes")[0], &starts = v.at("starts")[0];
      std::vector<int> rows(static_cast<size_t>(source.axes.at("T")));
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t at = 0; at < static_cast<int64_t>(shapes.at(2 * i) * shapes.at(2 * i + 1));
             ++at)
          ++rows.at(static_cast<size_t>(starts.at(i)) + static_cast<size_t>(at));
      CHECK(std::count_if(rows.begin(), rows.end(), [](int n) { return n > 1; }) == 0);
      if (source.axes.at("T") == 8400) seen.insert(starts.values());
    }
  }
  CHECK(seen.size() == 6);  // all orders
}

TEST_CASE("inputs_of_voxels_are_distinct_cells") {
  const auto c = input_contract(
      "  - {name: coords, role: in, shape: [T, 4], dtype: [i32], values: \"voxels(B,P,W,Z)\"}\n",
      "    - {T: 24, B: 2, P: 2, W: 3, Z: 2, size: 1}\n    - {T: 25, B: 2, P: 2, W: 3, Z: 2, size: "
      "1}\n");
  const auto v = fk::make_inputs(fk::resolve(c, c.cases[0], {}), 1, 1);
  std::set<std::vector<double>> cells;
  for (int64_t i = 0; i < 24; ++i) {
    std::vector<double> cell;
    for (int64_t j = 0; j < 4; ++j) {
      cell.push_back(v.at("coords")[0].at(4 * i + j));
      CHECK(cell.back() < (j == 2 ? 3 : 2));
    }
    cells.insert(cell);
  }
  CHECK(cells.size() == 24);  // every cell that there is
  CHECK_THROWS_WITH(fk::make_inputs(fk::resolve(c, c.cases[1], {}), 1, 1),
                    ContainsSubstring("more voxels than"));
}

TEST_CASE("a_case_gives_a_tighter_bound_for_its_own_sizes_alone") {
  const std::string fields =
      "  - {name: x, role: in, shape: [T, C], dtype: float}\n"
      "  - {name: cu, role: in, shape: [\"B+1\"], dtype: [i32], values: \"cu(T)\"}\n"
      "  - {name: most, type: int, capture: true, expr: T}\n"
      "  - {name: out, role: out, shape: [T, C], dtype: x}\n";
  const auto c = input_contract(fields,
                                "    - {T: 3, B: 3, size: 8, most: 1}\n"
                                "    - {T: 3, B: 3, size: 8}\n");
  CHECK(fk::resolve(c, c.cases[0], {}).scalars[2].i == 1);
  CHECK(fk::resolve(c, c.cases[1], {}).scalars[2].i == 3);
  fk::Variant larger;
  larger.axes["T"] = 5;
  CHECK(fk::resolve(c, c.cases[0], larger).scalars[2].i == 5);
  fk::Variant fewer;  // requests of one token each
  fewer.axes = {{"T", 2}, {"B", 2}};
  CHECK(fk::resolve(c, c.cases[0], fewer).scalars[2].i == 1);
  CHECK(fk::resolve(c, c.cases[1], fewer).scalars[2].i == 2);
  fk::Variant padded;
  padded.layout = fk::Variant::Layout::padded;
  CHECK(fk::resolve(c, c.cases[0], padded).scalars[2].i == 1);
  CHECK_THROWS_WITH(input_contract(fields, "    - {T: 3, B: 3, size: 8, mots: 1}\n"),
                    ContainsSubstring("unknown key `mots`") && ContainsSubstring("most"));
  CHECK_THROWS_WITH(input_contract(fields, "    - {T: 3, B: 3, size: 8, most: -1}\n"),
                    ContainsSubstring("most") && ContainsSubstring("bound"));
}

// A bound that is below what the inputs reach would be a lie to a kernel.
TEST_CASE("bounds_that_cases_of_the_registry_give_hold") {
  const fk::Catalog catalog(fk::paths::registry_dirs());
  int given = 0;
  for (const auto& op : catalog.ops()) {
    const fk::Contract& c = catalog.at(op);
    for (const auto& source : c.cases) {
      const auto bound = source.scalars.find("max_query_len");
      if (bound == source.scalars.end() || source.size == "full") continue;
      INFO(op << " " << source.size << " " << source.name);
      const auto values = fk::make_inputs(fk::resolve(c, source, {}), 7, 1);
      const auto& starts = values.at("cu_seqlens").at(0);
      for (int64_t b = 0; b + 1 < starts.numel(); ++b)
        CHECK(starts.at(b + 1) - starts.at(b) <= static_cast<double>(bound->second));
      ++given;
    }
  }
  CHECK(given >= 10);
}

TEST_CASE("inputs_of_a_rotary_table_have_to_be_read") {
  const auto c = input_contract(
      "  - {name: table, role: in, shape: [T, C], dtype: [f32], values: \"rope(T,C)\"}\n",
      "    - {T: 9, size: 6}\n");
  const auto resolved = fk::resolve(c, c.cases[0], {});
  const fk::Tensor one = fk::make_inputs(resolved, 1, 1).at("table")[0];
  const fk::Tensor two = fk::make_inputs(resolved, 2, 1).at("table")[0];
  CHECK(one.at(0) != two.at(0));
  // A table of one factor has an angle of its own in every column, which the position multiplies.
  const double factor = one.at(0);
  for (int64_t i = 0; i < 3; ++i) {
    const double angle = std::atan2(one.at(6 + 3 + i), one.at(6 + i));
    CHECK(std::abs(angle - std::atan2(two.at(6 + 3 + i), two.at(6 + i))) > 1e-4);
    for (int64_t p = 0; p < 9; ++p) {
      CHECK(one.at(6 * p + i) == Approx(factor * std::cos(angle * double(p))).margin(1e-5));
      CHECK(one.at(6 * p + 3 + i) == Approx(factor * std::sin(angle * double(p))).margin(1e-5));
    }
  }
}

TEST_CASE("inputs_of_trees_and_of_rows_that_differ") {
  const auto c = input_contract(
      "  - {name: cu, role: in, shape: [\"B+1\"], dtype: [i32], values: \"cu(T)\"}\n"
      "  - {name: lens, role: in, shape: [B], dtype: [i32], values: \"lens(cu,W)\"}\n"
      "  - {name: nodes, role: in, shape: [B], dtype: [i32], values: \"nodes(cu,lens,P)\"}\n"
      "  - {name: mode, role: in, shape: [B], dtype: [f32], values: \"either(0,1,2)\"}\n",
      "    - {T: 12, B: 4, W: 20, P: 15, size: 1}\n");
  const auto resolved = fk::resolve(c, c.cases[0], {});
  int more = 0, first = 0;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const auto v = fk::make_inputs(resolved, seed, 1);
    for (int64_t b = 0; b < 4; ++b) {
      const double queries = v.at("cu")[0].at(b + 1) - v.at("cu")[0].at(b);
      const double nodes = v.at("nodes")[0].at(b);
      CHECK(nodes >= queries);
      CHECK(nodes <= std::max(queries, std::min(15.0, v.at("lens")[0].at(b) - 1)));
      more += nodes > queries;
    }
    const fk::Tensor& mode = v.at("mode")[0];
    CHECK((mode.at(0) == 0) != (mode.at(1) == 0));
    for (int64_t b = 0; b < 4; ++b) CHECK((mode.at(b) == 0 || (mode.at(b) >= 1 && mode.at(b) < 2)));
    first += mode.at(0) == 0;
  }
  CHECK(more > 0);
  CHECK((first > 0 && first < 19));
}
