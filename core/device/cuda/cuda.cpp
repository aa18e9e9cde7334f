// SPDX-License-Identifier: Apache-2.0
// CUDA devices through the runtime API: plain cudaMalloc memory and one non-blocking stream per
// device. Compiled and linked only where the CUDA toolkit was found; a machine without a GPU says
// so when asked.
#include <cuda_runtime_api.h>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/device/cuda/stopwatch.hpp"
#include "core/device/device.hpp"

namespace fk {

namespace {

void check(cudaError_t status, const std::string& what) {
  if (status != cudaSuccess) fail("cuda", what + ": " + cudaGetErrorString(status));
}

class Cuda final : public Device {
 public:
  explicit Cuda(int index) : index_(index) {
    check(cudaSetDevice(index), "cannot use device " + std::to_string(index));
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index), "cannot read the device's properties");
    name_ = "cuda:" + std::to_string(index) + " " + properties.name;
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cannot make a stream");
    check(cudaEventCreateWithFlags(&uploaded_, cudaEventDisableTiming), "cannot make an event");
  }
  int32_t type() const override { return FK_CUDA; }
  int32_t id() const override { return index_; }
  std::string name() const override { return name_; }
  void* allocate(int64_t bytes, const std::string& purpose) override {
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, static_cast<size_t>(bytes));
    if (status == cudaSuccess) return memory;
    (void)cudaGetLastError();
    size_t free_bytes = 0, total = 0;
    (void)cudaMemGetInfo(&free_bytes, &total);
    fail("memory", "cannot allocate " + human_bytes(bytes) + " for " + purpose + " on " + name_ +
                       ": " + human_bytes(static_cast<int64_t>(free_bytes)) + " of " +
                       human_bytes(static_cast<int64_t>(total)) + " are free");
  }
  void release(void* memory) override { (void)cudaFree(memory); }
  void upload(void* device, const void* host, int64_t bytes) override {
    if (!bytes) return;
    // Pageable memory: the call returns when the source may be reused.
    check(
        cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_),
        "upload");
  }
  void download(void* host, const void* device, int64_t bytes) override {
    if (bytes)
      check(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                            stream_),
            "download");
    synchronize();
  }
  void* allocate_host(int64_t bytes) override {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, static_cast<size_t>(bytes)),
          "cannot allocate " + human_bytes(bytes) + " of pinned memory");
    return memory;
  }
  void release_host(void* memory) override { (void)cudaFreeHost(memory); }
  void upload_later(void* device, const void* host, int64_t bytes) override {
    upload(device, host, bytes);
  }
  void uploads_enqueued() override {
    check(cudaEventRecord(uploaded_, stream_), "record an event");
  }
  void wait_for_uploads() override {
    check(cudaEventSynchronize(uploaded_), "an op failed on the device");
  }
  void fill_zero(void* device, int64_t bytes) override {
    if (bytes) check(cudaMemsetAsync(device, 0, static_cast<size_t>(bytes), stream_), "fill");
  }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes)
      check(
          cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream_),
          "copy");
  }
  std::unique_ptr<Stopwatch> stopwatch() override { return cuda_stopwatch(stream_); }
  void synchronize() override {
    check(cudaStreamSynchronize(stream_), "an op failed on the device");
  }
  void* stream() override { return stream_; }
  int32_t cpu_threads() const override { return 1; }
  bool can_capture() const override { return true; }
  void begin_capture() override {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "begin a capture");
  }
  bool capture_is_whole() override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(stream_, &status) == cudaSuccess &&
           status == cudaStreamCaptureStatusActive;
  }
  std::shared_ptr<void> end_capture() override {
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    if (ended != cudaSuccess) (void)cudaGetLastError();
    check(ended, "end a capture");
    cudaGraphExec_t executable = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
    (void)cudaGraphDestroy(graph);
    check(made, "make a graph executable");
    return {executable,
            [](void* e) { (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(e)); }};
  }
  void launch(void* captured) override {
    check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(captured), stream_), "launch a graph");
  }

 private:
  int index_;
  std::string name_;
  cudaEvent_t uploaded_ = nullptr;
  cudaStream_t stream_ = nullptr;  // lives until the process ends, as captured work may refer to it
};

std::vector<std::string> names() {
  int count = 0;
  std::vector<std::string> all;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return all;
  }
  for (int i = 0; i < count; ++i) all.push_back("cuda:" + std::to_string(i));
  return all;
}
std::unique_ptr<Device> open(const std::string& name) {
  return std::make_unique<Cuda>(std::stoi(name.substr(name.find(':') + 1)));
}
std::string missing() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  return status == cudaSuccess ? "the driver sees none" : cudaGetErrorString(status);
}

FK_DEVICE_KIND(cuda, {names, open, missing});

}  // namespace

}  // namespace fk
