// SPDX-License-Identifier: Apache-2.0
// Sources for a new candidate, as text.
#pragma once
#include <string>

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

}  // namespace fk
