// SPDX-License-Identifier: Apache-2.0
// If this fails, a scenario means something else than it says, or a mistake in one is not
// explained.
#include "core/engines/scenario.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/engines/text_load.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

namespace {

namespace fs = std::filesystem;

// A folder of scenarios of its own, removed at the end.
struct ScenarioFolder : Folder {
  ScenarioFolder() { fs::create_directories(path / "workloads"); }
  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return path / name;
  }
};

constexpr const char* kWorkloads = R"(workloads:
  few:
    kind: throughput
    lengths: lengths.csv
    requests: 5
    output_cap: 9
    tiny: {requests: 3, divide: 10, prompt_cap: 6}
  one:
    kind: latency
    prompt: 20
    output: 4
    batch: 2
    warmup: 1
    iterations: 2
)";
constexpr const char* kLengths = "# made up\nprompt_tokens,output_tokens\n10,100\n30,2\n500,1\n";

std::string scenario(const std::string& more) {
  return "scenario: mine\nmodel: llama\nconfig: llama-3.1-8b\nworkloads: w\nrun: [few, one]\n"
         "profiles:\n  tiny: {limits: {max_context: 40}}\n  full: {}\n" +
         more;
}

struct ScenarioSetting : ScenarioFolder {
  ScenarioSetting() {
    write("workloads/w.yaml", kWorkloads);
    write("workloads/lengths.csv", kLengths);
  }
  std::string why(const std::string& text, const std::string& profile = "tiny") const {
    const fs::path file = write("mine.yaml", text);
    return message_of<fk::Error>([&] { fk::load_scenario(file, profile); });
  }
};

std::vector<std::pair<int64_t, int64_t>> lengths(const fk::Workload& w) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const auto& l : dynamic_cast<const fk::TextLoad&>(*w.load).lengths())
    out.emplace_back(l.prompt, l.output);
  return out;
}

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

}  // namespace

TEST_CASE("scenario_of_the_project_loads_in_both_profiles") {
  const auto names = fk::scenario_names();
  CHECK(names.size() >= 8);
  for (const auto& name : names) {
    for (const auto& file : fk::scenario_files(fk::find_scenario(name))) {
      for (const auto& profile : fk::profile_names()) {
        INFO(file << " " << profile);
        const fk::Scenario s = fk::load_scenario(file, profile);
        CHECK(!s.workloads.empty());
        for (const auto& w : s.workloads) CHECK(w.load->requests() > 0);
      }
    }
  }
}

// If this fails, `run llama3.1` needs a file beside the model's, or drives another model.
TEST_CASE("scenario_of_a_model_stands_in_its_file") {
  const auto file = fk::find_scenario("llama3.1");
  CHECK(file.filename() == "llama.yaml");
  const fk::Scenario s = fk::load_scenario(file, "tiny");
  CHECK(s.name == "llama3.1");
  CHECK(s.arch == "llama");
  CHECK(s.config.integer("hidden_size") == 128);
  CHECK(s.workloads.size() == 5);
  CHECK(fk::find_scenario("scenarios/mixtral.yaml") == fk::find_scenario("mixtral"));
  CHECK_THAT(message_of<fk::Error>([] { fk::find_scenario("scenarios/mixtrl.yaml"); }),
             ContainsSubstring("`mixtral`"));
}

// If this fails, `list models` names a model which `run` does not know, or `run` takes another one.
TEST_CASE("scenario_of_every_model_is_found_by_the_names_of_the_model") {
  for (const auto& info : fk::load_model_infos()) {
    INFO(info.arch);
    CHECK(fk::find_scenario(info.arch) == info.where);
    for (const auto& type : info.model_types) CHECK(fk::find_scenario(type) == info.where);
    CHECK(fk::load_scenario(info.where, "tiny").arch == info.arch);
  }
}

