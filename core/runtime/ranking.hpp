// SPDX-License-Identifier: Apache-2.0
// Which providers are best for an op on a device, as measured: `ranking:` in
// registry/devices/<device>.yaml.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace fk {

// op -> providers, best first; those that are not named come after them, by name.
using Ranking = std::map<std::string, std::vector<std::string>>;

// Of the device whose registered `name` ends a device's own name ("cuda:0 NVIDIA H200"); empty if
// there is none. Error names file and line.
Ranking ranking_of(const std::string& device_name);

}  // namespace fk
