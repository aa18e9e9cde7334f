// SPDX-License-Identifier: Apache-2.0
// Reads the files of scenarios/ strictly: each unknown key and name is an error.
#include "core/engines/scenario.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/contract/contract.hpp"
#include "core/plugin/notes.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

// A scenario's keys; those of the chosen profile override them.
struct Layers {
  Yaml scenario;
  Yaml profile;

  std::optional<Yaml> find(std::string_view key) const {
    if (auto found = profile.find(key)) return found;
    return scenario.find(key);
  }
};

// A file beside the scenario, or a name in registry/configs.
fs::path config_path(const Yaml& yaml) {
  const std::string& text = yaml.text();
  if (!ends_with(text, ".json")) return find_config(text, yaml.where());
  const fs::path path = fs::path(yaml.file()).parent_path() / text;
  if (!fs::exists(path)) yaml.fail("there is no file `" + path.string() + "`");
  return path;
}

void read_limits(const Yaml& yaml, Limits& limits) {
  yaml.only({"max_batch", "max_context", "chunk_tokens", "page_size", "pages", "overlap"});
  const auto read = [&](const char* key, int64_t& value, int64_t least) {
    if (!yaml.has(key)) return;
    value = yaml.at(key).integer();
    constexpr int64_t kMost = int64_t{1} << 31;
    if (value < least || value > kMost)
      yaml.at(key).fail("`" + std::string(key) + "` is " + std::to_string(value) + "; it must be " +
                        (value < least ? "at least " + std::to_string(least)
                                       : "at most " + std::to_string(kMost)));
  };
  read("max_batch", limits.max_batch, 1);
  read("max_context", limits.max_context, 1);
  read("chunk_tokens", limits.chunk_tokens, 1);
  read("page_size", limits.page_size, 1);
  read("pages", limits.pages, 0);
  limits.parallel.overlap = yaml.boolean_or("overlap", limits.parallel.overlap);
}

DType read_dtype(const Yaml& yaml) {
  const DType dtype = dtype_from_name(yaml.text(), yaml.where());
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16)
    yaml.fail("models run in f32, bf16 or f16");
  return dtype;
}

void read_providers(const Yaml& yaml, std::map<std::string, std::string>& pins) {
  const std::vector<std::string> ops = Catalog(paths::registry_dirs()).ops();
  std::vector<std::string> baselines;
  for (const auto& found : discover(false)) baselines.push_back(found.note.name);
  for (const auto& [op, provider] : yaml.entries()) {
    if (std::find(ops.begin(), ops.end(), op) == ops.end())
      provider.fail("there is no op `" + op + "`", did_you_mean(op, ops));
    pins[op] = provider.text();
    if (!contains(baselines, pins[op]))
      provider.fail("there is no baseline `" + pins[op] + "`", did_you_mean(pins[op], baselines));
  }
}

