// SPDX-License-Identifier: Apache-2.0
// Finds the fastest proposal of cuBLASLt. Its own order follows a model of the device. The order is
// wrong by up to a tenth if the tiles of a few hundred rows do not fill the multiprocessors evenly.
#include <mutex>

#include "lt.hpp"

namespace fkb {

namespace {

constexpr size_t kFlush = size_t{96} << 20;  // bytes, more than L2
constexpr size_t kMost = size_t{1} << 30;    // bytes of x and out
constexpr int kRounds = 8;
constexpr double kWorth = 0.98;  // of the first proposal's time; smaller gains may be chance

// Fills the caches with other data by reads. Written data would be written back during the
// measurement.
__global__ void read_over(const uint4* at, size_t count, uint32_t* never) {
  uint32_t sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) sum += __ldcg(&at[i].x);
  if (sum == 1) *never = sum;  // of zeros
}

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
struct Stream {
  cudaStream_t value = nullptr;
  Stream() { check(cudaStreamCreateWithFlags(&value, cudaStreamNonBlocking), "cudaStreamCreate"); }
  Stream(const Stream&) = delete;
  ~Stream() { (void)cudaStreamDestroy(value); }
};
// The work which a function enqueues, as a graph. No kernel of it waits for the host, as in a
// model.
class Graph {
 public:
  template <class Enqueue> Graph(const Stream& stream, Enqueue enqueue) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream.value, cudaStreamCaptureModeThreadLocal), "capture");
    const bool enqueued = enqueue();
    check(cudaStreamEndCapture(stream.value, &graph), "capture");
    if (enqueued) check(cudaGraphInstantiate(&value_, graph, 0), "cudaGraphInstantiate");
    (void)cudaGraphDestroy(graph);
  }
  Graph(const Graph&) = delete;
  ~Graph() {
    if (value_) (void)cudaGraphExecDestroy(value_);
  }
  cudaGraphExec_t get() const { return value_; }  // null: the work could not be enqueued

 private:
  cudaGraphExec_t value_ = nullptr;
};

size_t bytes_of(const Matrix& m) { return size_t(m.columns * m.step) * (m.type == CUDA_R_32F ? 4 : 2); }

}  // namespace

std::vector<double> Product::measure(const Step& s, const Problem& p, const void* weight) const {
  const size_t x = (bytes_of(p.x) + 255) / 256 * 256, out = (bytes_of(p.out) + 255) / 256 * 256;
  if (x + out > kMost) return {};
  const Memory memory(x + out + size_t(kWorkspace) + kFlush + 256);
  if (!memory.data) return {};  // the model fills the device: the first proposal serves
  auto* at = static_cast<char*>(memory.data);
  char* const flush = at + x + out + kWorkspace;
  const Stream stream;
  check(cudaMemsetAsync(at, 0x3c, x, stream.value), "memset");  // small numbers
  check(cudaMemsetAsync(flush, 0, kFlush + 256, stream.value), "memset");
  const float one = 1, zero = 0;
  const auto multiply = [&](const cublasLtMatmulAlgo_t& algo) {
    return cublasLtMatmul(handle(), description_, &one, weight, s.weight.get(), at, s.x.get(), &zero, at + x, s.out.get(), at + x, s.out.get(), &algo,
                          at + x + out, size_t(kWorkspace), stream.value) == CUBLAS_STATUS_SUCCESS;
  };
  const auto read = [&] { read_over<<<528, 256, 0, stream.value>>>(reinterpret_cast<const uint4*>(flush), kFlush / 16, reinterpret_cast<uint32_t*>(flush + kFlush)); };
  std::vector<std::unique_ptr<Graph>> graphs;
  for (const auto& proposed : s.proposed) {
    const bool runs = multiply(proposed.algo);  // loads kernels, which a capture must not
    graphs.push_back(std::make_unique<Graph>(stream, [&] { return runs && (read(), multiply(proposed.algo)); }));
  }
  graphs.push_back(std::make_unique<Graph>(stream, [&] { return read(), true; }));
  const Event begin, end;
  std::vector<std::vector<double>> seconds(graphs.size());
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < graphs.size(); ++i) {
      if (!graphs[i]->get()) continue;
      check(cudaEventRecord(begin.value, stream.value), "cudaEventRecord");
      check(cudaGraphLaunch(graphs[i]->get(), stream.value), "cudaGraphLaunch");
      check(cudaEventRecord(end.value, stream.value), "cudaEventRecord");
      check(cudaEventSynchronize(end.value), "cudaEventSynchronize");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin.value, end.value), "cudaEventElapsedTime");
      if (round > 0) seconds[i].push_back(double(ms) * 1e-3);
    }
  std::vector<double> median;
  for (auto& of : seconds) {
    std::sort(of.begin(), of.end());
    median.push_back(of.empty() ? 1e30 : of[of.size() / 2]);
  }
  const double reading = median.back();
  median.pop_back();
  for (double& of : median) of -= reading;
  return median;
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