// A model without a scenario of its own has the requests of its domain, and the library's sizes.
TEST_CASE("scenario_of_a_domain_drives_a_model_without_one") {
  const auto file = fk::find_scenario("starcoder2");
  const fk::Scenario full = fk::load_scenario(file, "full"), tiny = fk::load_scenario(file, "tiny");
  CHECK(full.name == "starcoder2");
  CHECK(full.config.integer("hidden_size") == 3072);
  CHECK(full.limits.dtype == fk::DType::bf16);
  CHECK(tiny.config.integer("hidden_size") == 128);
  CHECK(tiny.workloads.size() == 3);
  CHECK(fk::load_scenario(fk::find_scenario("distilbert"), "tiny").workloads[0].name == "passages");
}

// If this fails, the user of a config.json does not learn of `import`.
TEST_CASE("scenario_errors_name_the_nearest_right_thing") {
  const ScenarioFolder dir;
  dir.write("config.json", "{}");
  CHECK_THAT(message_of<fk::Error>([&] { fk::find_scenario(dir.path.string()); }),
             ContainsSubstring("fk-host import " + dir.path.string()));
  CHECK_THAT(message_of<fk::Error>([] { fk::find_scenario("meta-llama/Llama-3.1-8B"); }),
             ContainsSubstring("fk-host list models"));
  CHECK_THAT(message_of<fk::Error>([] { fk::find_scenario("starcodr2"); }),
             ContainsSubstring("did you mean `starcoder2`?"));
}

TEST_CASE("scenario_tiny_applies_sizes_and_scaling") {
  const ScenarioSetting dir;
  const fk::Scenario s = fk::load_scenario(dir.write("mine.yaml", scenario("")), "tiny");
  CHECK(s.config.integer("hidden_size") == 128);
  CHECK(s.config.child("rope_scaling").number("factor") == 8);
  CHECK(s.limits.max_context == 40);
  REQUIRE(s.workloads.size() == 2);
  CHECK(lengths(s.workloads[0]) == Pairs{{1, 9}, {3, 1}, {6, 1}});
  CHECK(lengths(s.workloads[1]) == Pairs{{20, 4}, {20, 4}});
  CHECK(s.workloads[1].rounds() == 3);
}

TEST_CASE("scenario_full_keeps_sizes_and_leaves_out_what_does_not_fit") {
  const ScenarioSetting dir;
  const fk::Scenario s =
      fk::load_scenario(dir.write("mine.yaml", scenario("limits: {max_context: 100}\n")), "full");
  CHECK(s.config.integer("hidden_size") == 4096);
  CHECK(lengths(s.workloads[0]) == Pairs{{10, 9}, {30, 2}, {10, 9}, {30, 2}});
  CHECK(s.workloads[0].load->left_out() == 1);
  CHECK_FALSE(s.limits.parallel.overlap);
}

TEST_CASE("scenario_overlap_is_a_limit_that_a_profile_may_change") {
  const ScenarioSetting dir;
  std::string text = scenario("limits: {overlap: true}\n");
  CHECK(fk::load_scenario(dir.write("mine.yaml", text), "tiny").limits.parallel.overlap);
  text.replace(text.find("full: {}"), 8, "full: {limits: {overlap: false}}");
  CHECK_FALSE(fk::load_scenario(dir.write("mine.yaml", text), "full").limits.parallel.overlap);
}

TEST_CASE("scenario_mistakes_have_line_and_nearest_name") {
  const ScenarioSetting dir;
  const auto check = [&](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK_THAT(dir.why(text), ContainsSubstring(part));
  };
  check(scenario("sede: 3\n"), "mine.yaml:9:1");
  check(scenario("sede: 3\n"), "`seed`");
  check(scenario("providers: {rms_nrm: cpu}\n"), "did you mean `rms_norm`");
  check(scenario("providers: {rms_norm: nowhere}\n"), "there is no baseline `nowhere`");
  check(scenario("dtype: bf17\n"), "bf16");
  check(scenario("dtype: i64\n"), "f32, bf16 or f16");
  check(scenario("limits: {max_batch: 0}\n"), "at least 1");
  check(scenario("limits: {max_bach: 2}\n"), "`max_batch`");
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = scenario("");
    return text.replace(text.find(from), from.size(), to);
  };
  check(replaced("model: llama", "model: lama"), "did you mean `llama`");
  check(replaced("config: llama-3.1-8b", "config: llama-3.1-7b"), "did you mean `llama-3.1-8b`");
  check(replaced("run: [few", "run: [fwe"), "did you mean `few`");
  check(replaced("scenario: mine", "scenario: yours"), "mine");
  check(replaced("  full: {}", "  ful: {}"), "did you mean `full`");
  check(replaced("{max_context: 40}", "{max_context: 3}"), "fits the context of 3");
  CHECK_THAT(dir.why(scenario("weights: nowhere\n"), "full"), ContainsSubstring("nowhere"));
  CHECK_THAT(dir.why(scenario(""), "tinny"), ContainsSubstring("did you mean `tiny`"));
}

