// SPDX-License-Identifier: Apache-2.0
// Which providers are best for an op on a device, as measured: `ranking:` in
// registry/devices/<device>.yaml.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fk {

// op -> providers, best first; those that are not named come after them, by name.
using Ranking = std::map<std::string, std::vector<std::string>>;

// Of the device whose registered `name` ends a device's own name ("cuda:0 NVIDIA H200"); empty if
// there is none. Error names file and line.
Ranking ranking_of(const std::string& device_name);

// Batches for which decode on a GPU is made in a size of its own (Session::Options::decode_sizes):
// up to so many rows a matrix product is bound by its weights, and other kernels are best.
inline const std::vector<int64_t> kDecodeSizes = {16};

}  // namespace fk
