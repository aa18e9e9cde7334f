// SPDX-License-Identifier: Apache-2.0
// Compilers, which read what a stranger wrote: a source runs nothing, but it can name any file to
// be included, and grow without end. So a compiler may read the sources, the headers and the
// system's programs and libraries, write into one folder alone, and take a limited time and memory,
// as far as the kernel can hold it to that.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace fk {

struct Workshop {
  std::vector<std::filesystem::path> read;  // sources and headers
  std::filesystem::path made;               // where everything is written; there are no other files
  std::filesystem::path at;                 // where a program starts; empty: where this one is
  double seconds = 900;  // of the processor, for each program; with `said` of the clock
};

// Runs a program without a shell; its words go to ours, or to the end of `said`. Its exit code, 127
// when it cannot be started, 128 when it was ended.
int run_compiler(const std::vector<std::string>& words, const Workshop& workshop,
                 std::string* said);

// Of what a compiler or linker has said: the line to begin with, and the place in the sources at
// hand that led there where it names another file; what helps beside mending it, or nothing; and
// all of it, as much as somebody reads.
std::string first_error(const std::string& said);
std::string next_of_error(const std::string& said);
std::string cut_words(const std::string& said);

}  // namespace fk
