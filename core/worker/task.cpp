// SPDX-License-Identifier: Apache-2.0
// The list of tasks, which FK_TASK fills before main().
#include "core/worker/task.hpp"

#include <map>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

std::map<std::string, Task>& tasks() {
  static std::map<std::string, Task> map;
  return map;
}

}  // namespace

TaskRegistration::TaskRegistration(const char* name, Task task) { tasks()[name] = task; }

bool has_task(const std::string& name) { return tasks().count(name) > 0; }

const Task& need_task(const std::string& name) {
  const auto found = tasks().find(name);
  if (found != tasks().end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [each, task] : tasks()) known.push_back(each);
  throw UnknownMessage(name, known);
}

}  // namespace fk
