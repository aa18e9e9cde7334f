// SPDX-License-Identifier: Apache-2.0
// Plugins as files, without reading them; discover() in notes.hpp reads their notes.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fk {

// All *.so files in the folders of baselines, sorted, each once.
std::vector<std::filesystem::path> baseline_files();

// The only file of this stem in the folders of baselines and candidates; empty if there are none or
// several. Opens no file.
std::optional<std::filesystem::path> only_plugin_file(const std::string& stem);

}  // namespace fk
