// SPDX-License-Identifier: Apache-2.0
// Whether devices with memory of their own have room for what a run of a scenario opens there: the
// oracle's weights and caches, and the caches of the sides. Decided from figures before anything is
// made, so that a device that is too small is told from a fault.
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
// Nothing where the memory is the host's.
std::optional<DeviceMemoryBudget> room_of(const std::string& device);

class RunMemoryBudget {
 public:
  // `longest`: tokens of the longest request; `ranks_there`: so many of the ranks share the first
  // one's device.
  RunMemoryBudget(const Model& model, const Catalog& catalog, const Limits& limits, int64_t longest,
          int64_t ranks_there = 1);

  struct Oracle {
    bool divided = false;  // as the model is, because the whole of it fits nowhere
    std::string note;
    std::optional<TooLarge> too_large;
  };
  Oracle oracle(const DeviceMemoryBudget& whole, const DeviceMemoryBudget& rank) const;

  // Bytes beside the weights of so many sides (1; 2 with a candidate) with all pages that are
  // wanted.
  int64_t wanted_bytes(int sides) const;
  struct Pages {
    int64_t pages = 0;  // of the limits where there is room for them, or where there are no pages
    std::string note;   // why there are fewer
    std::string why;    // why none would do
    std::optional<TooLarge> too_large;
  };
  Pages pages(const DeviceMemoryBudget& rank, int sides) const;

 private:
  TooLarge too_large(const DeviceMemoryBudget& device, int64_t weights, int64_t states, int64_t beside,
                     const std::string& whose) const;

  const Model& model_;
  const Catalog& catalog_;
  Limits limits_;
  int64_t longest_, ranks_there_;
};

}  // namespace fk
