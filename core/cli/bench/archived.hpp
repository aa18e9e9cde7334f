// SPDX-License-Identifier: Apache-2.0
// Verdicts of candidates with known sources go into the archive (core/archive).
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/archive/program.hpp"
#include "core/judge/verdict/verdict.hpp"

namespace fk {

// The sources of a candidate's folder and its recipe, by name. Error for more than kSourcesMost
// bytes, which nobody wrote.
constexpr size_t kSourcesMost = size_t{4} << 20;
std::vector<ProgramFile> sources_in(const std::filesystem::path& folder);
// "cpp" for the first source with that extension, or the name of a language of plugin_api/adapters.
std::string language_of_files(const std::vector<ProgramFile>& files);

// Programs of a verdict, one for each judged op, without ids.
std::vector<JudgedProgram> programs_of(const Verdict& verdict, const std::string& device,
                                       const std::vector<ProgramFile>& files,
                                       const ProgramNotes& notes,
                                       const std::filesystem::path& plugin);

// Puts them into an archive. `file` empty: the default one, whose faults become a note. `folder`:
// the sources; empty: those beside the plugin, if a build of them made it. Without known sources
// nothing is put.
void archive_verdict(const std::filesystem::path& file, const std::string& device,
                     std::filesystem::path folder, const std::filesystem::path& plugin,
                     const Verdict& verdict, std::vector<std::string>& notes);

}  // namespace fk
