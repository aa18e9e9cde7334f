// SPDX-License-Identifier: Apache-2.0
//
// A new empty folder, which is gone with everything in it at the end of its scope.

#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

struct Folder {
  std::filesystem::path path;

  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "fk_test_XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error(name + " cannot be made");
    path = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;  // a test may have taken the right to write away
    std::filesystem::permissions(path, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path, ignored);
  }
};
