// SPDX-License-Identifier: Apache-2.0
#include "test/bench/kernel_times.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/bench/cupti_records.hpp"

namespace fk::bench {

namespace {

struct Record {
  std::string name;
  uint64_t start, end;  // ns
};
// Filled by threads of CUPTI, which knows no context pointer.
std::mutex mutex;
std::vector<Record> records;

void keep(const char* name, uint64_t start, uint64_t end) {
  const std::lock_guard lock(mutex);
  records.push_back({name, start, end});
}

}  // namespace

KernelTimes::KernelTimes() { start_records(keep); }

KernelTimes::~KernelTimes() {
  try {
    stop_records();
  } catch (const std::exception&) {  // what is missing nobody asks for any more
  }
}

void KernelTimes::restart() {
  flush_records(true);
  const std::lock_guard lock(mutex);
  records.clear();
}

Json KernelTimes::table() {
  flush_records(true);
  const std::lock_guard lock(mutex);
  std::sort(records.begin(), records.end(),
            [](const Record& a, const Record& b) { return a.start < b.start; });
  struct Sum {
    int64_t count = 0;
    uint64_t ns = 0;
  };
  std::map<std::string, Sum> sums;
  uint64_t busy = 0, last = 0;
  for (const Record& r : records) {
    Sum& sum = sums[r.name];
    sum.count += 1, sum.ns += r.end - r.start;
    if (r.end > last) busy += r.end - std::max(r.start, last), last = r.end;
  }
  std::vector<std::pair<std::string, Sum>> rows(sums.begin(), sums.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  Json kernels = Json::array();
  for (const auto& [name, sum] : rows)
    kernels.push_back(
        {{"name", name}, {"count", sum.count}, {"ms", static_cast<double>(sum.ns) * 1e-6}});
  const uint64_t span = records.empty() ? 0 : last - records.front().start;
  return {{"span_ms", static_cast<double>(span) * 1e-6},
          {"busy_ms", static_cast<double>(busy) * 1e-6},
          {"kernels", kernels}};
}

}  // namespace fk::bench
