// SPDX-License-Identifier: Apache-2.0
// fk-host import DIR|config.json: says which model a configuration is, and what its full size
// needs. It counts the keys and tensors that the model reads. It writes a scenario.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/verb.hpp"
#include "core/device/device_files.hpp"
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
  std::string name;
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
};

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
  return l;
}

int print_unknown(const Config& config, const Error& why) {
  std::vector<Likeness> all;
  for (const auto& arch : model_names()) all.push_back(likeness(arch, config));
  // Several models may have the same keys: the author knows which one computes alike.
  constexpr size_t kTold = 4;
  std::ranges::stable_sort(all, std::greater<>(), &Likeness::score);
  const auto best = all.begin();
  std::printf("unknown: %s\n", why.what());
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

// How many devices of a kind a model takes, and how much is left for the cache.
void print_device(const Model& model, const Catalog& catalog, const Yaml& device, Limits limits) {
  const auto room = static_cast<int64_t>(device.at("memory").number());
  const std::string name = device.at("device").text();
  std::string refusal;
  for (const int64_t ranks : {1, 2, 4, 8}) {
    limits.parallel = Parallel{};
    limits.parallel.tp = ranks;
    if (const auto why = model.refusal(limits.parallel); !why.empty()) {
      refusal = why;
      continue;
    }
    const int64_t need = weights_bytes(model, catalog, limits) + kProcessBytes + kSessionBytes;
    if (need > room) continue;
    std::printf("  %-8s %s", name.c_str(),
                ranks == 1 ? "one device" : ("--tp " + std::to_string(ranks)).c_str());
    if (const int64_t each = token_bytes(model, catalog, limits); each > 0)
      std::printf(", beside it a cache of %s tokens", short_number((room - need) / each).c_str());
    std::printf("\n");
    return;
  }
  std::printf("  %-8s too small%s\n", name.c_str(),
              refusal.empty() ? "" : (": " + refusal).c_str());
}

void print_needs(const Model& model, const Catalog& catalog, const Limits& limits) {
  const int64_t bytes = weights_bytes(model, catalog, limits);
  const int64_t each = token_bytes(model, catalog, limits);
  std::printf("full size in %s: %s of weights", std::string(name(limits.dtype)).c_str(),
              human_bytes(bytes).c_str());
  if (each > 0) std::printf(", %s of cache for each token", human_bytes(each).c_str());
  std::printf("\n");
  for (const auto& device : device_files())
    if (device.has("memory")) print_device(model, catalog, device, limits);
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

void write_scenario(const std::string& name, const ModelInfo& info, const RequestForm& form,
                    const Config& config, const fs::path& weights) {
  const fs::path folder = paths::new_scenarios_dir();
  const fs::path file = folder / (name + ".yaml"), sizes = folder / (name + ".json");
  for (const auto& path : {file, sizes})
    if (fs::exists(path)) fail(path.string(), "it is there already", "choose another --name");
  const int64_t most = std::min<int64_t>(form.positions, 32768);
  std::string text = "# SPDX-License-Identifier: Apache-2.0\n";
  text += "scenario: " + name + "\nsummary: imported, " + info.summary + "\nmodel: " + info.arch +
          "\nconfig: " + name + ".json\nseed: 1\n";
  if (!weights.empty()) text += "weights: " + fs::absolute(weights).string() + "\n";
  text +=
      "workloads: llm\nrun: [mixed, single_request, fixed_batch_32]\nprofiles:\n  tiny:\n"
      "    dtype: f32\n    limits: {max_batch: 32, max_context: 256, chunk_tokens: 128, "
      "page_size: 16, pages: 512}\n  full:\n    dtype: bf16\n    limits: {max_batch: 64, "
      "max_context: " +
      std::to_string(most) + ", chunk_tokens: " + std::to_string(std::min<int64_t>(most, 8192)) +
      ", page_size: 16}\n";
  write_file_atomic(sizes, config.json().dump(2) + "\n");
  write_file_atomic(file, text);
  const bool by_name = folder == paths::scenarios_dir();
  std::printf("scenario: %s\n  fk-host run %s%s\n", file.c_str(), name.c_str(),
              by_name ? "" : ".yaml");
}

int import_model(const ImportArguments& a) {
  const bool folder = fs::is_directory(a.path);
  const fs::path file = folder ? a.path / "config.json" : a.path;
  const Config config = Config::load(file);
  std::string arch;
  try {
    arch = arch_of(config);
  } catch (const Error& error) {
    return print_unknown(config, error);
  }
  const ModelInfo info = find_model_info(arch);
  const auto model = make_model(arch, config);
  std::printf("%s: %s\n  %s\n", arch.c_str(), info.summary.c_str(),
              info.form.empty() ? "a model of its own"
                                : ("a " + info.form + " described by " + info.where).c_str());
  print_keys(arch, config);
  const Catalog catalog(paths::registry_dirs());
  fs::path weights;
  if (folder && (fs::exists(a.path / "model.safetensors") ||
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
  if (form.continues && form.tensors.empty())
    write_scenario(scenario_name(a, arch), info, form, config, weights);
  else
    std::printf("no scenario is written: begin with a copy of that of `%s`\n", arch.c_str());
  return kExitOk;
}

std::function<int()> add_import(const Options& app) {
  auto a = std::make_shared<ImportArguments>();
  app.add_option("PATH", a->path, "a folder with config.json, or such a file").required();
  app.add_option("--name", a->name, "of the scenario; default: the name of the folder or file");
  app.add_flag("!--no-scenario", a->write, "only say what it is");
  return [a] { return import_model(*a); };
}

FK_VERB(import, "say which model a configuration is, what it needs, and write a scenario",
        add_import);

}  // namespace
}  // namespace fk
