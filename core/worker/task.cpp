// SPDX-License-Identifier: Apache-2.0
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

bool is_like(const Json& value, const Json& model) {
  if (model.is_null()) return value.is_null() || value.is_number();
  if (model.is_number_integer()) return value.is_number_integer();
  return model.is_number() ? value.is_number() : value.type() == model.type();
}

}  // namespace

TaskRegistration::TaskRegistration(const char* name, Task task) { tasks()[name] = task; }

Task find_task(const std::string& name) {
  const auto it = tasks().find(name);
  return it == tasks().end() ? nullptr : it->second;
}

void ToldRows::add(const Json& row) {
  constexpr size_t kBytesMax = size_t{64} << 20, kRowBytes = 1024;
  if (!row.is_object()) fail("a malformed row", "it is no object");
  bytes_ += kRowBytes;
  for (const auto& [key, value] : row.items()) {
    const auto it = model_.find(key);
    if (it == model_.end() || !is_like(value, *it)) fail("a malformed row", excerpt(key));
    if (value.is_string()) bytes_ += value.get_ref<const std::string&>().size();
  }
  if (bytes_ > kBytesMax) fail("worker", "it tells of more rows than there can be");
  rows_.push_back(row);
}

}  // namespace fk
