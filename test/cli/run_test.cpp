// SPDX-License-Identifier: Apache-2.0
// `run`: what it prints for people and for programs, and how it refuses.
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/json.hpp"
#include "test/shell.hpp"

using fk::Json;

namespace {

const std::string run = "FK_CANDIDATES=/nowhere " FK_HOST " run ";

}  // namespace

TEST_CASE("run_smoke_reports_the_baseline_alone") {
  const Shell out = shell(run + "smoke --device cpu");
  CHECK(out.code == 0);
  for (const char* text : {"profile tiny", "--profile full needs", "rms_norm", "Correctness",
                           "correct", "not judged on a tiny profile", "No candidate"})
    CHECK_THAT(out.text, ContainsSubstring(text));
  CHECK(out.text.find('\033') == std::string::npos);  // no colour where no terminal is
}

TEST_CASE("run_json_has_the_documented_schema") {
  const Shell out = shell(run + "smoke --device cpu --json");
  REQUIRE(out.code == 0);
  const Json j = fk::parse_json(out.text, "report");
  CHECK(j.at("schema") == "fk-host.run/2");
  CHECK(j.at("profile") == "tiny");
  // The circumstances of the figures.
  CHECK_FALSE(j.at("driver").get<std::string>().empty());
  CHECK_FALSE(j.at("host_build").get<std::string>().empty());
  CHECK(j.at("date").get<std::string>().size() == std::string("2026-11-25T14:05:00Z").size());
  CHECK(j.at("clocks").is_null());  // the CPU has none
  CHECK(j.at("speed_judged") == false);
  // The shares of `spent` add up to the whole time.
  double spent = 0;
  for (const auto& [what, seconds] : j.at("spent").items()) spent += seconds.get<double>();
  CHECK(spent == Approx(j.at("seconds").get<double>()).epsilon(0.002));
  CHECK(j.at("candidates").empty());
  const Json& baseline = j.at("baseline");
  CHECK(baseline.at("verdict") == "correct");
  CHECK(baseline.at("correctness").at("rms_of_spread") < 1e-5);
  const Json& workload = baseline.at("workloads").at(0);
  CHECK(workload.at("workload") == "smoke");
  CHECK(workload.at("requests") == 3);
  CHECK(workload.at("first_token_s").at("median") > 0);
}

// A slow rms_norm in a small model, of which the tiny profile is made and a full one.
namespace {

const std::string run_norm = "FK_CANDIDATES=" FK_NORMS " " FK_HOST " run " FK_SOURCE
                             "/test/known/norm_llama.yaml --device cpu --candidate plain_norm ";

}  // namespace

TEST_CASE("run_tiny_profile_has_no_speedup") {
  const Shell out = shell(run_norm + "--profile tiny --workload decode");
  CAPTURE(out.text);
  CHECK(out.code == 0);
  CHECK_THAT(out.text, ContainsSubstring("not judged"));
  CHECK_THAT(out.text, !ContainsSubstring("speedup"));
  const Json j =
      fk::parse_json(shell(run_norm + "--profile tiny --workload decode --json").text, "report");
  CHECK(j.at("processes") == 1);
  const Json& w = j.at("candidates").at(0).at("workloads").at(0);
  CHECK(w.at("done") == true);
  CHECK(w.at("speedup").is_null());
  CHECK(w.at("verdict") == "not judged");
  const Shell asked = shell(run_norm + "--profile tiny --processes 4 2>&1");
  CHECK(asked.code == 2);
  CHECK_THAT(asked.text, ContainsSubstring("--processes"));
}

TEST_CASE("run_full_profile_times_several_processes") {
  const Shell text = shell(run_norm + "--profile full --workload decode --processes 2");
  CAPTURE(text.text);
  CHECK(text.code == 0);
  for (const char* words : {"between processes", "95 % interval", "speedup"})
    CHECK_THAT(text.text, ContainsSubstring(words));
  const Shell out = shell(run_norm + "--profile full --workload decode --processes 3 --json");
  REQUIRE(out.code == 0);
  const Json j = fk::parse_json(out.text, "report");
  CHECK(j.at("processes") == 3);
  const Json& own = j.at("baseline").at("workloads").at(0);
  const Json& w = j.at("candidates").at(0).at("workloads").at(0);
  // 12 rounds are 4 in each process.
  CHECK(own.at("rounds") == 12);
  CHECK(own.at("round_s_by_process").size() == 3);
  CHECK(w.at("round_s_by_process").size() == 3);
  const Json& speedup = w.at("speedup");
  CHECK(speedup.at("by_process").size() == 3);
  CHECK(speedup.at("pairs") == 12);
  CHECK(speedup.at("low") < speedup.at("ratio"));
  CHECK(speedup.at("ratio") < speedup.at("high"));
  CHECK(w.at("verdict") != "faster");
}

