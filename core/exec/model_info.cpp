// SPDX-License-Identifier: Apache-2.0
// Reads model descriptions (model_info.hpp) strictly, and finds files of the registry by name.
#include "core/exec/model_info.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/exec/metric.hpp"
#include "core/exec/model.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> texts(const Yaml& yaml, std::string_view key) {
  std::vector<std::string> out;
  if (const auto list = yaml.find(key))
    for (const auto& item : list->items()) out.push_back(item.text());
  return out;
}

// Files <folder>/<sub>/**/*<extension> of all registry folders, by stem; the first folder wins.
std::map<std::string, fs::path> files(const char* sub, const char* extension) {
  std::map<std::string, fs::path> found;
  for (const auto& dir : paths::registry_dirs()) {
    if (!fs::is_directory(dir / sub)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(dir / sub)) {
      if (entry.is_regular_file() && entry.path().extension() == extension)
        found.emplace(entry.path().stem().string(), entry.path());
    }
  }
  return found;
}

struct ModelFile {
  fs::path path;
  std::string text;
};

// All descriptions, by name; empty until they are read ahead.
std::map<std::string, ModelFile>& ahead() {
  static auto* files = new std::map<std::string, ModelFile>;
  return *files;
}

std::map<std::string, ModelFile> model_files() {
  if (!ahead().empty()) return ahead();
  std::map<std::string, ModelFile> found;
  for (const auto& [stem, path] : files("models", ".yaml")) found[stem] = {path, read_file(path)};
  return found;
}

std::vector<std::string> stems(const std::map<std::string, fs::path>& found) {
  std::vector<std::string> names;
  for (const auto& [stem, path] : found) names.push_back(stem);
  return names;
}

bool is_number(const Yaml& yaml) {
  try {
    yaml.number();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Json to_json(const Yaml& yaml) {
  if (yaml.is_null()) return nullptr;
  if (yaml.is_map()) {
    Json out = Json::object();
    for (const auto& [key, value] : yaml.entries()) out[key] = to_json(value);
    return out;
  }
  if (yaml.is_list()) {
    Json out = Json::array();
    for (const auto& item : yaml.items()) out.push_back(to_json(item));
    return out;
  }
  const std::string& text = yaml.text();
  if (yaml.quoted()) return text;
  if (text == "true" || text == "false") return text == "true";
  if (!is_number(yaml)) return text;
  const bool whole = text.find_first_of(".eEnN") == std::string::npos || starts_with(text, "0x");
  if (whole) return yaml.integer();
  // JSON has no such number. It would become null, which means an absent key.
  if (!std::isfinite(yaml.number())) yaml.fail("`" + text + "` is no number to compute with");
  return yaml.number();
}

ModelInfo ModelInfo::load(const fs::path& file) {
  const auto kept = ahead().find(file.stem().string());
  const bool is_kept = kept != ahead().end() && kept->second.path == file;
  const Yaml yaml = is_kept ? Yaml::parse(kept->second.text, file.string()) : Yaml::load(file);
  std::vector<std::string> known{"arch",    "domain",   "summary",     "architectures",
                                 "configs", "source",   "paper",       "tiny",
                                 "parts",   "defaults", "correctness", "scenario"};
  const std::vector<std::string> forms = model_forms();
  for (const auto& form : forms)
    if (yaml.has(form)) known.insert(known.end(), {form, "model_types", "ignore"});
  yaml.only(known);
  ModelInfo info;
  info.where = file.string();
  info.arch = yaml.at("arch").text();
  if (info.arch != file.stem().string())
    yaml.at("arch").fail("the file is named `" + file.stem().string() + "`, so must the arch be");
  info.domain = yaml.at("domain").text();
  if (info.domain != file.parent_path().filename().string())
    yaml.at("domain").fail("the folder is named `" + file.parent_path().filename().string() + "`");
  info.summary = yaml.at("summary").text();
  info.architectures = texts(yaml, "architectures");
  info.configs = texts(yaml, "configs");
  info.source = yaml.text_or("source", "");
  info.paper = yaml.text_or("paper", "");
  info.parts = texts(yaml, "parts");
  const Yaml metric = yaml.at("correctness");
  info.correctness = metric.text();
  if (!find_metric(info.correctness))
    metric.fail("`" + info.correctness + "` is not a metric",
                did_you_mean(info.correctness, metric_names()));
  const auto object = [&](const char* key) {
    const auto found = yaml.find(key);
    return std::make_shared<const Json>(found ? to_json(*found) : Json::object());
  };
  info.tiny = object("tiny");
  info.defaults = object("defaults");
  info.model_types = texts(yaml, "model_types");
  info.ignore = texts(yaml, "ignore");
  for (const auto& form : forms) {
    if (!yaml.has(form)) continue;
    info.form = form;
    info.description.emplace(to_json(yaml.at(form)), info.where + ": " + form);
  }
  return info;
}

std::vector<ModelInfo> load_model_infos() {
  std::vector<ModelInfo> infos;
  for (const auto& [stem, file] : model_files()) infos.push_back(ModelInfo::load(file.path));
  return infos;
}

void read_models_ahead() { ahead() = model_files(); }

std::optional<ModelInfo> maybe_model_info(const std::string& arch) {
  if (const auto kept = ahead().find(arch); kept != ahead().end())
    return ModelInfo::load(kept->second.path);
  const auto found = ahead().empty() ? files("models", ".yaml") : std::map<std::string, fs::path>{};
  const auto it = found.find(arch);
  if (it == found.end()) return std::nullopt;
  return ModelInfo::load(it->second);
}

std::vector<std::string> models_that_mention(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [stem, file] : model_files())
    if (file.text.find(text) != std::string::npos) names.push_back(stem);
  return names;
}

ModelInfo find_model_info(const std::string& arch) {
  const auto found = files("models", ".yaml");
  const auto it = found.find(arch);
  if (it == found.end())
    fail("registry/models", "there is no model `" + arch + "`", did_you_mean(arch, stems(found)));
  return ModelInfo::load(it->second);
}

fs::path find_config(const std::string& name, const std::string& where) {
  const auto found = files("configs", ".json");
  const auto it = found.find(name);
  if (it == found.end())
    fail(where, "there is no configuration `" + name + "` in registry/configs",
         did_you_mean(name, stems(found)));
  return it->second;
}

}  // namespace fk
