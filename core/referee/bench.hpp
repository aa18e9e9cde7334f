// SPDX-License-Identifier: Apache-2.0
// Time of the providers of an op, side by side: one case, all providers in turn on the same
// contents, forwards and backwards (A B B A), cold (rotating over enough sets of buffers that none
// is still in a cache of usual size) and warm (always the same set).
#pragma once
#include <string>
#include <vector>

#include "core/plugin/library.hpp"
#include "core/referee/check.hpp"

namespace fk {

struct BenchRow {
  std::string op, case_name, provider;
  std::string why;  // why there is no time: refused, wrong, failed
  double cold_s = 0, cold_low_s = 0, cold_high_s = 0;  // median, first and third quartile
  double warm_s = 0;                                   // median
  int samples = 0;
  double bytes = 0, flops = 0;  // of the contract's cost
  double of_copy = 0;  // its bytes per second as a share of what a copy of large buffers reaches
  double speedup = 0;  // of the reference's cold median over this one's; 0 without a reference
};

struct BenchOptions {
  std::string size = "full";
  std::vector<std::string> providers;  // empty: all that are loaded
  double seconds = 1;                  // per case and provider, about
  uint64_t seed = 1;
  int threads = 2;
};

// All cases of one op. Values are checked first: what is wrong is not timed.
std::vector<BenchRow> bench_op(const Plugins& plugins, const std::string& op,
                               const BenchOptions& options);

// Bytes read and written per second by a copy of 128 MiB on that many threads, the median of five;
// measured once per process and number of threads.
double copy_bytes_per_s(int threads);

}  // namespace fk
