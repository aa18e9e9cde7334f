// SPDX-License-Identifier: Apache-2.0
// Families of inputs: what they change, what they leave alone, and that nobody can foresee where.
#include "core/cases/numerics/families.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "core/base/error.hpp"
#include "test/catch.hpp"

namespace {

using fk::Family;

fk::Contract family_contract(int level = 1, const std::string& values = "") {
  return fk::Contract::parse(
      "op: thing\nrevision: 1\nsummary: a thing\n"
      "axes: {T: tokens, C: channels}\n"
      "init:\n  - {name: size, type: int, axis: C}\n"
      "weights:\n  - {name: weight, shape: [C, C], dtype: x}\n"
      "forward:\n"
      "  - {name: x, role: in, shape: [T, C], dtype: float" +
          values +
          "}\n"
          "  - {name: share, role: in, shape: [T], dtype: [f32], values: \"uniform(0.25,C)\"}\n"
          "  - {name: fixed, role: in, shape: [T], dtype: [f32], values: \"constant(2)\"}\n"
          "  - {name: ids, role: in, shape: [T], dtype: [i32], values: \"randint(0,C)\"}\n"
          "  - {name: out, role: out, shape: [T, C], dtype: x}\n"
          "tolerance: {numerics: elementwise}\ncases:\n  smoke:\n    - {T: 64, size: 32}\n",
      "thing.yaml", level, "test");
}

fk::CaseValues make(const fk::Contract& c, Family family, uint64_t seed,
                    fk::DType dtype = fk::DType::f32, int threads = 1) {
  fk::Variant variant;
  variant.dtypes["x"] = dtype;
  return fk::make_inputs(fk::resolve(c, c.cases[0], variant), seed, threads, family);
}

bool same(const fk::Tensor& a, const fk::Tensor& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

double deviation(const std::vector<double>& v) {
  double mean = 0, squares = 0;
  for (const double x : v) mean += x / static_cast<double>(v.size());
  for (const double x : v) squares += (x - mean) * (x - mean);
  return std::sqrt(squares / static_cast<double>(v.size()));
}

}  // namespace

TEST_CASE("families_change_free_floats_alone_and_stay_within_ranges") {
  const auto c = family_contract();
  for (const Family family : fk::all_families()) {
    for (const auto dtype : {fk::DType::f32, fk::DType::bf16, fk::DType::f16}) {
      for (uint64_t seed = 1; seed < 9; ++seed) {
        INFO(fk::family_name(family) << " in " << fk::name(dtype) << ", seed " << seed);
        const auto plain = make(c, Family::ordinary, seed, dtype);
        const auto v = make(c, family, seed, dtype);
        CHECK(same(v.at("fixed")[0], plain.at("fixed")[0]));
        // With outliers two of them change places.
        auto ids = v.at("ids")[0].values(), plain_ids = plain.at("ids")[0].values();
        size_t moved = 0;
        for (size_t i = 0; i < ids.size(); ++i) moved += ids[i] != plain_ids[i];
        CHECK(moved == (family == Family::outliers ? 2 : 0));
        std::ranges::sort(ids), std::ranges::sort(plain_ids);
        CHECK(ids == plain_ids);
        for (const double s : v.at("share")[0].values()) {
          CHECK(s >= 0.25);
          CHECK(s < 32);
        }
        for (const double x : v.at("x")[0].values()) CHECK(std::isfinite(x));
        const bool changed = !same(v.at("x")[0], plain.at("x")[0]) ||
                             !same(v.at("weight")[0], plain.at("weight")[0]) ||
                             !same(v.at("share")[0], plain.at("share")[0]);
        const bool own =
            family == Family::ordinary || family == Family::unread || family == Family::masked;
        CHECK(changed == !own);
        CHECK(same(v.at("x")[0], make(c, family, seed, dtype, 4).at("x")[0]));
        if (!own) CHECK_FALSE(same(v.at("x")[0], make(c, family, seed + 100, dtype).at("x")[0]));
      }
    }
  }
}

TEST_CASE("families_of_whole_layers_leave_weights_alone") {
  const auto c = family_contract(3);
  for (const Family family : fk::all_families())
    CHECK(same(make(c, family, 3).at("weight")[0], make(c, Family::ordinary, 3).at("weight")[0]));
}

// Large inputs change at least one bfloat16 tensor, and only a tensor whose change is its size
// alone.
TEST_CASE("families_of_large_bfloat16_are_beyond_float16") {
  const auto beyond = [](const fk::Contract& c, fk::DType dtype, uint64_t seed) {
    const auto values = make(c, Family::large, seed, dtype);
    double most = 0;
    for (const char* field : {"x", "weight"})
      for (const double v : values.at(field)[0].values()) most = std::max(most, std::abs(v));
    CHECK(most < 1e6);
    return most > 65504;
  };
  for (uint64_t seed = 1; seed < 30; ++seed) {
    INFO("seed " << seed);
    CHECK(beyond(family_contract(), fk::DType::bf16, seed));
    CHECK_FALSE(beyond(family_contract(), fk::DType::f32, seed));
    CHECK_FALSE(beyond(family_contract(), fk::DType::f16, seed));
    CHECK_FALSE(beyond(family_contract(3), fk::DType::bf16, seed));
  }
  const auto layer = [](const std::string& inout) {
    return fk::Contract::parse(
        "op: layer\nrevision: 1\nsummary: a layer\naxes: {T: tokens, C: channels}\n"
        "init:\n  - {name: size, type: int, axis: C}\nforward:\n"
        "  - {name: x, role: inout, shape: [T, C], dtype: float" +
            inout +
            "}\n  - {name: at, role: in, shape: [T], dtype: [i64], values: arange}\n"
            "tolerance: {numerics: softmax}\ncases:\n  smoke:\n    - {T: 64, size: 32}\n",
        "layer.yaml", 3, "test");
  };
  for (const auto& [inout, expected] :
       {std::pair{"", true}, {", layout: strided, writes: \"flat(T)[at]\"", false}}) {
    const auto c = layer(inout);
    fk::Variant variant;
    variant.dtypes["x"] = fk::DType::bf16;
    const auto r = fk::resolve(c, c.cases[0], variant);
    INFO(inout);
    CHECK(fk::family_may_go_beyond(r, *r.find("x")) == expected);
    const auto v = fk::make_inputs(r, 1, 1, Family::large).at("x")[0].values();
    CHECK(std::ranges::any_of(v, [](double x) { return std::abs(x) > 65504; }) == expected);
  }
}

TEST_CASE("families_are_what_their_names_say") {
  const auto c = family_contract();
  const std::vector<double> plain = make(c, Family::ordinary, 5).at("x")[0].values();
  // With this seed some leave x alone, so each is looked at where it changed.
  std::map<Family, int> seen;
  for (uint64_t seed = 1; seed < 40; ++seed) {
    for (const Family family : fk::all_families()) {
      const auto before = make(c, Family::ordinary, seed).at("x")[0].values();
      const auto v = make(c, family, seed).at("x")[0].values();
      if (v == before) continue;
      ++seen[family];
      INFO(fk::family_name(family) << ", seed " << seed);
      const std::set<double> distinct(v.begin(), v.end());
      const auto zeros = std::count(v.begin(), v.end(), 0.0);
      double largest = 0, mean = 0;
      int64_t tiny = 0;
      for (const double x : v) {
        largest = std::max(largest, std::abs(x));
        mean += x / static_cast<double>(v.size());
        tiny += x != 0 && std::abs(x) < 0x1p-126;
      }
      switch (family) {
        case Family::ordinary:
        case Family::unread:
        case Family::masked:
          FAIL("it changes nothing here");
          break;
        case Family::large:
          CHECK(deviation(v) > 1.8);
          break;
        case Family::small:
          CHECK(deviation(v) < 0.45);
          break;
        case Family::shift:
          CHECK(std::abs(mean) > 3.5);
          break;
        case Family::heavy_tails:
          CHECK(largest > 8);
          break;
        case Family::ties:
          CHECK(distinct.size() < 20);
          break;
        case Family::sparse:
          CHECK((zeros > 1300 && zeros < 2048));
          break;
        case Family::denormals:
          CHECK((tiny > 300 && tiny < 1400));
          break;
        case Family::permuted: {
          CHECK(distinct == std::set<double>(before.begin(), before.end()));
          for (size_t row = 0; row < 64; ++row) {
            const auto at = static_cast<std::ptrdiff_t>(row * 32);
            CHECK_FALSE(std::equal(v.begin() + at, v.begin() + at + 32, before.begin() + at));
          }
          break;
        }
        case Family::equal:
          CHECK((distinct.size() == 1 && zeros == 0));
          break;
        case Family::outliers:
          CHECK(largest > 10);
          break;
        case Family::rows: {
          CHECK((zeros > 32 * 3 && zeros < 32 * 30 && zeros % 32 == 0));
          double size[64] = {};
          for (size_t i = 0; i < v.size(); ++i)
            size[i / 32] = std::max(size[i / 32], std::abs(v[i]));
          CHECK(std::min(size[0], size[1]) == 0);
          CHECK(std::max(size[0], size[1]) > 1);
          CHECK(std::ranges::count_if(size, [](double s) { return s > 0 && s < 0.01; }) > 5);
          break;
        }
      }
    }
  }
  CHECK(plain.size() == 2048);
  for (const Family family : fk::all_families())
    if (family != Family::ordinary && family != Family::unread && family != Family::masked)
      CHECK(seen[family] > 10);
  CHECK(fk::family_of("ties") == Family::ties);
  CHECK_THROWS_WITH(fk::family_of("tie"), ContainsSubstring("did you mean `ties`"));
}

TEST_CASE("families_permute_tensors_with_the_same_first_axis_alike") {
  const auto c = family_contract();
  const auto plain = make(c, Family::ordinary, 2), v = make(c, Family::permuted, 2);
  for (int64_t row = 0; row < 64; ++row) {
    int64_t from = 0;
    while (plain.at("share")[0].at(from) != v.at("share")[0].at(row)) ++from;
    CHECK(v.at("x")[0].at(row * 32 + 7) == plain.at("x")[0].at(from * 32 + 7));
  }
}

TEST_CASE("families_that_do_not_fit_say_why") {
  const auto fixed = fk::Contract::parse(
      "op: thing\nrevision: 1\nsummary: a thing\naxes: {T: tokens}\n"
      "forward:\n  - {name: p, role: in, shape: [T], dtype: float, values: \"uniform(0.5,2)\"}\n"
      "  - {name: out, role: out, shape: [T], dtype: p}\n"
      "tolerance: {numerics: elementwise}\ncases:\n  smoke:\n    - {T: 4}\n    - {T: 4, values: "
      "{p: constant(1)}}\n",
      "thing.yaml", 1, "test");
  const auto range = fk::resolve(fixed, fixed.cases[0], {});
  CHECK_THAT(fk::family_unfit(range, Family::large), ContainsSubstring("ranges"));
  CHECK_THAT(fk::family_unfit(range, Family::sparse), ContainsSubstring("may be changed so"));
  CHECK(fk::family_unfit(range, Family::ties).empty());
  CHECK(fk::family_unfit(range, Family::ordinary).empty());
  const auto constant = fk::resolve(fixed, fixed.cases[1], {});
  CHECK_THAT(fk::family_unfit(constant, Family::ties), ContainsSubstring("free to change"));
  // Every fitting family changes some input.
  for (const Family family : fk::all_families()) {
    const auto plain = fk::make_inputs(range, 1, 1), v = fk::make_inputs(range, 1, 1, family);
    const bool changed = !same(plain.at("p")[0], v.at("p")[0]);
    CHECK(changed == (family != Family::ordinary && fk::family_unfit(range, family).empty()));
  }
}

TEST_CASE("families_whose_answer_judges_nothing_say_why") {
  const auto c = family_contract();
  fk::Variant half;
  half.dtypes["x"] = fk::DType::f16;
  const auto r = fk::resolve(c, c.cases[0], half);
  fk::CaseValues want;
  const auto with = [&](const std::vector<double>& values, Family family) {
    want["out"].assign(1, fk::Tensor::of(fk::DType::f32, {3}, values));
    return fk::family_meaningless(r, family, want);
  };
  CHECK(with({1, 2, 3}, Family::large).empty());
  CHECK_THAT(with({1, 2, 70000}, Family::large), ContainsSubstring("out overflows f16"));
  CHECK_THAT(with({1, 2, std::nan("")}, Family::large), ContainsSubstring("overflows"));
  CHECK_THAT(with({2, 2, 2}, Family::equal), ContainsSubstring("the same number"));
  CHECK(with({2, 2, 2}, Family::ordinary).empty());
}

TEST_CASE("families_are_judged_by_the_rows_that_there_are") {
  const auto c = fk::Contract::parse(
      "op: thing\nrevision: 1\nsummary: a thing\naxes: {T: tokens}\n"
      "forward:\n  - {name: p, role: in, shape: [T], dtype: float}\n"
      "  - {name: out, role: out, shape: [T], dtype: p, count: n}\n"
      "  - {name: n, role: out, shape: [1], dtype: [i32]}\n"
      "tolerance: {numerics: elementwise}\ncases:\n  smoke:\n    - {T: 4}\n",
      "thing.yaml", 1, "test");
  const auto r = fk::resolve(c, c.cases[0], {});
  fk::CaseValues want;
  want["out"].assign(1, fk::Tensor::of(fk::DType::f32, {4}, {1, 2, std::nan(""), 5}));
  want["n"].assign(1, fk::Tensor::of(fk::DType::i32, {1}, {2}));
  CHECK(fk::family_meaningless(r, Family::large, want).empty());
  want["n"].assign(1, fk::Tensor::of(fk::DType::i32, {1}, {3}));
  CHECK_THAT(fk::family_meaningless(r, Family::large, want), ContainsSubstring("overflows"));
}
