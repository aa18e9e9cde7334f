// SPDX-License-Identifier: Apache-2.0
// candidate.yaml beside a candidate's sources: how `build` compiles and links them.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace fk {

struct Recipe {
  static constexpr const char* kFile = "candidate.yaml";

  std::vector<std::string> flags;        // of C and C++ compilers, after the mandatory ones
  std::vector<std::string> cuda_flags;   // of nvcc
  std::vector<std::string> definitions;  // NAME or NAME=VALUE, of all compilers
  std::vector<std::string> libraries;    // for the linker, without -l
  std::string march;                     // of C and C++; empty: the compiler's default
  bool openmp = true;

  // Words for a compiler's command line. `language`: c, cpp or cu.
  std::vector<std::string> compiler_words(const std::string& language) const;
  std::vector<std::string> linker_words() const;
};

// The folder's recipe; the defaults without a file. Error with file and line for an unknown key.
// The same for a flag that could break a mandatory one, and for a library that lint refuses.
Recipe load_recipe(const std::filesystem::path& folder);

}  // namespace fk
