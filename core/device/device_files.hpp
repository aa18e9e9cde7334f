// SPDX-License-Identifier: Apache-2.0
// registry/devices/<device>.yaml: what is known of a kind of device beforehand.
#pragma once
#include <string>
#include <vector>

#include "core/base/yaml.hpp"

namespace fk {

// Of all folders of the registry. Error names file and line.
std::vector<Yaml> device_files();

// Whether a device that calls itself so ("cuda:0 NVIDIA H200") is of the kind that a file names
// ("NVIDIA H200"): the name is there in whole words, because a part of a GPU has more of them
// behind ("NVIDIA H100 80GB HBM3 MIG 3g.40gb").
bool is_of_kind(const std::string& device_name, const std::string& kind);

}  // namespace fk
