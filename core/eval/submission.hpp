// SPDX-License-Identifier: Apache-2.0
// A submission: a folder of plugins with a manifest. docs/evaluation.md has the grammar. Reads
// notes and hashes only; no plugin is mapped.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"

namespace fk {

struct SubmittedPlugin {
  std::filesystem::path file;
  std::string name, version, sha256;
  std::vector<std::string> ops;  // as in its note
};

struct Submission {
  std::filesystem::path folder;
  std::string name, author, kind, budget, commit, note;  // as in the manifest
  std::vector<SubmittedPlugin> plugins;                  // by name
  bool has_op(const std::string& op) const;
  std::string sha256() const;  // of the plugins' contents, in any order
};

inline constexpr const char* kManifest = "manifest.yaml";

// Error with file and line when the manifest contradicts the folder or a plugin's note, or when a
// plugin cannot be read.
Submission load_submission(const std::filesystem::path& folder, const Catalog& catalog);
// Error for a second submission with a name, or for a plugin in two submissions.
void check_submissions(const std::vector<Submission>& submissions);

}  // namespace fk
