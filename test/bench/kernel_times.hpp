// SPDX-License-Identifier: Apache-2.0
// Where the device's time goes: how long every kernel, copy and fill ran, those inside of graphs as
// well, by name. CUPTI says so; it is loaded when it is asked for, and not linked.
#pragma once
#include <memory>

#include "core/base/json.hpp"

namespace fk::bench {

class KernelTimes {
 public:
  // From before the first graph is made, or CUPTI knows graphs as a whole only. Throws where CUPTI
  // cannot be loaded or refuses. One object at a time.
  KernelTimes();
  KernelTimes(const KernelTimes&) = delete;
  ~KernelTimes();

  // Forgets what ran so far, whose device has to be idle.
  void restart();
  // {"span_ms", "busy_ms", "kernels": [{"name", "count", "ms"}]} since then, the longest first:
  // from the first start to the last end, and how much of it something ran in. The device has to be
  // idle.
  Json table();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fk::bench
