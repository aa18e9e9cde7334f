// SPDX-License-Identifier: Apache-2.0
#include "core/judge/plan/hidden_shapes.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/paths.hpp"
#include "core/judge/plan/case_plan.hpp"
#include "core/judge/plan/hidden_cases.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

const Case& case_of_size(const Contract& contract, const std::string& size, size_t nth = 0) {
  for (const Case& source : contract.cases)
    if (source.size == size && nth-- == 0) return source;
  throw std::out_of_range(size);
}

std::set<int64_t> drawn_of_width(const Contract& contract, const Case& source,
                                 const std::string& width) {
  std::set<int64_t> out;
  Random random(7);
  for (int i = 0; i < 200; ++i)
    if (const auto hidden = draw_width(contract, source, width, random.next())) out.insert(*hidden);
  return out;
}

CaseVerdict judged_as(const std::string& name, const std::string& variant, Status status) {
  CaseVerdict row;
  row.op = "gelu";
  row.case_name = name;
  row.variant = variant;
  row.beside = !variant.empty();
  row.status = status;
  return row;
}

}  // namespace

TEST_CASE("a hidden width is more than half of the case's, less than it, and no case's own") {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at("silu_and_mul");
  const Case source = case_of_size(contract, "ci");
  CHECK(width_variants(contract, source) ==
        std::vector<std::string>{"hidden rows of another size"});
  const auto widths = drawn_of_width(contract, source, "size");
  CHECK(*widths.begin() > 512);
  CHECK(*widths.rbegin() < 1024);
  CHECK(widths.size() > 60);
  // Blocks of 64 and ends that fill none.
  CHECK(std::ranges::count_if(widths, [](int64_t w) { return w % 64 == 0; }) > 4);
  CHECK(std::ranges::count_if(widths, [](int64_t w) { return w % 2 == 1; }) > 15);
  CHECK_FALSE(drawn_of_width(contract, case_of_size(contract, "smoke"), "size").count(17));
}

TEST_CASE("what is true of all cases is true of a hidden width") {
  const Catalog catalog(paths::registry_dirs());
  const auto expect = [&](const char* op, const char* width, const auto& holds) {
    CAPTURE(op, width);
    const Contract& contract = catalog.at(op);
    for (const Case& source : contract.cases) {
      const auto of = [&](const char* name) { return std::stoll(source.init.at(name)); };
      for (const int64_t hidden : drawn_of_width(contract, source, width)) CHECK(holds(hidden, of));
    }
  };
  // Heads that share a head of keys are equally many of each.
  expect("paged_attention", "num_heads",
         [](int64_t heads, const auto& of) { return heads % of("num_kv_heads") == 0; });
  // Rotated channels are pairs, and no more than there are.
  expect("rotary_embedding", "head_dim",
         [](int64_t dim, const auto& of) { return dim % 2 == 0 && dim >= of("rotary_dim"); });
  // Nobody is asked for more experts than there are.
  expect("topk_softmax", "num_experts",
         [](int64_t experts, const auto& of) { return experts >= of("top_k"); });
  // Groups divide channels.
  expect("rms_norm_gated", "hidden_size",
         [](int64_t width, const auto& of) { return width % of("group_size") == 0; });
  // A filter has a middle, and pads as much on either side.
  expect("convnextv2_block", "kernel_size",
         [](int64_t width, const auto&) { return width % 2 == 1; });
  // Two numbers of four bits lie in a byte, and 32 have a scale.
  expect("moe_grouped_gemm_mxfp4", "in_features",
         [](int64_t width, const auto&) { return width % 32 == 0; });
}

