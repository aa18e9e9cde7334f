// SPDX-License-Identifier: Apache-2.0
#include "core/worker/task.hpp"

#include <map>

namespace fk {

namespace {

std::map<std::string, Task>& tasks() {
  static std::map<std::string, Task> map;
  return map;
}

}  // namespace

TaskRegistration::TaskRegistration(const char* name, Task task) { tasks()[name] = task; }

Task find_task(const std::string& name) {
  const auto it = tasks().find(name);
  return it == tasks().end() ? nullptr : it->second;
}

}  // namespace fk
