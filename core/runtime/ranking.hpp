// SPDX-License-Identifier: Apache-2.0
// Which providers are best for an op on a device, as measured: `ranking:` in
// registry/devices/<device>.yaml, by op, or by op and phase of the model where they differ.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fk {

// op, or op.phase -> providers, best first; those that are not named come after them, by name.
using Ranking = std::map<std::string, std::vector<std::string>>;

// Of the kind that a device's own name has (core/device/device_files.hpp); empty if there is none.
// A device may have that of another one (`ranking: h200`). Error names file and line.
Ranking ranking_of(const std::string& device_name);

// Those of an op in a phase (empty: in none), else those of the op; null if it has no ranking.
const std::vector<std::string>* ranked(const Ranking& ranking, const std::string& op,
                                       const std::string& phase);

// Batches for which decode on a GPU is made in a size of its own (Session::Options::decode_sizes):
// other kernels are best for products of so many rows.
inline const std::vector<int64_t> kDecodeSizes = {16, 32, 128, 256};

}  // namespace fk
