// SPDX-License-Identifier: Apache-2.0
// Reads registry/devices/<device>.yaml: known properties of a kind of device.
#pragma once
#include <string>
#include <vector>

#include "core/base/yaml.hpp"

namespace fk {

// Files in all folders of the registry, then the texts of backends (fk_backend.peaks). A file
// replaces a text of the same name. Error names file and line.
std::vector<Yaml> device_files();

// True if a device with this name ("cuda:0 NVIDIA H200") is of the kind in a file ("NVIDIA H200").
// The kind must appear in whole words: a partition of a GPU has more words behind its name ("NVIDIA
// H100 80GB HBM3 MIG 3g.40gb").
bool is_of_kind(const std::string& device_name, const std::string& kind);

}  // namespace fk
