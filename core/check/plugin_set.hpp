// SPDX-License-Identifier: Apache-2.0
// Which plugins there are, as the broker sees them: by their notes alone.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/plugin/notes.hpp"
#include "core/worker/spec.hpp"

namespace fk {

struct PluginSet {
  std::vector<FoundPlugin> baselines;   // usable ones, oracles included
  std::vector<FoundPlugin> candidates;  // all, with the reason in `error` when one cannot be used
  std::vector<FoundPlugin> broken;      // baselines that cannot be used

  // Looks where plugins are looked for. Candidates are linted and their notes compared with the
  // contracts; a name that a baseline or an earlier candidate has is refused.
  static PluginSet find(const Catalog& catalog);
  // The same without candidates, of which there may be thousands, for this device: where it is the
  // CPU, what has device code is left out. In a process that has loaded a GPU's libraries the same
  // CPU kernel is slower, by 0.7 percent (docs/results/2026-11-22-cpu-precision.json).
  static PluginSet of_baselines(const std::string& device);

  // Names of the baselines, best first: by name, the oracles last.
  std::vector<std::string> ranked() const;
  std::vector<PluginFile> baseline_files() const;
  std::vector<PluginFile> oracle_files() const;
  // Null if there is none.
  const FoundPlugin* candidate(const std::string& name) const;
  // Why no candidate may have this name; empty if one may.
  std::string name_taken(const std::string& name) const;
  // A plugin by its name, by the folder of a candidate, or a file, which then is a candidate where
  // it is no baseline's. Error with the nearest name.
  FoundPlugin plugin(const std::string& word) const;
};

// Error where a folder of candidates has this name, for who has found no plugin of that name.
void need_built(const std::string& name);
// "reference" and "cuda_reference".
bool is_oracle(const std::string& plugin);
// The name to show for a found plugin: its own, else the file's.
std::string plugin_name(const FoundPlugin& plugin);

// Of files that were loaded those that could not be, with why (`errors` as Runner::load has them):
// a library that one of them needs may be missing. Error with the first reason when a candidate is
// among them, or no baseline is left to do the work.
using Unusable = std::vector<std::pair<std::string, std::string>>;
Unusable unusable_of(const std::vector<PluginFile>& files, const std::vector<std::string>& errors);

}  // namespace fk
