// SPDX-License-Identifier: Apache-2.0
// Logs every kernel of a process that was not made for it, such as a rank of `fk-host run`. CUDA
// loads this library into each process that is started with
// CUDA_INJECTION64_PATH=.../fk_kernel_log.so. It writes FK_KERNEL_LOG.<pid> ("N number name" for
// every name, then "number start duration" in ns for every run), which scripts/gpu/kernel_log.py
// sums up. Records come when CUPTI has them complete, at the latest at exit(). A process that is
// killed has written everything older than some tenths of a second.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <thread>

#include "test/bench/cupti_records.hpp"

namespace {

std::FILE* file = nullptr;

void write(const char* name, uint64_t start, uint64_t end) {
  static auto* const numbers =
      new std::map<std::string, size_t>;  // for threads that outlive main()
  const auto [it, fresh] = numbers->emplace(name, numbers->size());
  if (fresh) std::fprintf(file, "N %zu %s\n", it->second, name);
  std::fprintf(file, "%zu %llu %llu\n", it->second, static_cast<unsigned long long>(start),
               static_cast<unsigned long long>(end - start));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* const prefix = std::getenv("FK_KERNEL_LOG");
  if (!prefix) return 1;
  file = std::fopen((prefix + ("." + std::to_string(::getpid()))).c_str(), "w");
  if (!file) return 1;
  try {
    fk::bench::start_records(write);
  } catch (const std::exception& error) {
    std::fprintf(file, "no records: %s\n", error.what());
    std::fflush(file);
    return 1;
  }
  // Registered after CUPTI's own, and so called before them.
  std::atexit([] {
    try {
      fk::bench::flush_records(true);
    } catch (const std::exception&) {
    }
    std::fflush(file);
  });
  std::thread([] {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      try {
        fk::bench::flush_records(false);
      } catch (const std::exception&) {
        return;
      }
      std::fflush(file);
    }
  }).detach();
  return 1;
}
