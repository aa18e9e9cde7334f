// SPDX-License-Identifier: Apache-2.0
// Times work on a stream with two events. Before each sample it reads 2.5 times the second-level
// cache. The read also keeps the device busy for tens of microseconds, while the host enqueues the
// timed work. So no launch delay falls between the events. If the host was slower, the sample is
// late, and the next flush reads longer.
#include "core/device/cuda/stopwatch.hpp"

#include <algorithm>
#include <string>

#include "core/base/error.hpp"

namespace fk {

namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail("cuda", std::string(what) + ": " + cudaGetErrorString(status));
}

// The sum is stored only for a value that zeros never give, so nothing is written.
__global__ void read_lines(const uint4* memory, size_t count, int passes, unsigned* never) {
  unsigned sum = 0;
  for (int pass = 0; pass < passes; ++pass) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
      const uint4 v = __ldcg(memory + i);
      sum += v.x ^ v.y ^ v.z ^ v.w;
    }
  }
  if (sum == 0x5a5a5a5au) *never = sum;
}

class Events final : public Stopwatch {
 public:
  explicit Events(cudaStream_t stream) : stream_(stream) {
    int cache = 0;
    check(cudaGetDevice(&device_), "cannot tell the device");
    check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device_), "cannot read the size of the cache");
    check(cudaDeviceGetAttribute(&blocks_, cudaDevAttrMultiProcessorCount, device_), "cannot count the processors");
    blocks_ *= 4;
    count_ = (size_t(cache) * 5 / 2 + (size_t(1) << 20)) / sizeof(uint4);
    check(cudaMalloc(&memory_, count_ * sizeof(uint4) + 256), "cannot allocate the memory that flushes the cache");
    check(cudaMemsetAsync(memory_, 0, count_ * sizeof(uint4) + 256, stream_), "cannot fill it");
    for (cudaEvent_t* event : {&start_, &stop_}) check(cudaEventCreate(event), "cannot make an event");
    flush();  // the second flush finds clean lines: the first one wrote back the lines of the fill
    flush();
    check(cudaStreamSynchronize(stream_), "cannot flush the cache");
  }
  ~Events() override {
    (void)cudaSetDevice(device_);
    (void)cudaStreamSynchronize(stream_);
    (void)cudaFree(memory_);
    for (cudaEvent_t event : {start_, stop_}) (void)cudaEventDestroy(event);
  }
  void flush() override {
    use();
    // Persisting lines would survive the reads.
    size_t persisting = 0;
    if (cudaDeviceGetLimit(&persisting, cudaLimitPersistingL2CacheSize) == cudaSuccess && persisting > 0) {
      (void)cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0);
      (void)cudaCtxResetPersistingL2Cache();
    }
    (void)cudaGetLastError();
    read_lines<<<unsigned(blocks_), 512, 0, stream_>>>(memory_, count_, passes_, reinterpret_cast<unsigned*>(memory_ + count_));
    check(cudaGetLastError(), "cannot flush the cache");
  }
  void fix_passes(int passes) override {
    passes_ = passes;
    fixed_ = true;
  }
  void start() override {
    use();
    check(cudaEventRecord(start_, stream_), "record an event");
  }
  void stop() override {
    use();
    check(cudaEventRecord(stop_, stream_), "record an event");
    // Not ready: the device has not reached the start, so the host enqueued everything in time.
    late_ = cudaEventQuery(start_) == cudaSuccess;
    (void)cudaGetLastError();
    if (late_ && !fixed_) passes_ = std::min(passes_ + 1, kPassesMax);
  }
  double seconds() override {
    check(cudaEventSynchronize(stop_), "an op failed on the device");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start_, stop_), "read an event");
    return double(ms) * 1e-3;
  }
  bool late() const override { return late_; }

 private:
  static constexpr int kPassesMax = 16;
  void use() const { check(cudaSetDevice(device_), "cannot use the device"); }
  int device_ = 0;
  cudaStream_t stream_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  uint4* memory_ = nullptr;
  size_t count_ = 0;
  int blocks_ = 0, passes_ = 1;
  bool late_ = false, fixed_ = false;
};

}  // namespace

std::unique_ptr<Stopwatch> cuda_stopwatch(cudaStream_t stream) { return std::make_unique<Events>(stream); }

}  // namespace fk
