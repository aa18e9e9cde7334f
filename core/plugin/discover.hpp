// SPDX-License-Identifier: Apache-2.0
// Plugins as files, without a look into them; discover() in notes.hpp reads their notes.
#pragma once
#include <filesystem>
#include <vector>

namespace fk {

// All *.so where baselines are looked for, sorted; one that is found twice is there once.
std::vector<std::filesystem::path> baseline_files();

}  // namespace fk
