// SPDX-License-Identifier: Apache-2.0
#include "core/judge/plan/hidden_cases.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cases/routing.hpp"
#include "core/device/device.hpp"
#include "core/judge/plan/case_plan.hpp"
#include "core/judge/warm_call.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

constexpr uint64_t kDraws[] = {1, 0x8000000000000001u, 0x123456789abcdef1u, 0xfedcba9876543211u};

AskedCase asked_of(const Contract& contract, const Case& source, const std::string& variant,
                   uint64_t draw) {
  AskedCase out;
  out.op = contract.op;
  out.name = source.name;
  out.size = source.size;
  out.variant = variant;
  out.draw = draw;
  return out;
}

}  // namespace

TEST_CASE("whatever is drawn of a case has contents") {
  const Catalog catalog(paths::registry_dirs());
  for (const auto& op : catalog.ops()) {
    const Contract& contract = catalog.at(op);
    for (const Case& source : contract.cases) {
      for (const auto& name : hidden_variants(contract, source)) {
        for (const uint64_t draw : kDraws) {
          if (kSanitized && draw != kDraws[2]) continue;
          INFO(op << " " << source.size << " " << source.name << " " << name << " " << draw);
          const PosedCase posed = pose(asked_of(contract, source, name, draw), contract, source);
          const ResolvedCase hidden = resolve(contract, posed.source, posed.variant);
          const ResolvedCase written = resolve(contract, posed.source, {});
          for (size_t i = 0; i < hidden.scalars.size(); ++i)
            if (contract.section(SectionId::forward)[i].kind == SlotKind::integer)
              CHECK(hidden.scalars[i].i <= written.scalars[i].i);
          // Floats of large cases take long, and have no bounds.
          if (source.size != "full" && *hidden_parts(name) & (kHiddenFields | kHiddenSwitches))
            CHECK_NOTHROW(make_inputs(hidden, draw, 1));
          for (const CaseField& field : hidden.fields)
            if (field.present && field.slot->section == SectionId::forward &&
                field.slot->role != Role::out && !is_float(field.dtype))
              CHECK_NOTHROW(make_field(hidden, field.slot->name, draw, 1));
        }
      }
    }
  }
}

TEST_CASE("a step before hidden rows has fewer, and contents") {
  const Catalog catalog(paths::registry_dirs());
  const auto cpu = open_device("cpu");
  int steps = 0;
  for (const auto& op : catalog.ops()) {
    const Contract& contract = catalog.at(op);
    if (contract.comm()) continue;
    for (const Case& source : contract.cases) {
      const auto names = hidden_variants(contract, source);
      if (names.empty()) continue;
      INFO(op << " " << source.size << " " << source.name << " " << names[0]);
      const PosedCase posed =
          pose(asked_of(contract, source, names[0], kDraws[2]), contract, source);
      const ResolvedCase hidden = resolve(contract, posed.source, posed.variant);
      std::unique_ptr<CaseFrames> step;
      CHECK_NOTHROW(step = first_step(*cpu, hidden, posed, kDraws[2]));
      if (!step) continue;
      ++steps;
      for (const auto& [axis, n] : step->resolved().axes) CHECK(n <= hidden.axes.at(axis));
      CHECK(step->resolved().axes != hidden.axes);
    }
  }
  CHECK(steps > 200);
}

TEST_CASE("rows are fewer than written and the secret's, values those of small cases") {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at("rms_norm");
  const auto source = std::find_if(contract.cases.begin(), contract.cases.end(),
                                   [](const Case& c) { return c.size == "ci"; });
  REQUIRE(source != contract.cases.end());
  const auto names = hidden_variants(contract, *source);
  CHECK(names == std::vector<std::string>{"hidden rows, fields and values",
                                          "hidden rows and fields", "hidden rows and values",
                                          "hidden rows"});
  std::set<std::vector<std::string>> fields;
  std::set<int64_t> rows;
  for (int i = 0; i < 20; ++i) {
    const Secret secret = Secret::draw();
    AskedCase asked = asked_of(contract, *source, names[0], 0);
    CHECK(pose(asked, contract, *source).variant.axes.empty());
    asked = hidden_by(asked, secret);
    CHECK(asked.draw != 0);
    CHECK(hidden_by(asked_of(contract, *source, names[0], 0), secret).draw == asked.draw);
    const PosedCase posed = pose(asked, contract, *source);
    CHECK(posed.source.init.at("eps") == "10000");
    const int64_t n = posed.variant.axes.at("T"), all = source->axes.at("T");
    CHECK((n >= all / 2 && n < all));
    rows.insert(n);
    fields.insert(posed.source.with);
  }
  CHECK(fields.size() > 1);
  CHECK_FALSE(fields.count(source->with));
  CHECK(rows.size() > 3);
  AskedCase other = asked_of(contract, *source, "no rows", 0);
  CHECK(hidden_by(other, Secret::draw()).draw == 0);
}

