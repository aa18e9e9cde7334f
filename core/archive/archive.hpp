// SPDX-License-Identifier: Apache-2.0
// Judged programs in one SQLite file, beside the store of verdicts. docs/archive.md has its tables.
// All functions throw HostError when the file cannot be used. Several processes may use it at once.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/archive/program.hpp"

namespace fk {

class Archive {
 public:
  // In the data folder of this user.
  static std::filesystem::path default_file();
  // Makes the file and its folder, or brings the tables of an older version to this one. Error for
  // a newer version, and for a file with other tables.
  explicit Archive(const std::filesystem::path& file);
  Archive(Archive&&) noexcept;
  ~Archive();
  static constexpr int64_t kVersion = 2;

  struct Put {
    std::string id;
    bool fresh = false;   // the archive did not have it
    std::string same_as;  // an earlier program with the same code
  };
  // Adds a program, or a verdict of a known one. Fills its id, hashes, time and same_as. The notes
  // of a known program stay. The verdict of a known receipt is kept once.
  Put put(JudgedProgram program);

  // With files. Error when no or several programs begin so.
  JudgedProgram program(const std::string& id);
  // All of its verdicts, the oldest first.
  std::vector<ProgramVerdict> verdicts(const std::string& id);
  // Full ids of programs with this source, without comments and white space; the oldest first.
  std::vector<std::string> with_normal(const std::string& op, const std::string& kind,
                                       const std::string& normal);

  // Empty texts match all.
  struct Search {
    std::string op, kind, author;
    bool right = false;       // only right ones
    bool duplicates = false;  // also programs whose code an earlier one has
  };
  // Without files. Right and timed ones come first, by the lower end of their speed.
  std::vector<JudgedProgram> list(const Search& search);
  // A program and its ancestors, each once, children first. Unknown parents are left out.
  std::vector<JudgedProgram> lineage(const std::string& id);

  // Removes all but the best `keep` programs of each op and kind, their ancestors, and programs
  // younger than `days`. Returns the number of removed ones.
  int64_t prune(int64_t keep, double days);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fk
