// SPDX-License-Identifier: Apache-2.0
// Checks that devices with their own memory can hold a run of a scenario: the oracle's weights and
// caches, and the sides' caches. Computed before any allocation, so that a small device is not
// mistaken for a fault.
#pragma once
#include <optional>
#include <string>

#include "core/exec/model.hpp"
#include "core/scenario/run_report.hpp"

namespace fk {

struct DeviceMemoryBudget {
  std::string name;
  int64_t memory = 0, free = 0;  // bytes
};
// Nothing for a device with the host's memory.
std::optional<DeviceMemoryBudget> room_of(const std::string& device);

class RunMemoryBudget {
 public:
  // `longest`: tokens of the longest request. `ranks_there`: number of ranks that share the first
  // rank's device.
  RunMemoryBudget(const Model& model, const Catalog& catalog, const Limits& limits, int64_t longest,
                  int64_t ranks_there = 1);

  struct Oracle {
    bool divided = false;  // like the model, because no device holds all of it
    std::string note;
    std::optional<TooLarge> too_large;
  };
  Oracle oracle(const DeviceMemoryBudget& whole, const DeviceMemoryBudget& rank) const;

  // Bytes without the weights for `sides` sides (1; 2 with a candidate) with all wanted pages.
  int64_t wanted_bytes(int sides) const;
  struct Pages {
    int64_t pages = 0;  // the limits' if they fit, or if there are no pages
    std::string note;   // why there are fewer
    std::string why;    // why no number fits
    std::optional<TooLarge> too_large;
  };
  Pages pages(const DeviceMemoryBudget& rank, int sides) const;

 private:
  TooLarge too_large(const DeviceMemoryBudget& device, int64_t weights, int64_t states,
                     int64_t beside, const std::string& whose) const;

  const Model& model_;
  const Catalog& catalog_;
  Limits limits_;
  int64_t longest_, ranks_there_;
};

}  // namespace fk
