// SPDX-License-Identifier: Apache-2.0
// Where the device's time goes: how long every kernel, copy and fill ran, by name.
#pragma once
#include "core/base/json.hpp"

namespace fk::bench {

class KernelTimes {
 public:
  // As start_records() in cupti_records.hpp.
  KernelTimes();
  KernelTimes(const KernelTimes&) = delete;
  ~KernelTimes();

  // Forgets what ran so far, whose device has to be idle.
  void restart();
  // {"span_ms", "busy_ms", "kernels": [{"name", "count", "ms"}]} since then, the longest kernel
  // first. The span is from the first start to the last end; busy is the part with a running
  // kernel. The device has to be idle.
  Json table();
};

}  // namespace fk::bench
