// SPDX-License-Identifier: Apache-2.0
// The measured best providers for an op on a device: `ranking:` in registry/devices/<device>.yaml,
// by op, and by sizes of a call where they matter:
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

// Bounds of an expression over the axes of an op's contract, inclusive.
struct SizeBound {
  std::string of;
  int64_t at_least = std::numeric_limits<int64_t>::min();
  int64_t at_most = std::numeric_limits<int64_t>::max();
  bool holds(int64_t value) const { return value >= at_least && value <= at_most; }
  bool operator==(const SizeBound&) const = default;
};
struct RankedProviders {
  std::vector<SizeBound> where;        // conditions that all must hold for a call; empty: each call
  std::vector<std::string> providers;  // best first; unnamed providers follow by name
  bool operator==(const RankedProviders&) const = default;
};
// By op. The first entry whose conditions hold for a call is used.
using Ranking = std::map<std::string, std::vector<RankedProviders>>;

void to_json(Json& json, const RankedProviders& ranked);
void from_json(const Json& json, RankedProviders& ranked);

// The ranking for a device's own name (core/device/device_files.hpp); empty: none. A device may use
// another one's (`ranking: h200`). Error with file and line.
Ranking ranking_of(const std::string& device_name);

// The best providers for a call with these axes of the contract; null: the op has no ranking for
// it.
const std::vector<std::string>* ranked(const Ranking& ranking, const std::string& op,
                                       const Axes& axes);

// Batches with a decode program of their own on a GPU (Session::Options::decode_sizes), because the
// best kernels for products depend on the number of rows.
inline const std::vector<int64_t> kDecodeSizes = {16, 32, 128, 256};

}  // namespace fk
