// SPDX-License-Identifier: Apache-2.0
// Which providers are best for an op on a device, as measured: `ranking:` in
// registry/devices/<device>.yaml, by op, and where they differ by the sizes of a call:
//   linear: [cuda, cublas]
//   paged_attention:
//     - {where: {"T/B": {at_least: 2}}, providers: [cuda, cudnn, flashinfer]}
//     - [flashinfer, cuda]
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/contract/expr.hpp"

namespace fk {

// Of an expression over the axes of an op's contract, its bounds included.
struct SizeBound {
  std::string of;
  int64_t at_least = std::numeric_limits<int64_t>::min();
  int64_t at_most = std::numeric_limits<int64_t>::max();
  bool holds(int64_t value) const { return value >= at_least && value <= at_most; }
  bool operator==(const SizeBound&) const = default;
};
struct RankedProviders {
  std::vector<SizeBound> where;        // all hold of the calls that it is for; empty: of every one
  std::vector<std::string> providers;  // best first; those that are not named come after, by name
  bool operator==(const RankedProviders&) const = default;
};
// By op, in the order in which they are asked: the first one that holds of a call is its own.
using Ranking = std::map<std::string, std::vector<RankedProviders>>;

void to_json(Json& json, const RankedProviders& ranked);
void from_json(const Json& json, RankedProviders& ranked);

// Of the kind that a device's own name has (core/device/device_files.hpp); empty if there is none.
// A device may have that of another one (`ranking: h200`). Error names file and line.
Ranking ranking_of(const std::string& device_name);

// Those of a call with these axes, which the contract names; null if its op has no ranking, or none
// for such a call.
const std::vector<std::string>* ranked(const Ranking& ranking, const std::string& op,
                                       const Axes& axes);

// Batches for which decode on a GPU is made in a size of its own (Session::Options::decode_sizes):
// other kernels are best for products of so many rows.
inline const std::vector<int64_t> kDecodeSizes = {16, 32, 128, 256};

}  // namespace fk
