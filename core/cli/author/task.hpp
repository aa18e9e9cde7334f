// SPDX-License-Identifier: Apache-2.0
// TASK.md of a candidate's folder: one page with all that an agent needs to write an op.
#pragma once
#include <string>

#include "core/contract/contract.hpp"

namespace fk {

struct TaskPage {
  std::string name;    // of the candidate
  std::string file;    // its source, without a folder
  std::string source;  // text to print; it is left out if the page has no room
  std::string state;   // a sentence about the source
};

constexpr size_t kTaskPageMax = 16000;  // bytes

// plugin_api/template/task.md with the contract of the op and the source. A long contract loses
// cases first, then the source, then the names of production arguments, until the page fits.
std::string task_page(const Contract& contract, const TaskPage& page);

}  // namespace fk
