// SPDX-License-Identifier: Apache-2.0
// Runs compilers on untrusted sources. A source can include any file, and grow without end. In most
// languages it runs nothing; a source in Python runs while it is compiled. So a compiler may read
// only the sources, the headers, and the system's programs and libraries. It writes into one
// folder, with limited time and memory. All of this applies as far as the kernel supports it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fk {

constexpr int64_t kCompilerMemory = int64_t{16} << 30;  // bytes of addresses for each program

struct Workshop {
  std::vector<std::filesystem::path> read;  // sources and headers
  std::filesystem::path made;  // folder for all written files; other folders are read only
  std::filesystem::path at;    // working directory of programs; empty: this process's
  double seconds = 900;        // processor seconds of each program; with `said` wall-clock seconds
  bool runs_sources = false;   // the program runs statements of the sources
  std::vector<std::filesystem::path> programs = {};  // further folders of programs
  bool confined =
      true;  // false for a program that reads no source, such as `rustc --print sysroot`
};

// Runs a program without a shell. Its output goes to this process's streams, or is appended to
// `said`. Returns its exit code; 127: it cannot start; 128: it was ended.
int run_compiler(const std::vector<std::string>& words, const Workshop& workshop,
                 std::string* said);

// Excerpts of a compiler's or linker's output. first_error(): the line to begin with; if it names
// another file, also the place in the own sources that led there. next_of_error(): a further hint,
// or empty. cut_words(): the whole output, cut to a readable length.
std::string first_error(const std::string& said);
std::string next_of_error(const std::string& said);
std::string cut_words(const std::string& said);

}  // namespace fk