TEST_CASE("run_same_seed_same_model") {
  const auto rms = [](const std::string& options) {
    const Shell out = shell(run + "smoke --device cpu --json " + options);
    REQUIRE(out.code == 0);
    return fk::parse_json(out.text, "report").at("baseline").at("correctness").at("rms_of_spread");
  };
  CHECK(rms("- --seed 5") == rms("- --seed 5"));
  CHECK(rms("- --seed 5") != rms("- --seed 6"));
  // The same model is asked something else.
  CHECK(rms("- --seed 5 --requests-seed 5") == rms("- --seed 5"));
  CHECK(rms("- --seed 5 --requests-seed 7") != rms("- --seed 5"));
}

// With these requests an input lands on another number of eight bits than the oracle's.
TEST_CASE("run_rounded_activations_are_right_whatever_is_asked") {
  const Shell out = shell(run +
                          "deepseek_v3 --device cpu --workload single_request --requests-seed 2 "
                          "--json");
  REQUIRE(out.code == 0);
  const Json c = fk::parse_json(out.text, "report").at("baseline").at("correctness");
  CHECK(c.at("rms_of_spread") > 1e-3);
  CHECK(c.at("best5_of_spread") < 1e-6);
}

TEST_CASE("run_pinned_provider_runs_the_op") {
  const Shell out = shell(run + "smoke --device cpu --provider rms_norm=reference --json");
  REQUIRE(out.code == 0);
  int nodes = 0;
  const Json report = fk::parse_json(out.text, "report");
  for (const auto& op : report.at("baseline").at("ops"))
    if (op.at("op") == "rms_norm") {
      CHECK(op.at("provider") == "reference");
      nodes += op.at("nodes").get<int>();
    }
  CHECK(nodes > 0);
}

TEST_CASE("run_refuses_with_the_nearest_name") {
  const auto refused = [](const std::string& arguments, const std::string& text) {
    const Shell out = shell(run + arguments + " 2>&1");
    CAPTURE(arguments);
    CHECK(out.code == 2);
    CHECK_THAT(out.text, ContainsSubstring(text));
  };
  refused("mixtrl", "did you mean `mixtral`?");
  refused("mixtral --device cpu --workload mixd", "did you mean `mixed`?");
  refused("smoke --device cpu --candidate nobody", "there is no candidate `nobody`");
  refused("smoke --device cpu --provider rms_nrm=cpu", "did you mean `rms_norm`?");
  refused("smoke --device cpu --provider rms_norm", "is not OP=PLUGIN");
  refused("smoke --device cpu --provider rms_norm=nobody", "there is no baseline `nobody`");
  refused("smoke --device warp:0", "`warp`");
  refused("smoke --profile huge", "huge");
  refused("smoke --device cpu --no-graph", "no CUDA graphs");
  refused("smoke --device cpu --overlap", "--tp 2 or more");
  refused("smoke --json " FK_SOURCE "/scenarios/smoke.yaml", "will not write over");
  refused("", "SCENARIO is required");
}

TEST_CASE("run_pin_that_cannot_be_kept_is_an_error_of_the_run") {
  const Shell out = shell(run + "smoke --device cpu --provider rms_norm=cuda 2>&1");
  // Not built where there is no toolkit for it.
  if (shell(FK_HOST " list plugins").text.find("not built: cuda: ") != std::string::npos) {
    CHECK(out.code == 2);
    CHECK_THAT(out.text, ContainsSubstring("there is no baseline `cuda`"));
    return;
  }
  // For another device, and so it has none here.
  CHECK(out.code == 3);
  CHECK_THAT(out.text, ContainsSubstring("`providers` of the scenario or --provider names `cuda`"));
}

