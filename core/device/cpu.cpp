// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: aligned host memory, copies that are memcpy, no stream.
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/cores.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/device/device.hpp"
#include "core/device/shared_mappings.hpp"

namespace fk {

namespace {

// Size of one last-level cache: the C library reports the sum over all cores.
int64_t last_cache_bytes() {
  constexpr int64_t kLeast = int64_t{4} << 20, kMost = int64_t{512} << 20;
  int64_t most = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) +
                       "/size");
    int64_t kib = 0;
    if (file >> kib) most = std::max(most, kib << 10);
  }
  if (!most) most = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::clamp(most, kLeast, kMost);
}

#if defined(__x86_64__)
__attribute__((target("clflushopt"))) void evict_lines(const char* from, const char* to) {
  for (const char* line = from; line < to; line += 64) _mm_clflushopt(const_cast<char*>(line));
  _mm_mfence();
}
bool can_evict() {
  static const bool can = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
  }();
  return can;
}
#else
void evict_lines(const char*, const char*) {}
bool can_evict() { return false; }
#endif

// Times with the steady clock. It flushes caches by reading other memory.
class Steady final : public Stopwatch {
 public:
  void flush() override {
    if (other_.empty()) make_other();
    read(other_);
  }
  // Every core reads all of the memory, which also evicts private and partly shared caches.
  void flush_all() override {
    if (all_.empty())
      all_.assign(static_cast<size_t>(2 * last_cache_bytes()) / sizeof(uint64_t), 1);
    std::vector<std::thread> readers;
    for (int core = 0; core < usable_cores(); ++core)
      readers.emplace_back([this, core] {
        stay_on_core(core);
        read(all_);
      });
    for (auto& reader : readers) reader.join();
  }
  bool evict(const void* memory, int64_t bytes) override {
    if (!can_evict()) return false;
    const auto at = reinterpret_cast<uintptr_t>(memory);
    evict_lines(static_cast<const char*>(memory) - at % 64,
                static_cast<const char*>(memory) + bytes);
    return true;
  }
  void start() override { start_ = Clock::now(); }
  void stop() override { stop_ = Clock::now(); }
  double seconds() override { return std::chrono::duration<double>(stop_ - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  static void read(const std::vector<uint64_t>& memory) {
    uint64_t sum = 0;
    for (size_t i = 0; i < memory.size(); i += 8) sum += memory[i];  // a line each
    [[maybe_unused]] volatile uint64_t seen = sum;
  }
  // Made on first use, because writing it takes as long as many flushes.
  void make_other() {
    const int64_t last = std::max<int64_t>(::sysconf(_SC_LEVEL3_CACHE_SIZE), int64_t{1} << 20);
    // Many cores share a server's last cache; one process gets only a part.
    other_.assign(static_cast<size_t>(2 * std::min(last, kCacheMax)) / sizeof(uint64_t), 1);
  }
  static constexpr int64_t kCacheMax = int64_t{32} << 20;
  std::vector<uint64_t> other_, all_;
  Clock::time_point start_, stop_;
};

class Cpu final : public Device {
 public:
  int32_t type() const override { return FK_CPU; }
  int32_t id() const override { return 0; }
  std::string name() const override { return "cpu"; }
  void* allocate(int64_t bytes, const std::string& purpose) override {
    const auto rounded = (static_cast<size_t>(bytes) + 255) / 256 * 256;
    void* memory = std::aligned_alloc(256, rounded);
    if (!memory) fail("memory", "cannot allocate " + human_bytes(bytes) + " for " + purpose);
    return memory;
  }
  void release(void* memory) override { std::free(memory); }
  void upload(void* device, const void* host, int64_t bytes) override {
    if (bytes) std::memcpy(device, host, static_cast<size_t>(bytes));
  }
  void download(void* host, const void* device, int64_t bytes) override {
    if (bytes) std::memcpy(host, device, static_cast<size_t>(bytes));
  }
  void* allocate_host(int64_t bytes) override { return allocate(bytes, "an input"); }
  void release_host(void* memory) override { release(memory); }
  void upload_later(void* device, const void* host, int64_t bytes) override {
    upload(device, host, bytes);
  }
  void fill_zero(void* device, int64_t bytes) override {
    if (bytes) std::memset(device, 0, static_cast<size_t>(bytes));
  }
  void copy(void* to, const void* from, int64_t bytes) override { upload(to, from, bytes); }
  Shared allocate_shared(int64_t bytes, const std::string& purpose, Sharing others) override {
    return allocate_with_gaps(bytes, /*gaps=*/0, purpose, others);
  }
  Shared allocate_with_gaps(int64_t bytes, int64_t gaps, const std::string& purpose,
                            Sharing others) override {
    return shared_.create(bytes, gaps, purpose, others);
  }
  void* open_shared(int fd, int64_t bytes, Sharing mine) override {
    return shared_.open(fd, bytes, mine);
  }
  void close_shared(void* data, int64_t) override { shared_.close(data); }
  std::unique_ptr<Stopwatch> stopwatch() override { return std::make_unique<Steady>(); }
  void synchronize() override {}
  void* stream() override { return nullptr; }
  int32_t cpu_threads() const override { return threads_; }
  void share_cores(int32_t processes) override {
    threads_ = std::max(1, usable_cores() / std::max(1, processes));
  }

 private:
  int32_t threads_ = usable_cores();
  SharedMappings shared_;
};

std::vector<std::string> names() { return {"cpu"}; }
std::unique_ptr<Device> open_cpu(const std::string&) { return std::make_unique<Cpu>(); }
std::string missing() { return ""; }

}  // namespace

DeviceKind cpu_device_kind() { return {names, open_cpu, missing}; }

}  // namespace fk
