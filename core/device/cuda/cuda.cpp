// SPDX-License-Identifier: Apache-2.0
// CUDA devices through the runtime API, with one non-blocking stream each. Memory for other
// processes is virtual memory with a descriptor, by functions of the driver that are looked up at
// run time. Compiled and linked only where the CUDA toolkit was found. A machine without a GPU
// reports the reason on request.
#include <cuda.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/device/built_for.hpp"
#include "core/device/cuda/driver.hpp"
#include "core/device/cuda/graph_reader.hpp"
#include "core/device/cuda/hold.hpp"
#include "core/device/cuda/kernels.hpp"
#include "core/device/cuda/parted.hpp"
#include "core/device/cuda/staging.hpp"
#include "core/device/cuda/stopwatch.hpp"
#include "core/device/device.hpp"

namespace fk {

namespace {

// Begin of the last call, and duration of the longest failed one, in seconds.
thread_local double began_s = 0, failed_s = 0;
void check(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return;
  failed_s = std::max(failed_s, now_seconds() - began_s);
  fail("cuda", what + ": " + cudaGetErrorString(status));
}

class Cuda final : public Device {
 public:
  explicit Cuda(int index) : index_(index) {
    check(cudaSetDevice(index), "cannot use device " + std::to_string(index));
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index), "cannot read the device's properties");
    name_ = "cuda:" + std::to_string(index) + " " + properties.name;
    if (const auto why = built_for_refusal(FK_BUILD_SM, properties.major, properties.minor);
        !why.empty())
      fail(name_, why, "the kernels here are for Hopper (90a: H100, H200)");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cannot make a stream");
    for (cudaEvent_t* event : {&uploaded_, &idle_})
      check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cannot make an event");
    context_ = cuda::current_context();
    settings_ = cuda::Settings::of(stream_);
  }
  int32_t type() const override { return FK_CUDA; }
  int32_t id() const override { return index_; }
  std::string name() const override { return name_; }
  void* allocate(int64_t bytes, const std::string& purpose) override {
    use();
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, static_cast<size_t>(bytes));
    if (status != cudaSuccess) no_memory(bytes, purpose);
    given(memory, static_cast<size_t>(bytes));
    return memory;
  }
  void* allocate_parts(int64_t bytes, std::span<const HeldPart> parts,
                       const std::string& purpose) override {
    use();
    void* const memory = parted_.map(index_, bytes, parts);
    if (!memory) no_memory(bytes, purpose);
    given(memory, static_cast<size_t>(bytes));
    return memory;
  }
  void release(void* memory) override {
    use();
    given_.erase(reinterpret_cast<uintptr_t>(memory));
    if (!parted_.unmap(memory)) (void)cudaFree(memory);
  }
  void upload(void* device, const void* host, int64_t bytes) override {
    if (!bytes) return;
    use();
    if (cudaError_t status{};
        !pinned(host) && staging_.upload(device, host, bytes, stream_, status))
      return check(status, "upload");
    // Pageable memory: the call returns when the source may be reused.
    check(
        cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_),
        "upload");
  }
  void download(void* host, const void* device, int64_t bytes) override {
    use();
    if (cudaError_t status{};
        !pinned(host) && staging_.download(host, device, bytes, stream_, status)) {
      check(status, "download");
      return synchronize();
    }
    if (bytes) download_later(host, device, bytes);
    synchronize();
  }
  void download_later(void* host, const void* device, int64_t bytes) override {
    use();
    check(
        cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_),
        "download");
  }
  void copy_tokens(int64_t* to, const int64_t* from, int64_t count, int64_t vocab_size) override {
    use();
    check(cuda::copy_tokens(to, from, count, vocab_size, stream_), "copy tokens");
  }
  void* allocate_host(int64_t bytes) override {
    use();
    void* memory = nullptr;
    check(cudaMallocHost(&memory, static_cast<size_t>(bytes)),
          "cannot allocate " + human_bytes(bytes) + " of pinned memory");
    given(memory, static_cast<size_t>(bytes));
    return memory;
  }
  void release_host(void* memory) override {
    given_.erase(reinterpret_cast<uintptr_t>(memory));
    (void)cudaFreeHost(memory);
  }
  void upload_later(void* device, const void* host, int64_t bytes) override {
    upload(device, host, bytes);
  }
  void uploads_enqueued() override {
    use();
    check(cudaEventRecord(uploaded_, stream_), "record an event");
  }
  void wait_for_uploads() override {
    began_s = now_seconds();
    check(cudaEventSynchronize(uploaded_), "an op failed on the device");
  }
  void fill_zero(void* device, int64_t bytes) override {
    use();
    if (bytes) check(cudaMemsetAsync(device, 0, static_cast<size_t>(bytes), stream_), "fill");
  }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (gathers(to, from, bytes)) return moves_.push_back({to, from, bytes, /*random=*/false});
    use();
    if (bytes)
      check(
          cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream_),
          "copy");
  }
  void copy_rows(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t bytes,
                 int64_t rows) override {
    // The driver has a limit for steps, just below this.
    if (rows <= 1 || std::max(to_step, from_step) >= int64_t{1} << 31)
      return Device::copy_rows(to, to_step, from, from_step, bytes, rows);
    use();
    if (bytes)
      check(cudaMemcpy2DAsync(to, static_cast<size_t>(to_step), from,
                              static_cast<size_t>(from_step), static_cast<size_t>(bytes),
                              static_cast<size_t>(rows), cudaMemcpyDeviceToDevice, stream_),
            "copy");
  }
  std::unique_ptr<Stopwatch> stopwatch() override {
    use();
    return cuda_stopwatch(stream_);
  }
  void synchronize() override {
    move();
    check(cudaStreamSynchronize(stream_), "an op failed on the device");
  }
  void synchronize_all() override {
    use();
    check(cudaDeviceSynchronize(), "an op failed on the device");
  }
  // An event that was never recorded counts as complete, also during a capture.
  bool lost() const override {
    const cudaError_t status = cudaEventQuery(idle_);
    if (status != cudaSuccess) (void)cudaGetLastError();
    return status != cudaSuccess && status != cudaErrorNotReady;
  }
  double lost_after_s() const override { return std::max(failed_s, now_seconds() - began_s); }
  void* stream() override {
    move();
    return stream_;
  }
  int32_t cpu_threads() const override { return 1; }
  bool can_capture() const override { return true; }
  void begin_capture() override {
    use();
    reader_.begin();
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
    std::vector<MemoryRange> known;
    for (const auto& [begin, bytes] : given_) known.push_back({begin, bytes});
    if (const std::string why = reader_.audit(graph, known); !why.empty()) {
      (void)cudaGraphDestroy(graph);
      fail("capture", why);
    }
    cudaGraphExec_t executable = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
    (void)cudaGraphDestroy(graph);
    check(made, "make a graph executable");
    std::shared_ptr<void> out(
        executable, [](void* e) { (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(e)); });
    // Otherwise the first launch would upload it while the device waits; the time grows with the
    // number of kernels.
    check(cudaGraphUpload(executable, stream_), "upload a graph");
    return out;
  }
  void mark_capture(const std::string& op, bool own_memory_only, int64_t side_streams) override {
    reader_.mark(stream_, {/*first=*/0, op, own_memory_only, side_streams});
  }
  void separate_calls() override {
    use();
    cuda::check_driver(cuda::separate(stream_), "an empty node in a capture");
  }
  std::optional<LaunchFacts> captured_facts() const override { return reader_.facts(); }
  void launch(void* captured) override {
    use();
    if (gaps_ && after_launch_) check(cudaEventRecord(before_launch_, stream_), "record an event");
    check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(captured), stream_), "launch a graph");
    if (gaps_) note_gap();
  }
  void watch_launches(std::vector<double>* gaps) override { gaps_ = gaps; }
  std::string left_behind() override {
    return cuda::left_behind(index_, context_, stream_, settings_);
  }
  std::optional<int64_t> free_bytes() override {
    use();
    size_t free_now = 0, total = 0;
    check(cudaMemGetInfo(&free_now, &total), "ask for free memory");
    return static_cast<int64_t>(free_now);
  }
  std::optional<int64_t> memory_bytes() override {
    use();
    size_t free_now = 0, total = 0;
    check(cudaMemGetInfo(&free_now, &total), "ask for all memory");
    return static_cast<int64_t>(total);
  }
  bool hold(double most_s) override {
    use();
    check(hold_.begin(stream_, most_s), "hold a stream");
    return true;
  }
  void let_go() override { hold_.end(); }
  void peek(void* host, const void* device, int64_t bytes) override {
    use();
    check(hold_.peek(host, device, bytes), "copy beside the stream");
  }
  void profile(bool on) override {
    use();
    check(on ? cudaProfilerStart() : cudaProfilerStop(), "the profiler");
  }

  Shared allocate_shared(int64_t bytes, const std::string& purpose, Sharing) override {
    use();
    const CUmemAllocationProp kind = shared_kind();
    const size_t size = whole(bytes);
    CUmemGenericAllocationHandle handle = 0;
    const CUresult made =
        cuda::driver<decltype(cuMemCreate)>("cuMemCreate")(&handle, size, &kind, 0);
    if (made == CUDA_ERROR_OUT_OF_MEMORY) no_memory(bytes, purpose);
    cuda::check_driver(made, "cuMemCreate");
    Shared shared;
    FK_DRIVER(cuMemExportToShareableHandle, &shared.fd, handle,
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    shared.data = map(handle, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return shared;
  }
  void* open_shared(int fd, int64_t bytes, Sharing mine) override {
    use();
    CUmemGenericAllocationHandle handle = 0;
    FK_DRIVER(cuMemImportFromShareableHandle, &handle,
              reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    return map(
        handle, whole(bytes),
        mine == Sharing::read ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  void close_shared(void* data, int64_t bytes) override {
    synchronize();
    const auto at = reinterpret_cast<CUdeviceptr>(data);
    given_.erase(at);
    FK_DRIVER(cuMemUnmap, at, whole(bytes));
    FK_DRIVER(cuMemAddressFree, at, whole(bytes));
  }
  bool fill_normal(void* target, DType dtype, int64_t count, uint64_t seed, double mean,
                   double stddev) override {
    const int bits = dtype == DType::f32    ? 32
                     : dtype == DType::bf16 ? 16
                     : dtype == DType::f16  ? -16
                                            : 0;
    if (bits == 0) return false;
    use();
    check(cuda::fill_normal(target, bits, count, seed, static_cast<float>(mean),
                            static_cast<float>(stddev), stream_),
          "fill with random numbers");
    return true;
  }
  uint64_t checksum(const void* data, int64_t bytes) override {
    uint64_t sum = 0;
    auto* device = static_cast<unsigned long long*>(allocate(sizeof sum, "a checksum"));
    fill_zero(device, sizeof sum);
    check(cuda::add_checksum(data, bytes / 8, device, stream_), "checksum");
    download(&sum, device, sizeof sum);
    release(device);
    return sum;
  }
  // Each large part gets a kernel of its own, which fills the device; the many small parts share
  // one. All kernels are enqueued before the host waits.
  std::vector<uint64_t> checksums(std::span<const std::span<const std::byte>> parts) override {
    constexpr size_t kLarge = size_t{1} << 18;
    std::vector<uint64_t> sums(parts.size());
    if (parts.empty()) return sums;
    use();
    const size_t lists = parts.size() * sizeof(cuda::Part);
    const auto room = static_cast<int64_t>(lists + parts.size() * sizeof(uint64_t));
    make_room(checked_, checked_bytes_, room, "memory for checksums");
    auto* const list = static_cast<cuda::Part*>(checked_);
    auto* const sum = reinterpret_cast<unsigned long long*>(list + parts.size());
    std::vector<cuda::Part> small;
    for (const auto& p : parts) {
      const bool large =
          p.size() >= kLarge && reinterpret_cast<uintptr_t>(p.data()) % 8 == 0 && p.size() % 8 == 0;
      small.push_back({p.data(), large ? 0 : static_cast<int64_t>(p.size())});
    }
    upload(list, small.data(), static_cast<int64_t>(lists));
    fill_zero(sum, static_cast<int64_t>(parts.size() * sizeof *sum));
    constexpr size_t kOfGrid = 65535;  // of one axis of a grid
    for (size_t at = 0; at < parts.size(); at += kOfGrid)
      check(cuda::add_checksums(list + at, static_cast<int>(std::min(kOfGrid, parts.size() - at)),
                                sum + at, stream_),
            "checksums");
    for (size_t i = 0; i < parts.size(); ++i)
      if (!small[i].bytes && !parts[i].empty())
        check(cuda::add_checksum(parts[i].data(), static_cast<int64_t>(parts[i].size() / 8),
                                 sum + i, stream_),
              "checksum");
    download(sums.data(), sum, static_cast<int64_t>(sums.size() * sizeof(uint64_t)));
    return sums;
  }
  void gather(bool on) override {
    gathering_ = on;
    move();
  }
  bool fill_bits(void* target, int64_t bytes, bool random) override {
    if (!bytes) return true;
    if (gathers(target, nullptr, bytes)) {
      moves_.push_back({target, nullptr, bytes, random});
      return true;
    }
    use();
    check(random ? cuda::fill_random_bits(target, bytes, stream_)
                 : cudaMemsetAsync(target, 0xff, static_cast<size_t>(bytes), stream_),
          "fill with bits");
    return true;
  }

 private:
  // A process may have several devices; calls go to the current one.
  void use() {
    check(cudaSetDevice(index_), "cannot use the device");
    move();
  }
  static void make_room(void*& memory, int64_t& has, int64_t wanted, const char* what) {
    if (has >= wanted) return;
    if (memory) (void)cudaFree(memory);
    memory = nullptr;
    check(cudaMalloc(&memory, static_cast<size_t>(wanted)), what);
    has = wanted;
  }
  // True if a copy or fill waits for the others: it is small, and its addresses are multiples of 8.
  bool gathers(const void* to, const void* from, int64_t bytes) const {
    constexpr int64_t kLarge = int64_t{1} << 18;
    const auto place = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
    return gathering_ && bytes > 0 && bytes < kLarge && place % 8 == 0;
  }
  // Runs the gathered copies; every operation begins with this call. It also notes the time of the
  // begin.
  void move() {
    began_s = now_seconds();
    if (moves_.empty()) return;
    const std::vector<cuda::Move> all = std::exchange(moves_, {});  // use() calls move() again
    use();
    const auto room = static_cast<int64_t>(all.size() * sizeof(cuda::Move));
    make_room(moved_, moved_bytes_, room, "memory for copies");
    upload(moved_, all.data(), room);
    constexpr size_t kOfGrid = 65535;  // of one axis of a grid
    for (size_t at = 0; at < all.size(); at += kOfGrid)
      check(cuda::move_parts(static_cast<const cuda::Move*>(moved_) + at,
                             static_cast<int>(std::min(kOfGrid, all.size() - at)), stream_),
            "copies");
  }
  // Adds the time from the end of the last launch to the start of this one. The host waits for the
  // start while the graph runs.
  void note_gap() {
    if (after_launch_) {
      check(cudaEventSynchronize(before_launch_), "wait for an event");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, after_launch_, before_launch_), "read an event");
      gaps_->push_back(double(ms) * 1e-3);
    } else {
      for (cudaEvent_t* event : {&before_launch_, &after_launch_})
        check(cudaEventCreate(event), "cannot make an event");
    }
    check(cudaEventRecord(after_launch_, stream_), "record an event");
  }
  CUmemAllocationProp shared_kind() const {
    CUmemAllocationProp kind{};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, index_};
    return kind;
  }
  size_t whole(int64_t bytes) const {
    const CUmemAllocationProp kind = shared_kind();
    size_t grain = 0;
    FK_DRIVER(cuMemGetAllocationGranularity, &grain, &kind, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    return (static_cast<size_t>(bytes) + grain - 1) / grain * grain;
  }
  void given(const void* memory, size_t bytes) {
    given_[reinterpret_cast<uintptr_t>(memory)] = bytes;
  }
  // Mapped until the process ends; the handle is not needed after the mapping.
  void* map(CUmemGenericAllocationHandle handle, size_t size, CUmemAccess_flags access) {
    CUdeviceptr at = 0;
    FK_DRIVER(cuMemAddressReserve, &at, size, 0, 0, 0);
    FK_DRIVER(cuMemMap, at, size, 0, handle, 0);
    FK_DRIVER(cuMemRelease, handle);
    const CUmemAccessDesc who{{CU_MEM_LOCATION_TYPE_DEVICE, index_}, access};
    FK_DRIVER(cuMemSetAccess, at, size, &who, 1);
    given(reinterpret_cast<void*>(at), size);
    return reinterpret_cast<void*>(at);
  }
  [[noreturn]] void no_memory(int64_t bytes, const std::string& purpose) const {
    (void)cudaGetLastError();
    size_t free_bytes = 0, total = 0;
    (void)cudaMemGetInfo(&free_bytes, &total);
    fail("memory", "cannot allocate " + human_bytes(bytes) + " for " + purpose + " on " + name_ +
                       ": " + human_bytes(static_cast<int64_t>(free_bytes)) + " of " +
                       human_bytes(static_cast<int64_t>(total)) + " are free");
  }
  int index_;
  std::string name_;
  // True if the memory is pinned memory from this device object.
  bool pinned(const void* host) const {
    const auto at = reinterpret_cast<uintptr_t>(host);
    const auto next = given_.upper_bound(at);
    return next != given_.begin() && at < std::prev(next)->first + std::prev(next)->second;
  }
  cuda::Staging staging_;
  std::map<uint64_t, uint64_t> given_;  // memory allocated by the host: address and bytes
  cuda::Parted parted_;
  cuda::GraphReader reader_;
  cuda::Hold hold_;
  void* context_ = nullptr;  // the device's context, current on every thread that uses it
  cuda::Settings settings_;  // the original settings
  cudaEvent_t uploaded_ = nullptr, idle_ = nullptr, before_launch_ = nullptr,
              after_launch_ = nullptr;
  std::vector<double>* gaps_ = nullptr;
  bool gathering_ = false;
  std::vector<cuda::Move> moves_;  // gathered copies that have not run yet
  void* moved_ = nullptr;          // their descriptions in device memory
  int64_t moved_bytes_ = 0;
  void* checked_ = nullptr;  // memory for checksums()
  int64_t checked_bytes_ = 0;
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