TEST_CASE("scenario_mistakes_in_workloads_and_lengths_are_located") {
  const ScenarioSetting dir;
  dir.write("workloads/lengths.csv", "prompt_tokens,output_tokens\n10,5\n10;5\n");
  CHECK_THAT(dir.why(scenario("")), ContainsSubstring("lengths.csv:3"));
  dir.write("workloads/lengths.csv", "prompt_tokens,output_tokens\n10,-5\n");
  CHECK_THAT(dir.why(scenario("")), ContainsSubstring("`-5` is not a number of tokens"));
  dir.write("workloads/w.yaml", "workloads:\n  few: {kind: througput}\n  one: {kind: latency}\n");
  CHECK_THAT(dir.why(scenario("")), ContainsSubstring("did you mean `throughput`"));
}

TEST_CASE("scenario_lists_name_files_beside_them") {
  const ScenarioFolder dir;
  dir.write("a.yaml", "scenario: a\n");
  CHECK(fk::scenario_files(dir.write("all.yaml", "scenarios: [a]\n")).size() == 1);
  const auto bad = dir.write("bad.yaml", "scenarios: [mixtrl]\n");
  CHECK_THAT(message_of<fk::Error>([&] { fk::scenario_files(bad); }),
             ContainsSubstring("bad.yaml:1"));
  CHECK_THAT(message_of<fk::Error>([] { fk::find_scenario("mixtrl"); }),
             ContainsSubstring("did you mean `mixtral`"));
}

TEST_CASE("workload_files_are_read_without_an_engine") {
  int count = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(fk::paths::scenarios_dir() / "workloads")) {
    if (file.path().extension() != ".yaml") continue;
    for (const auto& name : fk::workload_names(file.path())) {
      INFO(file.path() << " " << name);
      CHECK_NOTHROW(fk::load_workload(file.path(), name, "", false, int64_t{1} << 40));
      ++count;
    }
  }
  CHECK(count > 30);
}

TEST_CASE("workload_requests_depend_on_seed_name_round_and_id_alone") {
  const ScenarioSetting dir;
  const auto w = fk::load_workload(dir.path / "workloads" / "w.yaml", "few", "", false, 1000);
  const fk::RequestForm form{.vocabulary = 50};
  const auto a = fk::make_requests(w, form, 1, 0), b = fk::make_requests(w, form, 1, 0);
  REQUIRE(a.size() == 5);
  CHECK(a[2].tokens == b[2].tokens);
  CHECK(a[2].id == 3);
  CHECK(a[0].tokens != a[3].tokens);
  CHECK(fk::make_requests(w, form, 2, 0)[2].tokens != a[2].tokens);
  CHECK(fk::make_requests(w, form, 1, 1)[2].tokens != a[2].tokens);
  for (const auto& r : a)
    for (const int64_t token : r.tokens) CHECK((token >= 0 && token < 50));
}

TEST_CASE("model_descriptions_match_the_models_and_the_blocks") {
  const auto infos = fk::load_model_infos();
  CHECK(infos.size() == fk::model_names().size());
  for (const auto& info : infos) {
    INFO(info.where);
    for (const auto& name : info.configs) {
      const fk::Config config = fk::Config::load(fk::find_config(name, info.where));
      CHECK(fk::arch_of(config) == info.arch);
      CHECK(fk::make_model(info.arch, config.with(*info.tiny)) != nullptr);
    }
    for (const auto& part : info.parts) CHECK(fk::find_expansion(part) != nullptr);
  }
}