TEST_CASE("lengths that are the same everywhere in a large case are not where rows are drawn") {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at("paged_attention");
  const auto source = std::find_if(contract.cases.begin(), contract.cases.end(), [](const Case& c) {
    return c.size == "full" && c.name == "decode64_4k";
  });
  REQUIRE(source != contract.cases.end());
  REQUIRE(source->values.at("seq_lens").starts_with("constant"));
  const AskedCase asked = asked_of(contract, *source, "hidden rows", kDraws[2]);
  const PosedCase posed = pose(asked, contract, *source);
  const ResolvedCase hidden = resolve(contract, posed.source, posed.variant);
  const Tensor lengths = make_field(hidden, "seq_lens", 1, 1)[0];
  std::set<double> different;
  for (int64_t i = 0; i < lengths.numel(); ++i) different.insert(lengths.at(i));
  CHECK(different.size() > 4);
  CHECK(hidden.scalars[static_cast<size_t>(contract.at("max_query_len").index)].i == 1);
}

TEST_CASE("where rows are drawn most tokens may want the same experts, on all ranks") {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at("fused_moe_ep");
  const auto source = std::find_if(contract.cases.begin(), contract.cases.end(), [](const Case& c) {
    return c.size == "full" && c.name == "prefill_2";
  });
  REQUIRE(source != contract.cases.end());
  std::set<double> skews;
  for (const uint64_t draw : kDraws) {
    const AskedCase asked = asked_of(contract, *source, "hidden rows", draw);
    const PosedCase posed = pose(asked, contract, *source);
    ResolvedCase hidden = resolve(contract, posed.source, posed.variant);
    std::set<size_t> busiest;
    for (hidden.rank = 0; hidden.rank < 2; ++hidden.rank) {
      const Tensor ids = make_field(hidden, "topk_ids", 1, 1)[0];
      std::vector<double> loads(8);
      for (int64_t i = 0; i < ids.numel(); ++i) loads[static_cast<size_t>(ids.at(i))] += 1;
      const auto most = std::max_element(loads.begin(), loads.end());
      busiest.insert(static_cast<size_t>(most - loads.begin()));
      skews.insert(*most * 8 / static_cast<double>(ids.numel()));
    }
    CHECK(busiest.size() == 1);
  }
  CHECK(*skews.begin() > 1.8);  // evenly it would be 1.1 at most
  CHECK(*skews.rbegin() > 3);
  CHECK(pose(asked_of(contract, *source, "hidden rows", 0), contract, *source).source.values ==
        source->values);
}

TEST_CASE("of ragged requests nobody knows how many tokens they have together") {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at("paged_attention");
  const auto source = std::find_if(contract.cases.begin(), contract.cases.end(),
                                   [](const Case& c) { return c.name == "prefill"; });
  REQUIRE(source != contract.cases.end());
  std::set<int64_t> tokens;
  for (int i = 0; i < 20; ++i) {
    const AskedCase asked =
        hidden_by(asked_of(contract, *source, "hidden rows", 0), Secret::draw());
    tokens.insert(pose(asked, contract, *source).variant.axes.at("T"));
  }
  CHECK(tokens.size() > 5);
}