TEST_CASE("widths are drawn of most ops, and of none where they may not fit") {
  const Catalog catalog(paths::registry_dirs());
  int without = 0, with = 0, layers = 0;
  for (const auto& op : catalog.ops()) {
    const Contract& contract = catalog.at(op);
    const bool any = std::ranges::any_of(contract.cases, [&](const Case& source) {
      return source.size == "ci" && !width_variants(contract, source).empty();
    });
    INFO(op);
    if (contract.comm()) CHECK_FALSE(any);
    if (contract.level == 1 && !contract.comm()) ++(any ? with : without);
    layers += contract.level > 1 && any;
  }
  CHECK(layers >= 21);
  CHECK(with >= 36);
  // Most of them are ops of rays, points, boxes, atoms and sounds, which have no channels.
  CHECK(without <= 25);
  // Ids that a case writes for its own number of experts, and sinks for its width of a head.
  const Contract& attention = catalog.at("paged_attention");
  for (const Case& source : attention.cases)
    if (source.name == "sink") CHECK(width_variants(attention, source).empty());
}

TEST_CASE(
    "a case with a hidden width has it, the secret's, and nothing else that is other but rows") {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at("rms_norm");
  const Case source = case_of_size(contract, "full", 2);
  REQUIRE(source.axes.at("T") == 8192);
  std::set<std::string> widths;
  for (int i = 0; i < 20; ++i) {
    AskedCase asked;
    asked.op = contract.op;
    asked.name = source.name;
    asked.size = source.size;
    asked.variant = "hidden rows of another hidden_size";
    CHECK(pose(asked, contract, source).source.init == source.init);
    const Secret secret = Secret::draw();
    asked = hidden_by(asked, secret);
    const PosedCase posed = pose(asked, contract, source);
    CHECK(pose(asked, contract, source).source.init == posed.source.init);
    auto init = posed.source.init;
    widths.insert(init.at("hidden_size"));
    init["hidden_size"] = source.init.at("hidden_size");
    CHECK(init == source.init);
    CHECK(posed.source.with == source.with);
    CHECK(posed.source.values == source.values);
    const int64_t rows = posed.variant.axes.at("T");
    CHECK((rows >= 512 && rows < 1024));
  }
  CHECK(widths.size() > 5);
  CHECK_FALSE(widths.count("4096"));
}

TEST_CASE("of an op one width is drawn that the candidate takes and the oracle answers") {
  HiddenCases cases;
  for (const char* name : {"a", "b"}) cases.judged(judged_as(name, "", Status::slower));
  const std::string size = "hidden rows of another size", other = "hidden rows of another head_dim";
  const auto judged = [&](const std::string& name, const std::string& variant, Status status) {
    const CaseVerdict row = judged_as(name, variant, status);
    if (!cases.wants(row, 3)) return false;
    cases.judged(row);
    return true;
  };
  CHECK_FALSE(judged("c", size, Status::correct));  // it was not right as it is written
  CHECK(judged("a", size, Status::refused));
  CHECK(judged("a", other, Status::unjudged));
  CHECK(judged("b", size, Status::correct));
  CHECK_FALSE(judged("b", other, Status::correct));
  CHECK(judged("b", "hidden rows", Status::correct));  // is no width
  CHECK(judged("a", "hidden rows", Status::correct));
}

TEST_CASE("nobody knows which case and which width come first") {
  const Catalog catalog(paths::registry_dirs());
  JudgeOptions options;
  options.size = "ci";
  std::set<std::string> first;
  std::vector<AskedCase> all;
  for (const CasePlanEntry& entry : case_plan({"linear"}, catalog, options))
    if (!width_of(entry.row.variant).empty()) {
      CHECK((entry.after && entry.row.beside));
      all.push_back(entry.asked);
    }
  REQUIRE(all.size() == 24);
  for (int i = 0; i < 50; ++i) {
    const Secret secret = Secret::draw();
    const auto turn = [&](const AskedCase& one) {
      return hidden_order(secret, one.op, one.name, one.variant);
    };
    const auto one = std::ranges::min_element(all, {}, turn);
    first.insert(one->name + width_of(one->variant));
  }
  CHECK(first.size() > 12);
}