// The names of a folder's YAML files, sorted.
std::vector<std::string> stems(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// The name of a model's scenario; without one of its own, the model's name.
std::string name_in_model(const Yaml& file) {
  const auto scenario = file.find("scenario");
  const std::string arch = file.at("arch").text();
  return scenario ? scenario->text_or("name", arch) : arch;
}

// The parts which a file of its own and the key of a model's file give in different ways.
struct Source {
  Yaml keys;
  std::string name;
  ModelInfo info;
  Config config;
};

// Keys of every scenario.
const std::vector<std::string>& shared_keys() {
  static const std::vector<std::string> keys{"summary",   "config",    "dtype",   "cache_dtype",
                                             "seed",      "weights",   "limits",  "run",
                                             "providers", "workloads", "profiles"};
  return keys;
}

ModelInfo read_model(const Yaml& model) {
  const auto names = model_names();
  if (!contains(names, model.text()))
    model.fail("there is no model `" + model.text() + "`", did_you_mean(model.text(), names));
  return find_model_info(model.text());
}

// A public configuration of the model, else the library's defaults.
Config usual_config(const ModelInfo& info) {
  if (!info.configs.empty()) return Config::load(find_config(info.configs.front(), info.where));
  Json json = info.architectures.empty() ? Json{{"model_type", info.arch}}
                                         : Json{{"architectures", {info.architectures.front()}}};
  json.update(*info.defaults);
  return Config(std::move(json), info.where + ": defaults");
}

// A model without a scenario of its own has that of its domain, scenarios/domains/<domain>.yaml.
Source domain_source(const Yaml& model) {
  const ModelInfo info = ModelInfo::load(model.file());
  const fs::path file = domain_scenario(info.domain);
  if (file.empty())
    model.fail("this model has no scenario, and neither has its domain `" + info.domain + "`",
               "write one below the key `scenario`");
  const Yaml keys = Yaml::load(file);
  keys.only(shared_keys());
  Config config = usual_config(info);
  try {
    make_model(info.arch, config);
  } catch (const Error& error) {
    if (!info.configs.empty()) throw;
    fail(error.where(), error.what_text(),
         "the model's file has no configuration of its own; `fk-host import CONFIG` writes a "
         "scenario for a config.json");
  }
  return {keys, info.arch, info, std::move(config)};
}

Source read_source(const Yaml& yaml) {
  std::vector<std::string> known = shared_keys();
  if (!yaml.has("arch")) {
    if (yaml.has("scenarios")) yaml.fail("this file is a list of scenarios, not one");
    known.insert(known.end(), {"scenario", "model"});
    yaml.only(known);
    const fs::path config = config_path(yaml.at("config"));
    const Yaml name = yaml.at("scenario");
    if (name.text() != fs::path(yaml.file()).stem().string())
      name.fail("the file's name is `" + fs::path(yaml.file()).stem().string() +
                "`; the scenario must have the same name");
    return {yaml, name.text(), read_model(yaml.at("model")), Config::load(config)};
  }
  const auto keys = yaml.find("scenario");
  if (!keys) return domain_source(yaml);
  known.emplace_back("name");
  keys->only(known);
  const ModelInfo info = ModelInfo::load(yaml.file());
  const std::string name = name_in_model(yaml);
  const auto config = keys->find("config");
  if (!config && info.configs.empty())
    keys->fail("there is no `config`, and the model's `configs` is empty");
  return {*keys, name, info, config ? Config::load(config_path(*config)) : usual_config(info)};
}

void read_workloads(const Layers& layers, Scenario& s) {
  const Yaml name = layers.scenario.at("workloads");
  // A scenario elsewhere may have workloads of its own, beside it.
  fs::path file = s.file.parent_path() / "workloads" / (name.text() + ".yaml");
  const fs::path shipped = paths::scenarios_dir() / "workloads";
  if (!fs::exists(file)) file = shipped / file.filename();
  if (!fs::exists(file))
    name.fail("there is no file `" + file.filename().string() + "` in " + shipped.string() +
                  " or in a folder `workloads` beside the scenario",
              did_you_mean(name.text(), stems(shipped)));
  const auto known = workload_names(file);
  const auto run = layers.find("run");
  if (!run) layers.scenario.fail("no workload is named under `run`", "known: " + join(known, ", "));
  for (const Yaml& entry : run->items()) {
    if (std::find(known.begin(), known.end(), entry.text()) == known.end())
      entry.fail("there is no workload `" + entry.text() + "` in " + file.filename().string(),
                 did_you_mean(entry.text(), known));
    s.workloads.push_back(load_workload(file, entry.text(), s.engine->name(), s.profile == "tiny",
                                        s.engine->form().context(s.limits)));
  }
  if (s.workloads.empty()) run->fail("no workload is named");
}

Yaml profile_of(const Yaml& yaml, const std::string& name) {
  const Yaml profiles = yaml.at("profiles");
  profiles.only(profile_names());
  if (!profiles.has(name))
    profiles.fail("there is no profile `" + name + "`", did_you_mean(name, profiles.keys()));
  for (const auto& [key, profile] : profiles.entries())
    profile.only({"dtype", "cache_dtype", "limits", "change", "providers", "run"});
  return profiles.at(name);
}

// Files of models which have a scenario of their own, by its name.
std::map<std::string, fs::path> scenarios_of_models() {
  std::map<std::string, fs::path> found;
  for (const auto& arch : models_that_mention("\nscenario:")) {
    const ModelInfo info = find_model_info(arch);
    found.emplace(name_in_model(Yaml::load(info.where)), info.where);
  }
  return found;
}

// A file of scenarios/, or the file of a model. The name is that of the model's scenario, the
// model's own, or a `model_type` of its configurations.
std::optional<fs::path> maybe_scenario(const std::string& name) {
  const fs::path named = paths::scenarios_dir() / (name + ".yaml");
  if (fs::is_regular_file(named)) return named;
  const auto models = scenarios_of_models();
  if (const auto it = models.find(name); it != models.end()) return it->second;
  if (const auto info = maybe_model_info(name)) return info->where;
  for (const auto& arch : models_that_mention("\nmodel_types:"))
    if (const ModelInfo info = find_model_info(arch); contains(info.model_types, name))
      return info.where;
  return std::nullopt;
}

// A folder or file with a model's sizes has no requests.
[[noreturn]] void fail_at_config(const std::string& argument) {
  fail(argument, "a scenario names a model and its requests; this is a model's configuration",
       "`fk-host import " + argument + "` writes a scenario for it");
}

}  // namespace

