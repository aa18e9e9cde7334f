// SPDX-License-Identifier: Apache-2.0
// Makes the key of a verdict: everything that can change the verdict, as named hashes. The store
// returns an earlier verdict only for an equal key.
#include "core/store/key.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/fields.hpp"
#include "core/base/machine.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/device/identity.hpp"
#include "core/plugin/discover.hpp"
#include "core/plugin/notes.hpp"
#include "core/store/store.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

void add_contracts(const fs::path& candidate, VerdictKey& key) {
  std::vector<OpNote> ops;
  try {
    ops = read_notes(candidate).ops;
  } catch (const Error& error) {
    key.add("contracts", "none: " + error.what_text());
    return;
  }
  std::map<std::string, fs::path> files;
  for (const auto& dir : paths::registry_dirs()) {
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(dir / "ops", none))
      if (entry.path().extension() == ".yaml") files.emplace(entry.path().stem(), entry.path());
  }
  for (const auto& op : ops) {
    const auto file = files.find(op.op);
    key.add("contract " + op.op, file == files.end() ? "unknown" : sha256_file(file->second));
  }
}

// Files are identified by name and content, so equal files in another folder give the same key.
void add_files(const char* kind, const std::vector<fs::path>& files, VerdictKey& key,
               const std::function<std::string(const fs::path&)>& hash) {
  std::map<std::string, std::string> hashes;
  for (const auto& file : files) {
    std::string& entry = hashes[file.filename()];
    try {
      entry += (entry.empty() ? "" : " ") + hash(file);
    } catch (const Error&) {
      entry += "unreadable";
    }
  }
  for (const auto& [name, value] : hashes) key.add(std::string(kind) + " " + name, value);
}

void add_baselines(Store& store, VerdictKey& key) {
  add_files("baseline", baseline_files(), key,
            [&](const fs::path& file) { return store.file_hash(file); });
  std::vector<fs::path> rankings;
  for (const auto& dir : paths::registry_dirs()) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(dir / "devices", none))
      if (entry.path().extension() == ".yaml") rankings.push_back(entry.path());
  }
  std::sort(rankings.begin(), rankings.end());
  add_files("ranking", rankings, key, sha256_file);
}

}  // namespace

std::string canonical_text(const Json& json) {
  // nlohmann::json, unlike ordered_json, sorts keys.
  return nlohmann::json(json).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Json VerdictKey::parts_json() const { return to_fields(parts); }

std::string VerdictKey::hash() const { return sha256(canonical_text(parts_json())); }

void add_machine(const std::string& device, Store& store, VerdictKey& key) {
  add_baselines(store, key);
  const DeviceIdentity identity = identity_of_device(device);
  key.add("device", identity.device);
  key.add("driver", identity.driver);
  key.add("host build", own_build_id());
}

VerdictKey key_of(const Question& question, Store& store) {
  VerdictKey key;
  const std::string& known = question.candidate_hash;
  key.add("candidate", known.empty() ? sha256_file(question.candidate) : known);
  add_contracts(question.candidate, key);
  add_machine(question.device, store, key);
  const Policy& policy = question.policy;
  key.add("size", policy.size);
  key.add("ops", Json(policy.ops).dump());
  key.add("cases", Json(policy.cases).dump());
  key.add("families", Json(policy.families).dump());
  key.add("seconds", Json(policy.seconds).dump());
  key.add("threads", std::to_string(policy.threads));
  key.add("patience", Json(policy.patience_s).dump());
  key.add("budget", Json(policy.budget_s).dump());
  key.add("thorough", policy.thorough ? "yes" : "no");
  key.add("sandbox", policy.sandbox ? "yes" : "no");
  if (!policy.captured.empty()) {
    // capture.json has the hash of every tensor, so its own hash covers all of them.
    key.add("captured", policy.captured);
    key.add("captured index", sha256_file(std::filesystem::path(policy.captured) / "capture.json"));
  }
  if (!policy.routing.empty()) key.add("routing", policy.routing);
  if (!policy.variants.empty()) key.add("variants", Json(policy.variants).dump());
  if (!policy.dtypes.empty()) key.add("dtypes", Json(policy.dtypes).dump());
  // `also`: further inputs, named by the caller.
  for (const auto& [name, value] : question.also) key.add("also " + name, value);
  return key;
}

}  // namespace fk
