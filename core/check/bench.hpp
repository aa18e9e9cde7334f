// SPDX-License-Identifier: Apache-2.0
// Time of the providers of an op, side by side on one case: values first, then a race
// (race_clock.hpp) of all that are right, with a copy of as many bytes in the same race. On CUDA
// devices calls are captured where the provider claims that they may be.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/cases/received.hpp"
#include "core/check/check.hpp"
#include "core/exec/peaks.hpp"
#include "core/measure/race_clock.hpp"
#include "core/plugin/library.hpp"

namespace fk {

// What one call of a rank costs.
struct CallCost {
  double bytes = 0, flops = 0;
  double wire = 0;  // bytes over links; 0 where ranks share a device, and with it its memory
};

struct BenchRow {
  std::string op, case_name, provider;
  Axes axes;          // of the case, as its contract names them
  std::string why;    // why there is no time: refused, wrong, failed
  std::string note;   // why its values were not judged; it is timed all the same
  Timing cold;        // of one call, last cache flushed
  double warm_s = 0;  // median, on buffers that were just used; 0: not measured
  double plan_s = 0;  // plan() on the host, which is not part of the others
  int calls = 1;      // in one sample
  bool captured = false, host_bound = false;
  CallCost cost;        // the contract's
  double copy_s = 0;    // median of a copy that moves as many bytes, under the same flush
  double roofline = 0;  // the device's least time for them over the cold median; 0: no peaks known
  std::string against;  // the provider that `ratio` is over; empty for that one itself
  Ratio ratio;
  bool settled = true;  // false: the time budget ended the race
  std::string
      routing;       // of tokens to experts: captured, uniform, skewed; empty where there is none
  double skew = 0;   // the busiest expert's load over the mean; 0: none
  Ratio of_uniform;  // cold time over that with uniform routing; no blocks: not measured
  double of_copy() const { return cold.median_s > 0 ? copy_s / cold.median_s : 0; }
};

struct BenchOptions {
  std::string size = "full";
  std::vector<std::string> providers;  // empty: all that are loaded; the others race the first
  std::vector<std::string> cases;      // empty: all of that size
  const std::vector<Case>* captured = nullptr;  // instead of the contract's; they outlive the bench
  bool captured_random = false;  // of random weights: a published skew stands beside their routing
  // Where calls are told the experts, uniform routing and that of this skew; 0: as the cases say.
  double skew = 0;
  Device* device = nullptr;  // null: the CPU
  // This rank's, for ops with a communicator: their cases with so many ranks, which all of them
  // bench together; null: those are left out.
  Communicator* comm = nullptr;
  bool graphs = true;  // false: calls are launched one by one where they could be captured
  double seconds = 1;  // per case and provider, about
  uint64_t seed = 1;
  int threads = 2;
  std::function<void(const BenchRow& row)> on_row;
  std::function<void(const std::string& what)> on_step;  // what comes next
};

// The least time that a device needs for that: the largest of the three. The peak of operations is
// that of the smallest dtype among the floats that are read. 0 when the device has no peak for it.
double roofline_s(const Peaks& peaks, const ResolvedCase& resolved, const CallCost& cost);
// The bytes over links of the busiest rank (wire_bytes), where every rank has a device of its own,
// or the CPU's file has a link between its processes.
double wire_of_device(const Device& device, const ResolvedCase& resolved, const Choices& choices);

// All cases of one op. What is wrong is not timed.
std::vector<BenchRow> bench_op(const Plugins& plugins, const std::string& op,
                               const BenchOptions& options);

}  // namespace fk
