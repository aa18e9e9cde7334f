// SPDX-License-Identifier: Apache-2.0
// fk_plain_clock ROWS WIDTH LAUNCHES [malloc] [zeros] [divides] times the kernel of known.cuh and
// an empty one. One graph has LAUNCHES of them on as many cold sets of buffers. A pair of events
// takes the time, behind a read that flushes the cache. Nothing of the host takes part. The tensors
// are virtual memory (cuMemCreate), which the judge shares, or that of cudaMalloc. They hold values
// like the judge's, or zeros. The kernel has no plain division, or has one. Prints one line of JSON
// with the medians in seconds of one graph.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "known.cuh"

namespace {

constexpr int kSamples = 101;

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "fk_plain_clock: %s\n", cudaGetErrorString(status));
  std::exit(3);
}

__global__ void read_all(const uint4* memory, size_t count, unsigned* never) {
  unsigned sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) sum += __ldcg(memory + i).x;
  if (sum == 0x5a5a5a5au) *never = sum;
}

template <class F, class... Arguments>
void driver(const char* name, Arguments... arguments) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  if (reinterpret_cast<F*>(found)(arguments...) != CUDA_SUCCESS) check(cudaErrorUnknown);
}
#define DRIVER(name, ...) driver<decltype(name)>(#name, __VA_ARGS__)

void* memory(size_t bytes, bool is_virtual, bool zeros) {
  void* out = nullptr;
  if (!is_virtual) {
    check(cudaMalloc(&out, bytes));
  } else {
    const size_t page = size_t(2) << 20, size = (bytes + page - 1) / page * page;
    CUmemAllocationProp kind{};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;
    DRIVER(cuMemCreate, &handle, size, &kind, 0ull);
    DRIVER(cuMemAddressReserve, &at, size, size_t(0), CUdeviceptr(0), 0ull);
    DRIVER(cuMemMap, at, size, size_t(0), handle, 0ull);
    const CUmemAccessDesc who{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DRIVER(cuMemSetAccess, at, size, &who, size_t(1));
    out = reinterpret_cast<void*>(at);
  }
  if (zeros)
    check(cudaMemset(out, 0, bytes));
  else
    known::values<<<1024, 256>>>(static_cast<__nv_bfloat16*>(out), int64_t(bytes) / 2);
  check(cudaDeviceSynchronize());
  return out;
}

struct Clock {
  cudaStream_t stream;
  cudaEvent_t start, stop;
  uint4* memory;
  size_t count = size_t(256) << 20 >> 4;
  Clock() {
    check(cudaStreamCreate(&stream));
    check(cudaEventCreate(&start));
    check(cudaEventCreate(&stop));
    check(cudaMalloc(&memory, count * 16 + 16));
    check(cudaMemset(memory, 0, count * 16 + 16));
  }
  template <class Launch>
  double graph(Launch launch) const {
    cudaGraph_t graph;
    cudaGraphExec_t made;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    launch(stream);
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&made, graph, 0));
    std::vector<double> all;
    for (int i = -10; i < kSamples; ++i) {
      read_all<<<528, 512, 0, stream>>>(memory, count, reinterpret_cast<unsigned*>(memory + count));
      check(cudaEventRecord(start, stream));
      check(cudaGraphLaunch(made, stream));
      check(cudaEventRecord(stop, stream));
      check(cudaEventSynchronize(stop));
      float ms = 0;
      check(cudaEventElapsedTime(&ms, start, stop));
      if (i >= 0) all.push_back(ms * 1e-3);
    }
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  }
};

}  // namespace

int main(int argc, char** argv) {
  bool has_malloc = false, zeros = false, divides = false, good = argc >= 4;
  for (int i = 4; i < argc; ++i) {
    bool* const word = !std::strcmp(argv[i], "malloc") ? &has_malloc : !std::strcmp(argv[i], "zeros") ? &zeros : !std::strcmp(argv[i], "divides") ? &divides : nullptr;
    good = good && word;
    if (word) *word = true;
  }
  if (!good) {
    std::fprintf(stderr, "usage: fk_plain_clock ROWS WIDTH LAUNCHES [malloc] [zeros] [divides]\n");
    return 2;
  }
  const int64_t rows = std::atoll(argv[1]), width = std::atoll(argv[2]);
  const int launches = std::atoi(argv[3]);
  const Clock clock;
  std::vector<uint4*> from, to;
  for (int i = 0; i < launches; ++i) {
    from.push_back(static_cast<uint4*>(memory(size_t(rows * width) * 4, !has_malloc, zeros)));
    to.push_back(static_cast<uint4*>(memory(size_t(rows * width) * 2, !has_malloc, zeros)));
  }
  const auto kernel = divides ? known::silu<true> : known::silu<false>;
  const double seconds = clock.graph([&](cudaStream_t on) {
    for (int i = 0; i < launches; ++i) kernel<<<known::grid(rows, width), known::kThreads, 0, on>>>(from[i], to[i], int(width));
  });
  const double null = clock.graph([&](cudaStream_t on) {
    for (int i = 0; i < launches; ++i) known::nothing<<<1, 32, 0, on>>>();
  });
  std::printf("{\"rows\": %lld, \"width\": %lld, \"launches\": %d, \"malloc\": %d, \"zeros\": %d, \"divides\": %d, \"seconds\": %.9g, \"null_seconds\": %.9g}\n",
              (long long)rows, (long long)width, launches, has_malloc, zeros, divides, seconds, null);
  return 0;
}
