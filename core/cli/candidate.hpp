// SPDX-License-Identifier: Apache-2.0
// Candidates as folders: search and build, for the verbs build and watch.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace fk {

// The folder of a candidate: candidates/<name>, or a path with a slash. Error with the nearest
// name.
std::filesystem::path candidate_dir(const std::string& name);
// True when the folder has something to compile.
bool has_sources(const std::filesystem::path& dir);
// Compiles and links all sources of the folder into <dir>/<folder's name>.so, replaced atomically.
// The compiler's output goes to stderr, or is appended to `said`. Nothing when the build failed.
// Error when there are no sources. Any thread may call it; at most 64 at the same time.
std::optional<std::filesystem::path> build_candidate(const std::filesystem::path& dir,
                                                     std::string* said = nullptr);
// The folder of the sources that a plugin was built from, if they are unchanged; empty: unknown.
std::filesystem::path sources_of_build(const std::filesystem::path& plugin);
// Why a plugin differs from a build of its folder's sources, for example after a failed build.
// Empty: it does not, or was not built here.
std::string stale_build(const std::filesystem::path& plugin);

}  // namespace fk