TEST_CASE("some cases of an op that are right are called with hidden rows, each as it takes them") {
  HiddenCases cases;
  const auto judged = [&](const std::string& name, const std::string& variant, bool beside,
                          Status status) {
    CaseVerdict row;
    row.op = "rms_norm";
    row.case_name = name;
    row.variant = variant;
    row.beside = beside;
    row.status = status;
    if (beside && !cases.wants(row, 3)) return false;
    cases.judged(row);
    return true;
  };
  const std::string first = "hidden rows and values", second = "hidden rows";
  for (const char* name : {"a", "b", "c", "d"}) judged(name, "", false, Status::slower);
  judged("e", "", false, Status::refused);
  CHECK_FALSE(judged("e", first, true, Status::correct));
  CHECK(judged("a", first, true, Status::refused));
  CHECK(judged("a", second, true, Status::correct));
  CHECK(judged("b", first, true, Status::correct));
  CHECK_FALSE(judged("b", second, true, Status::correct));
  CHECK(judged("c", first, true, Status::wrong));
  CHECK_FALSE(judged("d", first, true, Status::correct));
  CHECK_FALSE(judged("d", second, true, Status::correct));
  CHECK(judged("d", "no rows", true, Status::correct));
  CHECK_FALSE(judged("a", "no rows", true, Status::correct));
}

TEST_CASE("half of the cases have hidden rows, three at least, and all that are told experts") {
  const Catalog catalog(paths::registry_dirs());
  CHECK(hidden_of(catalog.at("linear"), 1) == 3);
  CHECK(hidden_of(catalog.at("linear"), 6) == 3);
  CHECK(hidden_of(catalog.at("linear"), 75) == 38);
  CHECK(hidden_of(catalog.at("fused_moe_ep"), 14) == 14);
  std::map<std::string, std::set<int>> of;
  JudgeOptions options;
  options.size = "ci";
  for (const CasePlanEntry& entry : case_plan({"linear", "fused_moe_ep"}, catalog, options))
    if (is_hidden(entry.row.variant)) of[entry.row.op].insert(entry.hidden_cases);
  CHECK(of["linear"] == std::set<int>{6});  // of 12
  CHECK(of["fused_moe_ep"] == std::set<int>{4});
}

TEST_CASE("who refuses two parts of what is drawn together is asked for each of them") {
  HiddenCases cases;
  CaseVerdict row;
  row.op = "topk_softmax";
  row.case_name = "a";
  row.status = Status::slower;
  cases.judged(row);
  row.beside = true;
  const auto judged = [&](const std::string& variant, Status status) {
    row.variant = variant;
    row.status = status;
    if (!cases.wants(row, 1)) return false;
    cases.judged(row);
    return true;
  };
  CHECK(judged("hidden rows, switches and values", Status::refused));
  CHECK(judged("hidden rows and switches, padded", Status::correct));
  CHECK_FALSE(judged("hidden rows and switches", Status::correct));
  CHECK(judged("hidden rows and values, padded", Status::refused));
  CHECK(judged("hidden rows and values", Status::correct));
  CHECK_FALSE(judged("hidden rows, padded", Status::correct));
  CHECK_FALSE(judged("hidden rows", Status::correct));
}

TEST_CASE("switches are as small cases have them whose optional fields are there, contents too") {
  const Catalog catalog(paths::registry_dirs());
  const auto hidden = [&](const std::string& op, const std::string& size, uint64_t draw,
                          const std::vector<std::string>& with) {
    const Contract& contract = catalog.at(op);
    const auto source =
        std::find_if(contract.cases.begin(), contract.cases.end(),
                     [&](const Case& c) { return c.size == size && c.with == with; });
    REQUIRE(source != contract.cases.end());
    return pose(asked_of(contract, *source, "hidden rows and switches", draw), contract, *source)
        .source;
  };
  CHECK(hidden("topk_softmax", "ci", 1, {}).init.at("renormalize") == "0");
  const Case raw = hidden("selective_state_update", "ci", 1, {"d", "dt_bias"});
  CHECK(raw.init.at("dt_softplus") == "0");
  CHECK(raw.values.at("dt") == "uniform(0.01,0.5)");
  // No small case has this activation without biases.
  CHECK_FALSE(hidden("moe_block", "ci", 1, {}).init.count("activation"));
  CHECK(hidden("mla_self_attention", "smoke", 1, {"q_a_norm", "fp8"}).init.at("quantize_input") ==
        "1");
  std::set<std::string> reductions;
  for (const uint64_t draw : {0x101, 0x201})
    reductions.insert(hidden("all_reduce", "ci", draw, {}).init.at("reduction"));
  CHECK(reductions == std::set<std::string>{"max", "min"});
}

