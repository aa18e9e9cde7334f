// SPDX-License-Identifier: Apache-2.0
#include "test/bench/kernel_times.hpp"

#include <cupti.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace fk::bench {

namespace {

struct Record {
  std::string name;
  uint64_t start, end;  // ns
};
// Filled by threads of CUPTI, which knows no context pointer.
std::mutex mutex;
std::vector<Record> records;

void take(const CUpti_Activity& activity) {
  const auto add = [](const char* name, const auto& a) {
    if (a.end > a.start) records.push_back({name, a.start, a.end});
  };
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& a = reinterpret_cast<const CUpti_ActivityKernel9&>(activity);
      add(a.name ? a.name : "?", a);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      add("[copy]", reinterpret_cast<const CUpti_ActivityMemcpy6&>(activity));
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      add("[fill]", reinterpret_cast<const CUpti_ActivityMemset4&>(activity));
      break;
    default:
      break;
  }
}

constexpr size_t kBuffer = size_t{8} << 20;
void CUPTIAPI buffer_wanted(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBuffer));
  *size = *buffer ? kBuffer : 0;
  *most = 0;
}

void* library() {
  static void* const loaded = [] {
    void* found = nullptr;
    for (const char* name : {"libcupti.so.13", "libcupti.so", "/usr/local/cuda/lib64/libcupti.so",
                             "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"})
      if (!found) found = ::dlopen(name, RTLD_NOW);
    return found;
  }();
  if (!loaded) fail("CUPTI", "libcupti is not there", "it comes with the CUDA toolkit");
  return loaded;
}
template <class Function>
Function* function(const char* name) {
  void* const found = ::dlsym(library(), name);
  if (!found) fail("CUPTI", std::string("libcupti has no ") + name);
  return reinterpret_cast<Function*>(found);
}
void check(CUptiResult result, const char* what) {
  if (result != CUPTI_SUCCESS)
    fail("CUPTI", std::string(what) + ": error " + std::to_string(static_cast<int>(result)));
}

void CUPTIAPI buffer_full(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  static auto* const next =
      function<decltype(cuptiActivityGetNextRecord)>("cuptiActivityGetNextRecord");
  const std::lock_guard lock(mutex);
  CUpti_Activity* activity = nullptr;
  while (next(buffer, valid, &activity) == CUPTI_SUCCESS) take(*activity);
  std::free(buffer);
}

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

}  // namespace

struct KernelTimes::Impl {
  decltype(cuptiActivityFlushAll)* flush =
      function<decltype(cuptiActivityFlushAll)>("cuptiActivityFlushAll");
  decltype(cuptiActivityDisable)* disable =
      function<decltype(cuptiActivityDisable)>("cuptiActivityDisable");
};

KernelTimes::KernelTimes() : impl_(std::make_unique<Impl>()) {
  auto* const enable = function<decltype(cuptiActivityEnable)>("cuptiActivityEnable");
  auto* const buffers =
      function<decltype(cuptiActivityRegisterCallbacks)>("cuptiActivityRegisterCallbacks");
  check(buffers(buffer_wanted, buffer_full), "cuptiActivityRegisterCallbacks");
  for (const auto kind : kKinds) check(enable(kind), "cuptiActivityEnable");
}

KernelTimes::~KernelTimes() {
  for (const auto kind : kKinds) (void)impl_->disable(kind);
  (void)impl_->flush(1);
}

void KernelTimes::restart() {
  check(impl_->flush(1), "cuptiActivityFlushAll");
  const std::lock_guard lock(mutex);
  records.clear();
}

Json KernelTimes::table() {
  check(impl_->flush(1), "cuptiActivityFlushAll");
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