std::vector<std::string> profile_names() { return {"tiny", "full"}; }

Scenario load_scenario(const fs::path& file, const std::string& profile) {
  const Source source = read_source(Yaml::load(file));
  const Yaml& yaml = source.keys;
  const Layers layers{yaml, profile_of(yaml, profile)};
  Scenario s(source.config);
  s.profile = profile;
  s.file = file;
  s.info = source.info;
  s.arch = s.info.arch;
  s.name = source.name;
  s.summary = yaml.text_or("summary", s.info.summary);
  if (profile == "tiny") s.config = s.config.with(*s.info.tiny);
  if (const auto change = layers.profile.find("change")) s.config = s.config.with(to_json(*change));
  s.seed = static_cast<uint64_t>(yaml.integer_or("seed", 1));
  // A checkpoint has the real sizes, so a tiny model never reads it.
  if (const auto weights = yaml.find("weights"); weights && profile != "tiny") {
    s.weights = file.parent_path() / weights->text();
    if (!fs::exists(s.weights)) weights->fail("there is no `" + s.weights.string() + "`");
  }
  if (const auto dtype = layers.find("dtype")) s.limits.dtype = read_dtype(*dtype);
  s.limits.cache_dtype = s.limits.dtype;
  if (const auto dtype = layers.find("cache_dtype")) s.limits.cache_dtype = read_dtype(*dtype);
  for (const Yaml& layer : {layers.scenario, layers.profile}) {
    if (const auto limits = layer.find("limits")) read_limits(*limits, s.limits);
    if (const auto providers = layer.find("providers")) read_providers(*providers, s.providers);
  }
  s.engine = s.make()->engine();
  s.metric = find_metric(s.info.correctness);
  read_workloads(layers, s);
  return s;
}

std::string usual_profile(const fs::path& file, bool gpu) {
  const std::string usual = gpu ? "full" : "tiny";
  const auto profiles = read_source(Yaml::load(file)).keys.find("profiles");
  if (!profiles || profiles->keys().size() != 1) return usual;
  return profiles->keys().front();
}

std::vector<fs::path> scenario_files(const fs::path& file) {
  const Yaml yaml = Yaml::load(file);
  if (!yaml.has("scenarios")) return {file};
  yaml.only({"summary", "scenarios"});
  std::vector<fs::path> files;
  if (const Yaml list = yaml.at("scenarios"); list.is_scalar()) {
    if (list.text() != "models") list.fail("`scenarios` is a list of names, or `models`");
    for (const auto& [name, model] : scenarios_of_models()) files.push_back(model);
    return files;
  }
  for (const Yaml& entry : yaml.at("scenarios").items()) {
    const fs::path beside = file.parent_path() / (entry.text() + ".yaml");
    const auto found = fs::exists(beside) ? std::optional(beside) : maybe_scenario(entry.text());
    if (!found)
      entry.fail("there is no scenario `" + entry.text() + "`",
                 did_you_mean(entry.text(), scenario_names()));
    files.push_back(*found);
  }
  if (files.empty()) yaml.at("scenarios").fail("the list is empty");
  return files;
}

fs::path domain_scenario(const std::string& domain) {
  const fs::path file = paths::scenarios_dir() / "domains" / (domain + ".yaml");
  return fs::is_regular_file(file) ? file : fs::path();
}

fs::path find_scenario(const std::string& argument) {
  const fs::path path = argument;
  if (fs::is_regular_file(path / kTrafficScenario)) return path / kTrafficScenario;
  if (path.extension() == ".json" || fs::is_regular_file(path / "config.json"))
    fail_at_config(argument);
  if (fs::is_regular_file(path)) return path;
  const bool shipped = path.extension() == ".yaml" && path.parent_path().filename() == "scenarios";
  if (const auto found = maybe_scenario(shipped ? path.stem().string() : argument)) return *found;
  const std::string name = path.extension() == ".yaml" ? path.stem().string() : argument;
  const std::string near = nearest(name, scenario_names());
  fail(argument, "there is no such file, and no scenario or model with this name",
       near.empty() ? "`fk-host list models` has the names; `fk-host import CONFIG` writes a "
                      "scenario for a config.json"
                    : "did you mean `" + near + "`?");
}

std::vector<std::string> scenario_names() {
  std::vector<std::string> names = stems(paths::scenarios_dir());
  for (const auto& [name, file] : scenarios_of_models()) names.push_back(name);
  const auto own = models_that_mention("\nscenario:");
  for (const auto& arch : models_that_mention("\narch:"))
    if (!contains(own, arch)) names.push_back(arch);
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

}  // namespace fk
