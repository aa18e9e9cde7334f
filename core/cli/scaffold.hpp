// SPDX-License-Identifier: Apache-2.0
// Sources for a new candidate, as text.
#pragma once
#include <string>

#include "core/contract/contract.hpp"

namespace fk {

struct Scaffold {
  std::string text;
  bool complete = false;  // computes the op; otherwise it compiles and refuses every case
};

// `language` is c, cpp or cu. Where plugin_api/template has a plain source of the op in that
// language, that source under the plugin's name; otherwise one that is made from the contract:
// every field unpacked and commented, and supports() refusing, so that the baseline runs.
Scaffold scaffold(const Contract& contract, const std::string& plugin, const std::string& language);

}  // namespace fk
