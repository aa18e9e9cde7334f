// SPDX-License-Identifier: Apache-2.0
// fk-host import DIR|config.json: says which model a configuration is, and what its full size
// needs. It counts the keys and tensors that the model reads. It writes a scenario.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/verb.hpp"
#include "core/device/device_files.hpp"
#include "core/engines/scenario.hpp"
#include "core/exec/model.hpp"
#include "core/exec/model_info.hpp"
#include "core/exec/session.hpp"
#include "core/scenario/checkpoint_fit.hpp"
#include "core/scenario/memory_budget.hpp"
#include "core/tensor/safetensors.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

struct ImportArguments {
  fs::path path;
  std::string name, part;  // part: the key of a model inside of the configuration
  bool write = true;
};

// "1234567" as "1.23 M"
std::string short_number(int64_t value) {
  char text[32];
  const double v = static_cast<double>(value);
  if (v >= 1e9)
    std::snprintf(text, sizeof text, "%.2f G", v / 1e9);
  else if (v >= 1e6)
    std::snprintf(text, sizeof text, "%.2f M", v / 1e6);
  else
    std::snprintf(text, sizeof text, "%.1f k", v / 1e3);
  return text;
}

// ---- an unknown model ----

struct Likeness {
  std::string arch;
  std::vector<std::string> foreign, absent;  // keys of the file alone, of the model alone
  double score = 0;                          // the share of keys that both have
  bool namesake = false;
  double rank() const { return score + (namesake ? 0.2 : 0); }
};

// True if the words of a model's type begin as the model's name does: `qwen2_5_vl` and `qwen2`.
bool is_namesake(const std::string& arch, const Config& config) {
  const std::string type = config.is_list("model_type") ? "" : config.text("model_type", "");
  constexpr size_t kTold = 4;  // letters which say something
  return arch.size() >= kTold && starts_with(type, arch);
}

Likeness likeness(const std::string& arch, const Config& config) {
  const std::vector<std::string> without = keys_without_effect(arch);
  const Json defaults = with_defaults(arch, Config(Json::object(), arch)).json();
  std::set<std::string> known, all;
  for (const auto& [key, value] : defaults.items()) known.insert(key);
  Likeness l{arch, {}, {}, 0};
  size_t both = 0;
  for (const auto& key : config.keys()) {
    if (contains(without, key)) continue;
    all.insert(key);
    if (known.count(key) > 0)
      ++both;
    else
      l.foreign.push_back(key);
  }
  for (const auto& key : known)
    if (all.count(key) == 0 && !contains(without, key)) l.absent.push_back(key);
  all.insert(known.begin(), known.end());
  l.score = static_cast<double>(both) / static_cast<double>(std::max<size_t>(all.size(), 1));
  l.namesake = is_namesake(arch, config);
  return l;
}