// If this fails, a plugin displaces the host's own provider by its name, without a measurement.
TEST_CASE("run_asks_the_hosts_own_providers_before_plugins_of_FK_PLUGIN_PATH") {
  const auto provider = [](const std::string& environment, const std::string& more) {
    const Shell out = shell("FK_PLUGIN_PATH=" FK_SLOW " " + environment + " " + run +
                            "smoke --device cpu --json" + more);
    CAPTURE(out.text);
    REQUIRE(out.code == 0);
    const Json report = fk::parse_json(out.text, "report");
    std::string of_op;
    for (const Json& row : report.at("baseline").at("ops"))
      if (row.at("op") == "silu_and_mul") of_op = row.at("provider");
    return of_op + ": " + report.at("provider_order").get<std::string>();
  };
  const std::string rest = "the host's own by name, then those of FK_PLUGIN_PATH.";
  CHECK(provider("", "") == "cpu: Order of providers: no ranking; " + rest);
  CHECK(provider("", " --provider silu_and_mul=a_slow") ==
        "a_slow: Order of providers: the scenario or --provider for silu_and_mul; else " + rest);
  const auto dir = std::filesystem::temp_directory_path() / ("fk_rank" + std::to_string(getpid()));
  std::filesystem::create_directories(dir / "devices");
  shell("printf 'device: d\nname: cpu\nranking:\n  silu_and_mul: [a_slo, a_slow]\n' > " +
        (dir / "devices/d.yaml").string());
  const std::string ranked = provider("FK_REGISTRY_PATH=" + dir.string(), "");
  std::filesystem::remove_all(dir);
  CHECK(ranked == "a_slow: Order of providers: the device's ranking for silu_and_mul; else " +
                      rest + " The ranking also names a_slo, which is no usable baseline here.");
}

TEST_CASE("run_baselines_that_are_broken_are_named") {
  const auto dir =
      std::filesystem::temp_directory_path() / ("fk_run_test" + std::to_string(getpid()));
  std::filesystem::create_directories(dir);
  shell("echo this is no ELF file > " + (dir / "text.so").string());
  const Shell out = shell("FK_PLUGIN_PATH=" + dir.string() + " " + run + "smoke --device cpu");
  std::filesystem::remove_all(dir);
  CHECK(out.code == 0);
  CHECK_THAT(out.text, ContainsSubstring("not usable"));
  CHECK_THAT(out.text, ContainsSubstring("text.so: is not an ELF file"));
  CHECK(out.text.find("text.so: " + (dir / "text.so").string()) == std::string::npos);
}

TEST_CASE("run_goes_on_without_a_baseline_that_cannot_be_loaded") {
  const std::string with = "FK_PLUGIN_PATH=" FK_NEEDY " ";
  const Shell out = shell(with + run + "smoke --device cpu");
  CAPTURE(out.text);
  CHECK(out.code == 0);
  CHECK_THAT(out.text, ContainsSubstring("not usable: " FK_NEEDY "/needy.so: cannot be loaded"));
  CHECK_THAT(out.text, ContainsSubstring("libfk_absent.so"));
  const std::string verify = FK_HOST " verify " FK_SOURCE "/test/golden/llama --device cpu";
  const Shell checked = shell(with + verify);
  CAPTURE(checked.text);
  CHECK(checked.code == 0);
  CHECK_THAT(checked.text, ContainsSubstring("needy.so: cannot be loaded"));
  // A provider named by the user is not replaced.
  const Shell named = shell(with + verify + " --provider needy");
  CHECK(named.code != 0);
  CHECK_THAT(named.text, ContainsSubstring("libfk_absent.so"));
}

// If these fail, a provider which a user named is left out, or its absence has another reason.
TEST_CASE("a_named_provider_that_cannot_be_loaded_is_an_error_with_the_loaders_words") {
  const std::string with = "FK_PLUGIN_PATH=" FK_NEEDY " ";
  const auto fails_to_load = [&](const std::string& words) {
    const Shell out = shell(with + words + " 2>&1");
    CAPTURE(out.text);
    CHECK(out.code == 3);
    CHECK_THAT(out.text, ContainsSubstring("needy.so: cannot be loaded: libfk_absent.so"));
    CHECK_THAT(out.text, ContainsSubstring("LD_LIBRARY_PATH names the folders of libraries"));
  };
  const std::string bench = "FK_CANDIDATES=/nowhere " FK_HOST " bench silu_and_mul --size smoke ";
  fails_to_load(bench + "--seconds 0.01 --provider needy --provider cpu");
  fails_to_load(run + "smoke --device cpu --provider silu_and_mul=needy");
  // Without its name the race goes on, and the report says so.
  const Shell all = shell(with + bench + "--seconds 0.01");
  CAPTURE(all.text);
  CHECK(all.code == 0);
  CHECK_THAT(all.text, ContainsSubstring("not usable: " FK_NEEDY "/needy.so: cannot be loaded"));
}
