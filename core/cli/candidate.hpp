// SPDX-License-Identifier: Apache-2.0
// Candidates as folders: finding one and building it, for the verbs build and watch.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace fk {

// candidates/<name>, or a path with a slash. Error with the nearest name.
std::filesystem::path candidate_dir(const std::string& name);
// Compiles and links every source of the folder into <dir>/<folder's name>.so, replaced atomically.
// The compiler's words go to the standard error, or to the end of `said`; nothing when it failed.
// Error when there is nothing to build.
std::optional<std::filesystem::path> build_candidate(const std::filesystem::path& dir,
                                                     std::string* said = nullptr);
// Why a plugin is not what the sources in its folder make, as after a build that failed; empty: it
// is, or it was not built here.
std::string stale_build(const std::filesystem::path& plugin);

}  // namespace fk
