// SPDX-License-Identifier: Apache-2.0
// Sources for a new candidate, as text.
#pragma once
#include <string>
#include <vector>

#include "core/cli/language.hpp"
#include "core/contract/contract.hpp"

namespace fk {

struct Scaffold {
  std::string text;
  bool complete = false;  // computes the op; false: it compiles and refuses every case
};

// `language` is c, cpp or cu. Returns the plain source of the op in plugin_api/template, if there
// is one, with the plugin's name. Otherwise the source is made from the contract: it unpacks every
// field with a comment, and supports() refuses, so that the baseline runs.
Scaffold scaffold(const Contract& contract, const std::string& plugin, const std::string& language);
// The same in a language with a folder of its own (language.hpp); `dir` is the candidate's folder.
Scaffold scaffold(const Contract& contract, const std::string& plugin, const Language& language,
                  const std::filesystem::path& dir);

// A file of a candidate: its name without a folder, and its text.
struct ScaffoldFile {
  std::string name, text;
};
// The reference's source of the op under the plugin's name: right, in float64 and on one thread.
// The first file is the source, and the headers that it includes follow. Empty: there is none.
std::vector<ScaffoldFile> reference_scaffold(const std::string& op, const std::string& plugin);

}  // namespace fk
