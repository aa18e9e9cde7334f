// SPDX-License-Identifier: Apache-2.0
#include "test/bench/cupti_records.hpp"

#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string>

#include "core/base/error.hpp"

namespace fk::bench {

namespace {

std::mutex mutex;
OnRecord take_record = nullptr;

void take(const CUpti_Activity& activity) {
  const auto add = [](const char* name, const auto& a) {
    if (a.end > a.start) take_record(name, a.start, a.end);
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

void start_records(OnRecord take) {
  take_record = take;
  check(function<decltype(cuptiActivityRegisterCallbacks)>("cuptiActivityRegisterCallbacks")(
            buffer_wanted, buffer_full),
        "cuptiActivityRegisterCallbacks");
  auto* const enable = function<decltype(cuptiActivityEnable)>("cuptiActivityEnable");
  for (const auto kind : kKinds) check(enable(kind), "cuptiActivityEnable");
}

void flush_records(bool all) {
  static auto* const flush = function<decltype(cuptiActivityFlushAll)>("cuptiActivityFlushAll");
  check(flush(all ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0), "cuptiActivityFlushAll");
}

void stop_records() {
  auto* const disable = function<decltype(cuptiActivityDisable)>("cuptiActivityDisable");
  for (const auto kind : kKinds) (void)disable(kind);
  flush_records(true);
}

}  // namespace fk::bench
