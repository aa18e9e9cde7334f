// SPDX-License-Identifier: Apache-2.0
// All plugins that the controller finds, by their notes alone.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/plugin/notes.hpp"
#include "core/worker/spec.hpp"

namespace fk {

struct PluginSet {
  std::vector<FoundPlugin> baselines;   // usable ones, oracles included
  std::vector<FoundPlugin> candidates;  // all; `error` has the reason when one is unusable
  std::vector<FoundPlugin> broken;      // baselines that are unusable
  std::optional<FoundPlugin> rival;     // the only opponent in a race, in place of the baselines

  // Searches the plugin folders. Candidates are linted, and their notes are compared with the
  // contracts. A name that a baseline or an earlier candidate has is refused.
  static PluginSet find(const Catalog& catalog);
  // Baselines for this device only, because there may be thousands of candidates. For the CPU,
  // plugins with device code are left out: a process with a GPU's libraries runs the same CPU
  // kernel 0.7 percent slower (docs/results/2026-11-22-cpu-precision.json).
  static PluginSet of_baselines(const std::string& device);

  // Names of the baselines: the host's own, then those of FK_PLUGIN_PATH, then oracles; each part
  // in alphabetical order.
  std::vector<std::string> ranked() const;
  std::vector<PluginFile> baseline_files() const;
  std::vector<PluginFile> oracle_files() const;
  // Null if there is none.
  const FoundPlugin* candidate(const std::string& name) const;
  // Why no candidate may have this name; empty: one may.
  std::string name_taken(const std::string& name) const;
  // Finds a plugin by its name, by a candidate's folder, or by its file. A file that is no
  // baseline's is a candidate. Error with the nearest name.
  FoundPlugin plugin(const std::string& word) const;
  // Replaces files and folders among these words by the names of their candidates. A candidate from
  // elsewhere joins the set, in place of one with its name. Other words stay as they are. Error for
  // a baseline, for a file without notes, and for two files of one name.
  void take_in(std::vector<std::string>& words, const Catalog& catalog);
};

// Error when a folder of candidates has this name, which means that it is not built. For callers
// that found no such plugin.
void need_built(const std::string& name);
// A plugin of FK_PLUGIN_PATH with this beginning ("reference.acme") is the reference on the CPU of
// ops which `reference` does not have: a vendor's own ops.
constexpr const char* kVendorReference = "reference.";
// "reference", "cuda_reference", "opencl_reference" and the references of vendors.
bool is_oracle(const std::string& plugin);
// The name to show: the plugin's own, else its file's.
std::string plugin_name(const FoundPlugin& plugin);

struct UnusablePlugin {
  std::string path, why;
};
template <class Visitor>
void fields(Visitor& v, UnusablePlugin& p) {
  v("path", p.path, "its file");
  v("why", p.why, "why it cannot be used");
}
using Unusable = std::vector<UnusablePlugin>;

// `why` without the file's name at its beginning.
UnusablePlugin unusable(const std::filesystem::path& file, const std::string& why);

// HostError with the loader's reason if one of these plugins did not load. For names which the user
// gave: nothing may take their place.
void need_loaded(const std::vector<std::string>& names, const Unusable& unusable);

// The files that did not load, with the reason; a library that they need may be missing. `errors`
// are those of `Runner::load`. Error with the first reason when a candidate is among them, or when
// no usable baseline is left.
Unusable unusable_of(const std::vector<PluginFile>& files, const std::vector<std::string>& errors);

}  // namespace fk