namespace {

// The hidden cases of the first case of this size, for many secrets.
std::vector<Case> drawn_above(const Catalog& catalog, const std::string& op,
                              const std::string& size) {
  const Contract& contract = catalog.at(op);
  const auto source =
      std::ranges::find_if(contract.cases, [&](const Case& c) { return c.size == size; });
  REQUIRE(source != contract.cases.end());
  const std::string variant = hidden_variants(contract, *source).at(0);
  std::vector<Case> out;
  for (uint64_t draw = 1; draw < 400; draw += 2)
    out.push_back(
        pose(asked_of(contract, *source, variant, seed_of("draws", draw) | 1), contract, *source)
            .source);
  return out;
}

std::string text_in(const std::map<std::string, std::string>& of, const std::string& name) {
  const auto it = of.find(name);
  return it == of.end() ? "" : it->second;
}

}  // namespace

TEST_CASE("layers have the fields, switches and contents of small ones") {
  const Catalog catalog(paths::registry_dirs());
  std::set<std::vector<std::string>> fields;
  std::set<std::string> windows, activations, renormalized;
  for (const Case& c : drawn_above(catalog, "moe_decoder_layer", "ci")) {
    fields.insert(c.with);
    windows.insert(text_in(c.init, "window"));
    activations.insert(text_in(c.init, "activation"));
    renormalized.insert(text_in(c.init, "renormalize"));
    // Where they lie and whether they are kept goes with no size, and no small case has both.
    CHECK(text_in(c.values, "positions") == "randint(0,L)");
    CHECK(text_in(c.values, "slot_mapping") == "some_slots(block_tables,seq_lens,cu_seqlens,Z)");
    CHECK(text_in(c.values, "k_cache").empty());
  }
  CHECK(fields == std::set<std::vector<std::string>>{
                      {"expert_biases", "gate_bias", "o_bias", "qkv_bias", "sinks"},
                      {"qk_norm", "qkv_bias"}});
  CHECK(windows == std::set<std::string>{"", "3"});
  CHECK(activations == std::set<std::string>{"", "swiglu_oai"});
  CHECK(renormalized == std::set<std::string>{"", "0"});
  // Lengths that fill their pages are no other contents, and sampling is.
  for (const Case& c : drawn_above(catalog, "decode_step", "ci")) {
    CHECK(text_in(c.values, "top_k") == "randint(0,20)");
    CHECK(text_in(c.values, "temperature") == "either(0,1.5,3)");
    CHECK(text_in(c.values, "seq_lens").empty());
  }
}

TEST_CASE("fields that go with a size are where that size is") {
  const Catalog catalog(paths::registry_dirs());
  std::set<bool> biased;
  for (const Case& c : drawn_above(catalog, "mla_moe_decoder_layer", "ci")) {
    CHECK(std::ranges::count(c.with, "q_a_norm") == 1);
    CHECK(std::ranges::count(c.with, "shared") == 1);
    biased.insert(std::ranges::count(c.with, "e_score_correction_bias") == 1);
  }
  CHECK(biased.count(false));
}

TEST_CASE("of several numbers and switches each is left as it is now and then, and never all") {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at("mamba2_block");
  const auto source =
      std::ranges::find_if(contract.cases, [](const Case& c) { return c.size == "ci"; });
  std::set<std::set<std::string>> numbers;
  for (uint64_t draw = 1; draw < 1000; draw += 2) {
    const Case c =
        pose(asked_of(contract, *source, "hidden rows and values", draw), contract, *source).source;
    std::set<std::string> others;
    for (const char* name : {"eps", "dt_min", "dt_max"})
      if (text_in(c.init, name) != text_in(source->init, name)) others.insert(name);
    CHECK_FALSE(others.empty());
    numbers.insert(others);
  }
  CHECK(numbers.size() == 7);
  std::set<std::set<std::string>> switches;
  for (const Case& c : drawn_above(catalog, "deepseek_moe", "ci")) {
    std::set<std::string> others;
    for (const char* name : {"scoring_func", "renormalize"})
      if (c.init.count(name)) others.insert(name);
    switches.insert(others);
  }
  CHECK(switches.size() == 3);
}

