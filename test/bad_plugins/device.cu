// SPDX-License-Identifier: Apache-2.0
// silu_and_mul in float32 on a GPU with the right values, but BAD_... chooses which rule of a device it breaks.
#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "fk/ops/silu_and_mul.h"

namespace {

constexpr int32_t kSm[] = {90};

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

// `off` is what the values are off by: nothing, but for a host value that is out of date.
__global__ void silu(const float* x, float* out, int64_t count, int64_t width, float off) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t row = i / width * 2 * width, column = i % width;
    const float gate = x[row + column];
    out[i] = gate / (1 + __expf(-gate)) * x[row + width + column] + off;
  }
}
__global__ void silu_since(const float* x, float* out, int64_t count, int64_t width, float x0) {
  const float off = x[0] - x0;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t row = i / width * 2 * width, column = i % width;
    const float gate = x[row + column];
    out[i] = gate / (1 + __expf(-gate)) * x[row + width + column] + off;
  }
}
__global__ void write(float* at, float value) { *at = value; }
__global__ void read(const float* from, float* to) { *to = *from; }
[[maybe_unused]] __global__ void take_turn(int64_t* turns, int64_t mine, bool eager, float* out, int64_t count) {
  if (eager && *turns != mine)
    for (int64_t i = 0; i < count; ++i) out[i] = 0;
  *turns += eager;
}
__global__ void dawdle() {
  for (const long long end = clock64() + 10000000; clock64() < end;) continue;
}
[[maybe_unused]] void CUDART_CB nothing(void*) {}

struct Bad {
  using op = fk::silu_and_mul;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 1, kSm};
  const int64_t width;
  cudaStream_t side = nullptr;
  cudaEvent_t event = nullptr;
  float* seen = nullptr;  // of the host: the first element that a call before this one had
  void* early = nullptr;
  int64_t* turns = nullptr;  // persistent: calls that the device has done
  int64_t calls = 0, begun = 0;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    if (FK_DTYPE(max.x) != FK_F32) throw fk::unsupported{"x: float32 only"};
#if defined BAD_DEVICE_SUPPORTS
    // There are no data yet.
    float* to = nullptr;
    check(cudaMalloc(&to, 4));
    read<<<1, 1>>>(static_cast<const float*>(max.x->data), to);
    check(cudaDeviceSynchronize());
#elif defined BAD_DEVICE_RESET
    need.persistent = sizeof(int64_t);
#elif defined BAD_DEVICE_SCRATCH_END || defined BAD_DEVICE_SIDE_STREAM
    need.scratch = 256;
#endif
    (void)need;
  }
  Bad(const fk_host&, const op::init& init, const op::weights&) : width(init.size) {
    check(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
#if defined BAD_DEVICE_CAPTURED_VALUE
    check(cudaMallocHost(&seen, sizeof *seen));
#elif defined BAD_DEVICE_LEAK
    void* lost = nullptr;
    check(cudaMalloc(&lost, 1 << 20));
#elif defined BAD_DEVICE_CREATE_ERROR
    (void)cudaSetDevice(-1);
#elif defined BAD_DEVICE_LIMIT
    // A part is what some devices begin with.
    size_t now = 0;
    check(cudaDeviceGetLimit(&now, cudaLimitPersistingL2CacheSize));
    check(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, now ? 0 : 8 << 20));
#elif defined BAD_DEVICE_CREATE_MEMORY
    check(cudaMalloc(&early, 64 << 20));  // given back, but taken before anybody was asked
#endif
  }
  ~Bad() {
    (void)cudaStreamDestroy(side);
    (void)cudaEventDestroy(event);
    if (seen) (void)cudaFreeHost(seen);
    if (early) (void)cudaFree(early);
#ifdef BAD_DEVICE_DESTROY_ERROR
    (void)cudaSetDevice(-1);
#endif
  }
  void prepare(const op::forward&, const fk_memory& memory) { turns = static_cast<int64_t*>(memory.persistent); }
#ifdef BAD_DEVICE_RESET
  void reset() {}  // `begun` and what the device has counted may be different now
