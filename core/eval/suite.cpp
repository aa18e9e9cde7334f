// SPDX-License-Identifier: Apache-2.0
#include "core/eval/suite.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/base/yaml.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/cases/routing.hpp"
#include "core/engines/scenario.hpp"
#include "core/exec/capture_index.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

fs::path suites_dir() { return paths::scenarios_dir() / "suites"; }

// One of some words, at its own line.
std::string one_of(const Yaml& yaml, const std::vector<std::string>& known) {
  const std::string& word = yaml.text();
  if (!contains(known, word))
    yaml.fail("`" + excerpt(word) + "` is not known", did_you_mean(word, known));
  return word;
}

double amount(const Yaml& map, const char* key, double fallback) {
  const auto yaml = map.find(key);
  if (!yaml) return fallback;
  const double value = yaml->number();
  if (!(value >= 0)) yaml->fail("`" + std::string(key) + "` is negative");
  return value;
}

std::vector<std::string> names_in(const Yaml& map, const char* key,
                                  const std::vector<std::string>& known) {
  std::vector<std::string> out;
  if (const auto list = map.find(key))
    for (const auto& item : list->items())
      out.push_back(known.empty() ? item.text() : one_of(item, known));
  return out;
}

Suite::Ops read_ops(const Yaml& yaml, const Catalog& catalog) {
  yaml.only({"size", "seconds", "routing", "recorded", "only", "families", "thorough"});
  Suite::Ops ops;
  if (const auto size = yaml.find("size")) ops.size = one_of(*size, {"smoke", "ci", "full"});
  ops.seconds = amount(yaml, "seconds", ops.seconds);
  if (const auto routing = yaml.find("routing")) {
    ops.routing = routing->text();
    try {
      skew_of_routing(ops.routing);
    } catch (const Error& error) {
      routing->fail(error.what_text(), error.hint());
    }
  }
  if (const auto folder = yaml.find("recorded")) {
    ops.recorded = fs::absolute(fs::path(yaml.file()).parent_path() / folder->text());
    if (!fs::exists(ops.recorded / kCaptureIndex))
      folder->fail("there is no recording in `" + ops.recorded.string() + "`",
                   "fk-host record makes one");
  }
  ops.only = names_in(yaml, "only", catalog.ops());
  std::vector<std::string> families;
  for (const Family family : all_families()) families.emplace_back(family_name(family));
  ops.families = names_in(yaml, "families", families);
  ops.thorough = yaml.boolean_or("thorough", ops.thorough);
  return ops;
}

void add_scenario(const Yaml& item, std::vector<fs::path>& scenarios) {
  const std::string& word = item.text();
  fs::path file;
  if (ends_with(word, ".yaml")) {
    file = fs::path(item.file()).parent_path() / word;
    if (!fs::is_regular_file(file)) item.fail("there is no file `" + file.string() + "`");
  } else {
    file = find_scenario(one_of(item, scenario_names()));
  }
  for (const auto& one : scenario_files(file)) {
    if (std::ranges::count(scenarios, one))
      item.fail("`" + word + "` has " + one.string() + ", which is in the suite twice");
    scenarios.push_back(one);
  }
}

Suite::Models read_models(const Yaml& yaml) {
  yaml.only({"scenarios", "profile", "workloads", "processes", "time_limit", "eager", "tp"});
  Suite::Models models;
  for (const auto& item : yaml.at("scenarios").items()) add_scenario(item, models.scenarios);
  if (const auto profile = yaml.find("profile")) models.profile = one_of(*profile, profile_names());
  models.workloads = names_in(yaml, "workloads", {});
  models.time_limit_s = amount(yaml, "time_limit", 0);
  const int64_t processes = yaml.integer_or("processes", 0);
  if (yaml.has("processes") && (processes < 2 || processes > 16))
    yaml.at("processes")
        .fail("`processes` is " + std::to_string(processes) + "; it must be 2 to 16");
  if (processes > 0 && models.profile == "tiny")
    yaml.at("processes").fail("the profile tiny is not judged by speed", "leave it out");
  models.processes = static_cast<int>(processes);
  models.eager = yaml.boolean_or("eager", false);
  models.tp = yaml.integer_or("tp", 1);
  if (models.tp < 1) yaml.at("tp").fail("`tp` must be at least 1");
  return models;
}

// Workloads that no scenario of the suite has.
void check_workloads(const Yaml& yaml, const Suite::Models& models) {
  const auto list = yaml.find("workloads");
  if (!list) return;
  std::vector<std::string> known;
  for (const auto& file : models.scenarios)
    for (const auto& workload : load_scenario(file, models.profile).workloads)
      if (!contains(known, workload.name)) known.push_back(workload.name);
  for (const auto& item : list->items()) one_of(item, known);
}

}  // namespace

Suite load_suite(const fs::path& file, const Catalog& catalog) {
  const Yaml yaml = Yaml::load(file);
  yaml.only({"suite", "summary", "seed", "minutes", "ops", "models"});
  Suite suite;
  suite.file = file;
  suite.name = yaml.at("suite").text();
  if (suite.name != file.stem().string())
    yaml.at("suite").fail(
        "the suite `" + excerpt(suite.name) + "` is in the file " + file.filename().string(),
        "the file's name is the suite's");
  suite.summary = yaml.text_or("summary", "");
  suite.seed = static_cast<uint64_t>(yaml.integer_or("seed", 1));
  suite.minutes = amount(yaml, "minutes", 0);
  if (const auto ops = yaml.find("ops")) suite.ops = read_ops(*ops, catalog);
  const Yaml models = yaml.at("models");
  suite.models = read_models(models);
  if (suite.models.scenarios.empty()) models.fail("there is no scenario, so there is no score");
  check_workloads(models, suite.models);
  return suite;
}

fs::path find_suite(const std::string& argument) {
  if (fs::is_regular_file(argument)) return argument;
  const fs::path named = suites_dir() / (argument + ".yaml");
  if (fs::is_regular_file(named)) return named;
  fail(argument, "there is no such file and no suite with this name",
       did_you_mean(fs::path(argument).stem().string(), suite_names()));
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(suites_dir(), none))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace fk