// A kernel for one case that ignores a switch passed where the draw left this switch as it was.
TEST_CASE("two calls of one case change each of its switches, and now and then one alone") {
  const Catalog catalog(paths::registry_dirs());
  for (const std::string op : {"embedding_bag", "deepseek_moe"}) {
    INFO(op);
    const Contract& contract = catalog.at(op);
    const auto source = std::ranges::find_if(
        contract.cases, [](const Case& c) { return c.size == "ci" && c.with.empty(); });
    const Case& chosen = source == contract.cases.end() ? contract.cases[0] : *source;
    const std::string others_of = "hidden rows and other switches";
    REQUIRE(contains(hidden_variants(contract, chosen), others_of));
    CHECK(hidden_parts(others_of) == kHiddenOthers);
    const auto changed = [&](const std::string& variant, const Secret* secret) {
      AskedCase asked = asked_of(contract, chosen, variant, 0);
      if (secret) asked = hidden_by(asked, *secret);
      const Case posed = pose(asked, contract, chosen).source;
      std::set<std::string> out;
      for (const auto& [name, text] : posed.init)
        if (text != text_in(chosen.init, name)) out.insert(name);
      return out;
    };
    const std::set<std::string> all = changed("hidden rows and switches", nullptr);
    CHECK(all.size() > 1);
    int alone = 0;
    for (int i = 0; i < 60; ++i) {
      const Secret secret = Secret::draw();
      std::set<std::string> both = changed("hidden rows and switches", &secret);
      const std::set<std::string> others = changed(others_of, &secret);
      CHECK_FALSE(others.empty());
      alone += others.size() == 1;
      both.insert(others.begin(), others.end());
      CHECK(both == all);
    }
    CHECK(alone > 0);
  }
}

// Scores near -2^18 with another scale, a slope for each key or wider rows are rounded by whole
// weights.
TEST_CASE("large scores keep the numbers, fields and widths with which they are exact") {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at("paged_attention");
  int large = 0, wide = 0;
  for (const Case& c : contract.cases)
    for (const std::string& variant : hidden_variants(contract, c))
      for (uint64_t draw = 1; draw < 40; draw += 2) {
        const Case posed =
            pose(asked_of(contract, c, variant, draw << 47 | draw), contract, c).source;
        const auto q = posed.values.find("q");
        if (q == posed.values.end() || !q->second.starts_with("randint(")) continue;
        ++large;
        INFO(c.name << ", " << variant);
        CHECK(posed.with.empty());
        const double scale = std::stod(posed.init.at("scale"));
        const int width = std::stoi(posed.init.at("head_dim"));
        CHECK((scale == 0.25 || scale == 0.03125));
        CHECK(scale * width <= 4);
        wide += width == 128;
        CHECK(std::stod(text_in(posed.init, "softcap").empty()
                            ? "0"
                            : text_in(posed.init, "softcap")) == 0);
      }
  CHECK(large > 20);
  CHECK(wide > 5);
}

TEST_CASE("contents that cannot be made in larger sizes are not drawn") {
  const auto contract = [](const std::string& ids) {
    return Contract::parse(
        "op: thing\nrevision: 1\nsummary: a thing\naxes: {T: tokens, K: choices}\n"
        "init:\n  - {name: top_k, type: int, axis: K}\n"
        "forward:\n"
        "  - {name: x, role: in, shape: [T], dtype: float}\n"
        "  - {name: ids, role: in, shape: [T, K], dtype: [i32], values: \"randint(0,K)\"}\n"
        "  - {name: out, role: out, shape: [T], dtype: x}\n"
        "tolerance: {numerics: elementwise}\ncases:\n"
        "  smoke:\n    - {T: 4, top_k: 2, values: {ids: \"" +
            ids + "\", x: \"normal(3,1)\"}}\n  ci:\n    - {T: 64, top_k: 8}\n",
        "thing.yaml", 2, "test");
  };
  const auto ids_of = [&](const std::string& ids) {
    const Contract c = contract(ids);
    const Case posed = pose(asked_of(c, c.cases[1], "hidden rows", 5), c, c.cases[1]).source;
    CHECK(text_in(posed.values, "x").empty());
    return text_in(posed.values, "ids");
  };
  CHECK(ids_of("unique(20)") == "unique(20)");
  CHECK(ids_of("unique(4)").empty());
}
