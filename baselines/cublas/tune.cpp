// SPDX-License-Identifier: Apache-2.0
// Which of cuBLASLt's proposals is the fastest. Its own order is a model of the device, and off by up to a tenth where
// the tiles of a few hundred rows do not fill the multiprocessors evenly.
#include <mutex>

#include "lt.hpp"

namespace fkb {

namespace {

constexpr size_t kFlush = size_t{96} << 20;  // beyond the last cache
constexpr size_t kMost = size_t{1} << 30;    // of x and out
constexpr int kRounds = 5;
constexpr double kWorth = 0.98;  // of the first proposal's time; what is closer may be chance

struct Memory {
  void* data = nullptr;
  explicit Memory(size_t bytes) {
    if (cudaMalloc(&data, bytes) != cudaSuccess) data = nullptr, (void)cudaGetLastError();
  }
  Memory(const Memory&) = delete;
  ~Memory() { (void)cudaFree(data); }
};
struct Event {
  cudaEvent_t value = nullptr;
  Event() { check(cudaEventCreate(&value), "cudaEventCreate"); }
  Event(const Event&) = delete;
  ~Event() { (void)cudaEventDestroy(value); }
};

size_t bytes_of(const Matrix& m) { return size_t(m.columns * m.step) * (m.type == CUDA_R_32F ? 4 : 2); }

}  // namespace

std::vector<double> Product::measure(const Step& s, const Problem& p, const void* weight) const {
  const size_t x = (bytes_of(p.x) + 255) / 256 * 256, out = (bytes_of(p.out) + 255) / 256 * 256;
  std::vector<double> best(s.proposed.size(), 1e30);
  if (x + out > kMost) return {};
  const Memory memory(x + out + size_t(kWorkspace) + kFlush);
  if (!memory.data) return {};  // the model fills the device: what cuBLASLt proposes first is good enough
  auto* at = static_cast<char*>(memory.data);
  check(cudaMemset(at, 0x3c, x), "memset");  // small numbers
  const Event begin, end;
  const float one = 1, zero = 0;
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < best.size(); ++i) {
      check(cudaMemsetAsync(at + x + out + kWorkspace, round, kFlush, nullptr), "memset");
      check(cudaEventRecord(begin.value, nullptr), "cudaEventRecord");
      if (cublasLtMatmul(handle(), description_, &one, weight, s.weight.get(), at, s.x.get(), &zero, at + x, s.out.get(), at + x, s.out.get(),
                         &s.proposed[i].algo, at + x + out, size_t(kWorkspace), nullptr) != CUBLAS_STATUS_SUCCESS)
        continue;
      check(cudaEventRecord(end.value, nullptr), "cudaEventRecord");
      check(cudaEventSynchronize(end.value), "cudaEventSynchronize");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin.value, end.value), "cudaEventElapsedTime");
      if (round > 0) best[i] = std::min(best[i], double(ms) * 1e-3);  // the first loads kernels
    }
  return best;
}

void Product::tune(const Problem& p, const void* weight) {
  static std::mutex mutex;
  static std::map<std::array<int64_t, 8>, cublasLtMatmulAlgo_t> known;
  const std::lock_guard lock(mutex);
  auto& made = steps_[{p.x.columns, p.x.step, p.x.batch_step}];
  if (!made) {
    made = std::make_unique<Step>(p);
    choose(*made);
  }
  cublasLtEpilogue_t epilogue{};
  check(cublasLtMatmulDescGetAttribute(description_, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, nullptr), "epilogue");
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const std::array<int64_t, 8> key{device,       int64_t(p.weight.type), int64_t(p.out.type), int64_t(epilogue),
                                   p.out.rows, p.weight.rows,          p.x.columns,         p.x.step};
  auto it = known.find(key);
  if (it == known.end()) {
    const std::vector<double> seconds = measure(*made, p, weight);
    size_t best = 0;
    for (size_t i = 1; i < seconds.size(); ++i)
      if (seconds[i] < seconds[best]) best = i;
    if (!seconds.empty() && seconds[best] > kWorth * seconds[0]) best = 0;
    it = known.emplace(key, made->proposed[best].algo).first;
  }
  tuned_[made->rows] = it->second;
  take_tuned(*made);
}

}  // namespace fkb
