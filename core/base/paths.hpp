// SPDX-License-Identifier: Apache-2.0
//
// The project's folders at run time, from a build tree, a source tree or an installed prefix. Each
// call looks them up again, so a test can change the environment.

#pragma once

#include <filesystem>
#include <vector>

namespace fk::paths {

/// The folder of the running program (/proc/self/exe).
std::filesystem::path executable_dir();

/// The folder with registry/ops and scenarios. FK_HOME if set; Error when it lacks them. Else the
/// first such folder from the program's folder upwards, else <prefix>/share/fk-host. Error lists
/// the searched folders.
std::filesystem::path home();

/// home()/registry first, then the entries of FK_REGISTRY_PATH (separated by ':') in order. Error
/// for an entry that is no folder.
std::vector<std::filesystem::path> registry_dirs();

/// home()/scenarios.
std::filesystem::path scenarios_dir();

/// The folder for a new scenario: scenarios_dir(), but the current folder where home() is an
/// installed prefix.
std::filesystem::path new_scenarios_dir();

/// Folders with the host's own providers: `plugins` beside the program or
/// <prefix>/lib/fk-host/plugins, where they exist.
std::vector<std::filesystem::path> own_plugin_dirs();

/// own_plugin_dirs(), then the entries of FK_PLUGIN_PATH. Error for an entry of FK_PLUGIN_PATH that
/// does not exist; an entry may also be a single .so file.
std::vector<std::filesystem::path> plugin_dirs();

/// FK_CANDIDATES if set, else home()/candidates, but `candidates` in the current folder where
/// home() is an installed prefix: users write no files there. May not exist.
std::filesystem::path candidates_dir();

/// FK_CACHE if set, else `cache` beside the program when it runs from a build tree (a folder
/// with CMakeCache.txt), else $XDG_CACHE_HOME/fk-host, else ~/.cache/fk-host. Not created here.
std::filesystem::path cache_dir();

/// The folder of lasting data: verdicts and the key that signs receipts. FK_DATA if set, else
/// $XDG_DATA_HOME/fk-host, else ~/.local/share/fk-host. Not created here. Error when none is set.
std::filesystem::path data_dir();

}  // namespace fk::paths