bool is_known(const Config& config) {
  try {
    arch_of(config);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Models inside of the configuration, as in that of a model of images and texts: their keys.
std::vector<std::string> models_inside(const Config& config) {
  std::vector<std::string> keys;
  for (const auto& key : config.keys()) {
    if (!config.is_object(key)) continue;
    const Config part = config.child(key);
    if (part.has("model_type") || part.has("architectures")) keys.push_back(key);
  }
  return keys;
}

void print_parts(const ImportArguments& a, const Config& config,
                 const std::vector<std::string>& parts) {
  for (const auto& key : parts) {
    const Config part = config.child(key);
    if (is_known(part))
      std::printf("its part `%s` is a model which runs here:\n  fk-host import %s --part %s\n",
                  key.c_str(), a.path.c_str(), key.c_str());
    else
      std::printf(
          "its part `%s` is unknown, too; the nearest model:\n"
          "  fk-host import %s --part %s\n",
          key.c_str(), a.path.c_str(), key.c_str());
  }
}

void print_nearest(const Config& config) {
  std::vector<Likeness> all;
  for (const auto& arch : model_names()) all.push_back(likeness(arch, config));
  // Several models may have the same keys: the author knows which one computes alike.
  constexpr size_t kTold = 4;
  constexpr double kLeast = 0.15;  // a share of equal keys below which names are chance
  std::ranges::stable_sort(all, std::greater<>(), &Likeness::rank);
  const auto best = all.begin();
  if (best->rank() < kLeast) {
    std::printf("no model here has keys like these: docs/add_a_model.md says how to add one\n");
    return;
  }
  std::printf("nearest model: %s (%d %% of the keys are the same)\n", best->arch.c_str(),
              static_cast<int>(best->score * 100 + 0.5));
  if (!best->foreign.empty())
    std::printf("  keys that it does not have: %s\n", join(best->foreign, ", ").c_str());
  if (!best->absent.empty())
    std::printf("  keys that it has and the file lacks: %s\n", join(best->absent, ", ").c_str());
  const ModelInfo info = find_model_info(best->arch);
  std::printf("  a description begins as a copy of %s (docs/add_a_model.md)\n", info.where.c_str());
  std::vector<std::string> others;
  for (size_t i = 1; i < std::min(all.size(), kTold); ++i)
    others.push_back(fmt::format("{} ({:.0f} %)", all[i].arch, 100 * all[i].score));
  std::printf("  as near, or nearly: %s\n", join(others, ", ").c_str());
}

int print_unknown(const ImportArguments& a, const Config& config, const Error& why) {
  std::printf("unknown: %s: %s\n", why.where().c_str(), why.what_text().c_str());
  const Config typed = config.with(Json{{"architectures", nullptr}});
  if (config.has("architectures") && config.has("model_type") && is_known(typed)) {
    const std::string arch = arch_of(typed);
    const ModelInfo info = find_model_info(arch);
    std::printf(
        "nearest model: %s, for the same model_type\n  with `\"architectures\": [\"%s\"]` it runs "
        "without the head of this class\n",
        arch.c_str(), info.architectures.back().c_str());
    return kExitUsage;
  }
  const auto parts = models_inside(config);
  parts.empty() ? print_nearest(config) : print_parts(a, config, parts);
  return kExitUsage;
}

// ---- a known model ----

void print_keys(const std::string& arch, const Config& config) {
  const auto keys = config.keys();
  const auto without = keys_without_effect(arch);
  const auto idle = static_cast<size_t>(
      std::ranges::count_if(keys, [&](const auto& key) { return contains(without, key); }));
  size_t added = 0;
  for (const auto& key : with_defaults(arch, config).keys())
    added += std::ranges::find(keys, key) == keys.end();
  std::printf("keys: all %zu understood, %zu of them have no effect on answers", keys.size(), idle);
  if (added > 0)
    std::printf("; %s from the library's defaults", (std::to_string(added) + " more").c_str());
  std::printf("\n");
}

void print_tensors(const std::string& arch, const Config& config, const fs::path& weights,
                   const Catalog& catalog) {
  const auto checkpoint = Checkpoint::open(weights, config);
  const CheckpointFit fit = fit_checkpoint(arch, config, checkpoint, catalog);
  std::printf("tensors: all %zu understood (%s)\n", checkpoint.names().size(),
              human_bytes(checkpoint.bytes()).c_str());
  for (const auto& note : fit.notes) std::printf("  %s\n", note.c_str());
}

// Bytes of the states for each token of a context, of one rank.
int64_t token_bytes(const Model& model, const Catalog& catalog, Limits limits) {
  limits.max_context = std::max(limits.max_context, 2 * limits.page_size);
  const CacheRoom room(model, catalog, limits);
  return room.has_pages() ? (room.bytes(2) - room.bytes(1)) / limits.page_size : 0;
}

// One way to divide a model: bytes of a rank without the cache, and of the cache for each token.
struct Division {
  Parallel parallel;
  int64_t need = 0, token = 0;
};

// The ways that the model allows, fewest ranks first, up to one which fits into `least` bytes.
// `refusal` is the reason of the first other way.
std::vector<Division> divisions(const Model& model, const Catalog& catalog, Limits limits,
                                int64_t least, std::string& refusal) {
  const std::vector<Parallel> ways{{.tp = 1}, {.tp = 2}, {.ep = 2}, {.tp = 4},
                                   {.ep = 4}, {.tp = 8}, {.ep = 8}};
  std::vector<Division> found;
  for (const Parallel& way : ways) {
    if (const auto why = model.refusal(way); !why.empty()) {
      if (refusal.empty()) refusal = why;
      continue;
    }
    limits.parallel = way;
    found.push_back({way, weights_bytes(model, catalog, limits) + kProcessBytes + kSessionBytes,
                     token_bytes(model, catalog, limits)});
    if (found.back().need <= least) break;
  }
  return found;
}

// How many devices of a kind a model takes, and how much is left for the cache.
void print_device(const Yaml& device, const std::vector<Division>& ways,
                  const std::string& refusal) {
  const auto room = static_cast<int64_t>(device.at("memory").number());
  std::printf("  %-8s ", device.at("device").text().c_str());
  const auto way = std::ranges::find_if(ways, [&](const Division& d) { return d.need <= room; });
  if (way == ways.end()) {
    std::printf("too small%s\n", refusal.empty() ? "" : (": " + refusal).c_str());
    return;
  }
  const Parallel& p = way->parallel;
  std::printf("%s", p.ranks() == 1
                        ? "one device"
                        : fmt::format("--{} {}", p.tp > 1 ? "tp" : "ep", p.ranks()).c_str());
  if (way->token > 0)
    std::printf(", beside it a cache of %s tokens",
                short_number((room - way->need) / way->token).c_str());
  std::printf("\n");
}

void print_needs(const Model& model, const Catalog& catalog, const Limits& limits) {
  const int64_t bytes = weights_bytes(model, catalog, limits);
  const int64_t each = token_bytes(model, catalog, limits);
  std::printf("full size in %s: %s of weights", std::string(name(limits.dtype)).c_str(),
              human_bytes(bytes).c_str());
  if (each > 0) std::printf(", %s of cache for each token", human_bytes(each).c_str());
  std::printf("\n");
  std::vector<Yaml> devices;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const auto& device : device_files()) {
    if (!device.has("memory")) continue;
    devices.push_back(device);
    least = std::min(least, static_cast<int64_t>(device.at("memory").number()));
  }
  std::string refusal;
  const std::vector<Division> ways = divisions(model, catalog, limits, least, refusal);
  for (const auto& device : devices) print_device(device, ways, refusal);
}

// A name in lower case, of letters, digits, dots and dashes.
std::string scenario_name(const ImportArguments& a, const std::string& arch) {
  std::string name = a.name;
  if (name.empty()) {
    fs::path path = fs::absolute(a.path).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    // A folder's name may have dots, such as Qwen2.5-0.5B.
    name = fs::is_directory(path) ? path.filename().string() : path.stem().string();
    if (name == "config") name = path.parent_path().filename().string();
  }
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') c = '-';
  return name.empty() ? arch : name;
}

void write_scenario(const std::string& name, const ModelInfo& info, const Config& config,
                    const fs::path& weights) {
  const fs::path folder = paths::new_scenarios_dir();
  const fs::path file = folder / (name + ".yaml"), sizes = folder / (name + ".json");
  for (const auto& path : {file, sizes})
    if (fs::exists(path)) fail(path.string(), "it is there already", "choose another --name");
  const std::string licence = "# SPDX-License-Identifier: Apache-2.0\n";
  std::string usual = read_file(domain_scenario(info.domain));
  if (starts_with(usual, licence)) usual.erase(0, licence.size());
  std::string text = licence + "scenario: " + name + "\nsummary: imported, " + info.summary +
                     "\nmodel: " + info.arch + "\nconfig: " + name + ".json\nseed: 1\n";
  if (!weights.empty()) text += "weights: " + fs::absolute(weights).string() + "\n";
  write_file_atomic(sizes, config.json().dump(2) + "\n");
  write_file_atomic(file, text + usual);
  const bool by_name = folder == paths::scenarios_dir();
  std::printf("scenario: %s\n  fk-host run %s%s\n", file.c_str(), name.c_str(),
              by_name ? "" : ".yaml");
}

std::string article(const std::string& noun) {
  return std::string("aeiou").find(noun[0]) == std::string::npos ? "a " : "an ";
}

int import_model(const ImportArguments& a) {
  const bool folder = fs::is_directory(a.path);
  const fs::path file = folder ? a.path / "config.json" : a.path;
  const Config whole = Config::load(file);
  if (!a.part.empty() && !whole.is_object(a.part))
    whole.fail("there is no object `" + a.part + "`", did_you_mean(a.part, models_inside(whole)));
  const Config config =
      a.part.empty() ? whole : Config(whole.child(a.part).json(), file.string() + ": " + a.part);
  std::string arch;
  try {
    arch = arch_of(config);
  } catch (const Error& error) {
    return print_unknown(a, config, error);
  }
  const ModelInfo info = find_model_info(arch);
  const auto model = make_model(arch, config);
  std::printf("%s: %s\n  %s\n", arch.c_str(), info.summary.c_str(),
              info.form.empty()
                  ? "a model of its own"
                  : (article(info.form) + info.form + " described by " + info.where).c_str());
  print_keys(arch, config);
  const Catalog catalog(paths::registry_dirs());
  fs::path weights;
  // Tensors of a part have other names in the checkpoint of the whole.
  if (folder && a.part.empty() &&
      (fs::exists(a.path / "model.safetensors") ||
       fs::exists(a.path / "model.safetensors.index.json"))) {
    weights =
        fs::exists(a.path / "model.safetensors.index.json") ? a.path : a.path / "model.safetensors";
    print_tensors(arch, config, weights, catalog);
  }
  Limits limits;
  limits.dtype = limits.cache_dtype = DType::bf16;
  const RequestForm form = model->engine()->form();
  limits.max_context = form.context(limits);
  print_needs(*model, catalog, limits);
  if (!a.write) return kExitOk;
  if (form.tensors.empty() && !domain_scenario(info.domain).empty())
    write_scenario(scenario_name(a, arch), info, config, weights);
  else
    std::printf("no scenario is written: begin with a copy of that of `%s`\n", arch.c_str());
  return kExitOk;
}

std::function<int()> add_import(const Options& app) {
  auto a = std::make_shared<ImportArguments>();
  app.add_option("PATH", a->path, "a folder with config.json, or such a file").required();
  app.add_option("--name", a->name, "of the scenario; default: the name of the folder or file");
  app.add_option("--part", a->part, "the key of a model inside of the configuration: text_config");
  app.add_flag("!--no-scenario", a->write, "only say what it is");
  return [a] { return import_model(*a); };
}

FK_VERB(import, "say which model a configuration is, what it needs, and write a scenario",
        add_import);

}  // namespace
}  // namespace fk
