// SPDX-License-Identifier: Apache-2.0
// A new folder for files of one task, removed with everything in it.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

struct WorkFolder {
  std::filesystem::path path;
  // `task` is a part of its name. Error if it cannot be created.
  explicit WorkFolder(const std::string& task) {
    std::string name =
        (std::filesystem::temp_directory_path() / ("fk-" + task + "-XXXXXX")).string();
    if (!::mkdtemp(name.data())) fail_host(name, "cannot be created: " + errno_text());
    path = name;
  }
  WorkFolder(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code none;
    std::filesystem::remove_all(path, none);
  }
};

}  // namespace fk