#endif

  void right(const op::forward& args, cudaStream_t on) const {
    const int64_t count = args.x->shape[0] * width;
    if (count) silu<<<unsigned((count + 255) / 256), 256, 0, on>>>(fk::data<float>(args.x), fk::data<float>(args.out), count, width, 0);
  }

  void forward(const op::forward& args, const fk_ctx& ctx) {
    const auto stream = static_cast<cudaStream_t>(ctx.stream);
    ++calls;
#if defined BAD_DEVICE_LEGACY_STREAM
    right(args, cudaStreamLegacy);
#elif defined BAD_DEVICE_OWN_STREAM
    right(args, side);
#elif defined BAD_DEVICE_UNJOINED
    check(cudaEventRecord(event, stream));
    check(cudaStreamWaitEvent(side, event, 0));
    dawdle<<<1, 1, 0, side>>>();
    right(args, side);
#elif defined BAD_DEVICE_LATER
    right(args, stream);
    // Once more when the call has returned, into the same output.
    std::thread([this, out = fk::data<float>(args.out), on = side, rows = args.x->shape[0]] {
      std::this_thread::sleep_for(std::chrono::milliseconds(8));
      if (rows) write<<<1, 1, 0, on>>>(out, 1e30f);
    }).detach();
#elif defined BAD_DEVICE_RESET
    // The device counts the calls as well; whose turn it is not writes zeros.
    cudaStreamCaptureStatus status{};
    check(cudaStreamIsCapturing(stream, &status));
    right(args, stream);
    const bool eager = status == cudaStreamCaptureStatusNone;
    take_turn<<<1, 1, 0, stream>>>(turns, begun, eager, fk::data<float>(args.out), args.x->shape[0] * width);
    begun += eager;
#elif defined BAD_DEVICE_UNWRITTEN
    const int64_t count = args.x->shape[0] * width - 1;
    if (count > 0) silu<<<unsigned((count + 255) / 256), 256, 0, stream>>>(fk::data<float>(args.x), fk::data<float>(args.out), count, width, 0);
#elif defined BAD_DEVICE_SIDE_STREAM
    // Forked and joined as it should be, and not declared.
    check(cudaEventRecord(event, stream));
    check(cudaStreamWaitEvent(side, event, 0));
    right(args, side);
    if (args.x->shape[0]) read<<<1, 1, 0, stream>>>(fk::data<float>(args.x), static_cast<float*>(ctx.scratch));
    check(cudaEventRecord(event, side));
    check(cudaStreamWaitEvent(stream, event, 0));
#elif defined BAD_DEVICE_CAPTURED_VALUE
    cudaStreamCaptureStatus status{};
    check(cudaStreamIsCapturing(stream, &status));
    const int64_t count = args.x->shape[0] * width;
    if (status == cudaStreamCaptureStatusNone || calls < 2) {
      right(args, stream);
      if (count && status == cudaStreamCaptureStatusNone)
        check(cudaMemcpyAsync(seen, fk::data<float>(args.x), sizeof *seen, cudaMemcpyDeviceToHost, stream));
    } else if (count) {
      silu_since<<<unsigned((count + 255) / 256), 256, 0, stream>>>(fk::data<float>(args.x), fk::data<float>(args.out), count, width, *seen);
    }
#else
    right(args, stream);
#endif

#if defined BAD_DEVICE_OTHER
    int count = 0;
    check(cudaGetDeviceCount(&count));
    check(cudaSetDevice((ctx.device_id + 1) % count));
#elif defined BAD_DEVICE_CONTEXT
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion("cuCtxSetCurrent", &found, 12000, cudaEnableDefault, &result));
    (void)reinterpret_cast<CUresult (*)(CUcontext)>(found)(nullptr);
#elif defined BAD_DEVICE_LAST_ERROR
    (void)cudaSetDevice(-1);
#elif defined BAD_DEVICE_FAULT
    write<<<1, 1, 0, stream>>>(reinterpret_cast<float*>(16), 1);
#elif defined BAD_DEVICE_CAPTURE_MODE
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    check(cudaThreadExchangeStreamCaptureMode(&mode));
#elif defined BAD_DEVICE_SYNCHRONIZES
    check(cudaStreamSynchronize(stream));
#elif defined BAD_DEVICE_ALLOCATES
    // In a mode in which a capture would not notice.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    check(cudaThreadExchangeStreamCaptureMode(&mode));
    void* memory = nullptr;
    check(cudaMalloc(&memory, 1 << 22));
    check(cudaFree(memory));
    check(cudaThreadExchangeStreamCaptureMode(&mode));
#elif defined BAD_DEVICE_POOL
    void* memory = nullptr;
    check(cudaMallocAsync(&memory, 1 << 16, stream));
    check(cudaFreeAsync(memory, stream));
#elif defined BAD_DEVICE_LEAK_CALL
    void* lost = nullptr;
    check(cudaMalloc(&lost, 1 << 20));
#elif defined BAD_DEVICE_OUT_END
    write<<<1, 1, 0, stream>>>(fk::data<float>(args.out) + args.x->shape[0] * width, 1);
#elif defined BAD_DEVICE_SCRATCH_END
    write<<<1, 1, 0, stream>>>(reinterpret_cast<float*>(static_cast<char*>(ctx.scratch) + ctx.scratch_bytes), 1);
#elif defined BAD_DEVICE_INPUT
    write<<<1, 1, 0, stream>>>(const_cast<float*>(fk::data<float>(args.x)), 1);
#elif defined BAD_DEVICE_WINDOW
    cudaStreamAttrValue value{};
    value.accessPolicyWindow = {args.out->data, 4096, 1, cudaAccessPropertyPersisting, cudaAccessPropertyStreaming};
    check(cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &value));
#elif defined BAD_DEVICE_CALLBACK
    check(cudaLaunchHostFunc(stream, nothing, nullptr));
#endif
  }
};
FK_OP(silu_and_mul, Bad);

}  // namespace
FK_PLUGIN(BAD_NAME, "0");
