// SPDX-License-Identifier: Apache-2.0
// Plugins as files, without a look into them; discover() in notes.hpp reads their notes.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fk {

// All *.so where baselines are looked for, sorted; one that is found twice is there once.
std::vector<std::filesystem::path> baseline_files();

// The file of this stem where baselines and candidates are looked for; nothing where there are
// none or several. No file is opened.
std::optional<std::filesystem::path> only_plugin_file(const std::string& stem);

}  // namespace fk
