// SPDX-License-Identifier: Apache-2.0
// Times of an op's providers on one case. Values come first; then all right providers race
// (race_clock.hpp), together with a copy of as many bytes. On CUDA devices, calls are captured
// where the provider claims that they may be.
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

// Cost of one call of a rank.
struct CallCost {
  double bytes = 0, flops = 0;
  double wire = 0;  // bytes over links; 0 where ranks share a device
};

struct BenchRow {
  std::string op, case_name, provider;
  int ranks = 1;      // that call the case together
  Axes axes;          // of the case, as its contract names them
  std::string why;    // why there is no time: refused, wrong, failed
  std::string note;   // why its values were not judged; it is timed in any case
  Timing cold;        // of one call, last cache flushed
  double warm_s = 0;  // median, on buffers that were just used; 0: not measured
  double plan_s = 0;  // plan() on the host; not part of the other times
  int calls = 1;      // in one sample
  bool captured = false, host_bound = false;
  CallCost cost;        // by the contract
  double copy_s = 0;    // median of a copy that moves as many bytes, under the same flush
  double roofline = 0;  // least time of the device over the cold median; 0: no peaks known
  std::string against;  // provider in the denominator of `ratio`; empty for that provider itself
  Ratio ratio;
  bool settled = true;  // false: the time budget ended the race
  std::string routing;  // of tokens to experts: captured, uniform, skewed; empty: no routing
  double skew = 0;      // the busiest expert's load over the mean; 0: none
  Ratio of_uniform;     // cold time over that with uniform routing; no blocks: not measured
  double of_copy() const { return cold.median_s > 0 ? copy_s / cold.median_s : 0; }
};

struct BenchOptions {
  std::string size = "full";
  std::vector<std::string> providers;  // empty: all loaded ones; the others race the first
  std::vector<std::string> cases;      // empty: all of that size
  // in place of the contract's; they outlive the bench
  const std::vector<Case>* captured = nullptr;
  bool captured_random = false;  // recorded with random weights: a skewed routing is added
  // For ops with expert ids: uniform routing, and one of this skew. 0: the cases' own routing.
  double skew = 0;
  Device* device = nullptr;  // null: the CPU
  // This rank's communicator. Cases of collectives with its number of ranks are benched by all
  // ranks together; null: they are left out.
  Communicator* comm = nullptr;
  bool graphs = true;  // false: calls are never captured
  double seconds = 1;  // per case and provider, about
  uint64_t seed = 1;
  int threads = 2;
  std::function<void(const BenchRow& row)> on_row;
  std::function<void(const std::string& what)> on_step;  // gets the name of the next step
};

// The device's least time for a call: the largest of the times for bytes, operations and links. The
// peak of operations is that of the smallest float dtype that is read. 0: the device has no such
// peak.
double roofline_s(const Peaks& peaks, const ResolvedCase& resolved, const CallCost& cost);
// Bytes over links of the busiest rank (wire_bytes). 0 unless each rank has its own device, or the
// CPU's file has a link between processes.
double wire_of_device(const Device& device, const ResolvedCase& resolved, const Choices& choices);

// Benches all cases of one op. Wrong providers are not timed.
std::vector<BenchRow> bench_op(const Plugins& plugins, const std::string& op,
                               const BenchOptions& options);

}  // namespace fk
