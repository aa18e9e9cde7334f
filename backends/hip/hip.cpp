// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <vector>

#include "backends/hip/device.hpp"

namespace fk_hip {

int32_t Hip::count(fk_error& why_none) {
  int found = 0;
  const hipError_t status = hipGetDeviceCount(&found);
  if (status == hipSuccess && found > 0) return found;
  (void)hipGetLastError();
  fk_fail(&why_none, FK_OK,
          status == hipSuccess ? "the driver sees none" : hipGetErrorString(status));
  return 0;
}

void Hip::describe(int32_t index, fk_device_info& info) {
  hipDeviceProp_t properties{};
  check(hipGetDeviceProperties(&properties, index), "hipGetDeviceProperties");
  info.cpu_threads = 1;
  info.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  std::snprintf(info.name, sizeof info.name, "%.60s %.60s", properties.name,
                properties.gcnArchName);
  int driver = 0;
  check(hipDriverGetVersion(&driver), "hipDriverGetVersion");
  std::snprintf(info.driver, sizeof info.driver, "HIP %d", driver);
  check(hipDeviceGetPCIBusId(info.identity, sizeof info.identity, index), "hipDeviceGetPCIBusId");
}

Hip::Hip(int32_t index) : index_(index) {
  use();
  check(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking), "hipStreamCreateWithFlags");
  for (hipEvent_t* event : {&uploaded_, &idle_})
    check(hipEventCreateWithFlags(event, hipEventDisableTiming), "hipEventCreateWithFlags");
  for (hipEvent_t* event : {&before_, &after_}) check(hipEventCreate(event), "hipEventCreate");
}

Hip::~Hip() {
  (void)hipSetDevice(index_);
  (void)hipStreamSynchronize(stream_);
  for (hipEvent_t event : {uploaded_, idle_, before_, after_}) (void)hipEventDestroy(event);
  (void)hipStreamDestroy(stream_);
}

void* Hip::allocate(int64_t bytes) {
  use();
  void* memory = nullptr;
  check(hipMalloc(&memory, static_cast<size_t>(bytes)), "hipMalloc");
  return memory;
}
void Hip::release(void* memory) {
  use();
  check(hipFree(memory), "hipFree");
}
void* Hip::allocate_host(int64_t bytes) {
  use();
  void* memory = nullptr;
  check(hipHostMalloc(&memory, static_cast<size_t>(bytes), hipHostMallocDefault), "hipHostMalloc");
  return memory;
}
void Hip::release_host(void* memory) { check(hipHostFree(memory), "hipHostFree"); }
int64_t Hip::free_bytes() {
  use();
  size_t free_now = 0, total = 0;
  check(hipMemGetInfo(&free_now, &total), "hipMemGetInfo");
  return static_cast<int64_t>(free_now);
}

void Hip::upload(void* to, const void* host, int64_t bytes) {
  use();
  if (bytes)
    check(hipMemcpyAsync(to, host, static_cast<size_t>(bytes), hipMemcpyHostToDevice, stream_),
          "hipMemcpyAsync");
}
void Hip::uploads_enqueued() { check(hipEventRecord(uploaded_, stream_), "hipEventRecord"); }
void Hip::wait_for_uploads() { check(hipEventSynchronize(uploaded_), "hipEventSynchronize"); }
void Hip::download(void* host, const void* from, int64_t bytes) {
  download_later(host, from, bytes);
  synchronize();
}
void Hip::download_later(void* host, const void* from, int64_t bytes) {
  use();
  if (bytes)
    check(hipMemcpyAsync(host, from, static_cast<size_t>(bytes), hipMemcpyDeviceToHost, stream_),
          "hipMemcpyAsync");
}
void Hip::copy(void* to, const void* from, int64_t bytes) {
  use();
  if (bytes)
    check(hipMemcpyAsync(to, from, static_cast<size_t>(bytes), hipMemcpyDeviceToDevice, stream_),
          "hipMemcpyAsync");
}
void Hip::fill(void* to, int32_t byte, int64_t bytes) {
  use();
  if (bytes) check(hipMemsetAsync(to, byte, static_cast<size_t>(bytes), stream_), "hipMemsetAsync");
}
void Hip::copy_rows(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t bytes,
                    int64_t rows) {
  use();
  if (bytes && rows > 0)
    check(hipMemcpy2DAsync(to, static_cast<size_t>(to_step), from, static_cast<size_t>(from_step),
                           static_cast<size_t>(bytes), static_cast<size_t>(rows),
                           hipMemcpyDeviceToDevice, stream_),
          "hipMemcpy2DAsync");
}

hipMemAllocationProp Hip::shared_kind() const {
  hipMemAllocationProp kind{};
  kind.type = hipMemAllocationTypePinned;
  kind.requestedHandleType = hipMemHandleTypePosixFileDescriptor;
  kind.location = {hipMemLocationTypeDevice, index_};
  return kind;
}
size_t Hip::whole(int64_t bytes) const {
  const hipMemAllocationProp kind = shared_kind();
  size_t grain = 0;
  check(hipMemGetAllocationGranularity(&grain, &kind, hipMemAllocationGranularityRecommended),
        "hipMemGetAllocationGranularity");
  return (static_cast<size_t>(bytes) + grain - 1) / grain * grain;
}
void* Hip::map(hipMemGenericAllocationHandle_t handle, size_t size, bool writable) const {
  void* at = nullptr;
  check(hipMemAddressReserve(&at, size, 0, nullptr, 0), "hipMemAddressReserve");
  check(hipMemMap(at, size, 0, handle, 0), "hipMemMap");
  check(hipMemRelease(handle), "hipMemRelease");
  hipMemAccessDesc access{};
  access.location = {hipMemLocationTypeDevice, index_};
  access.flags = writable ? hipMemAccessFlagsProtReadWrite : hipMemAccessFlagsProtRead;
  check(hipMemSetAccess(at, size, &access, 1), "hipMemSetAccess");
  return at;
}
void Hip::share(int64_t bytes, int64_t, int32_t, void** memory, int32_t* fd) {
  use();
  const hipMemAllocationProp kind = shared_kind();
  const size_t size = whole(bytes);
  hipMemGenericAllocationHandle_t handle{};
  check(hipMemCreate(&handle, size, &kind, 0), "hipMemCreate");
  check(hipMemExportToShareableHandle(fd, handle, hipMemHandleTypePosixFileDescriptor, 0),
        "hipMemExportToShareableHandle");
  *memory = map(handle, size, true);
}
void Hip::open_shared(int32_t fd, int64_t bytes, int32_t writable, void** memory) {
  use();
  hipMemGenericAllocationHandle_t handle{};
  check(hipMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                        hipMemHandleTypePosixFileDescriptor),
        "hipMemImportFromShareableHandle");
  *memory = map(handle, whole(bytes), writable != 0);
}
void Hip::close_shared(void* memory, int64_t bytes) {
  synchronize();
  check(hipMemUnmap(memory, whole(bytes)), "hipMemUnmap");
  check(hipMemAddressFree(memory, whole(bytes)), "hipMemAddressFree");
}

void Hip::synchronize() { check(hipStreamSynchronize(stream_), "hipStreamSynchronize"); }
void Hip::synchronize_all() {
  use();
  check(hipDeviceSynchronize(), "hipDeviceSynchronize");
}
// An event that was never recorded counts as complete.
bool Hip::lost() {
  const hipError_t status = hipEventQuery(idle_);
  if (status != hipSuccess) (void)hipGetLastError();
  return status != hipSuccess && status != hipErrorNotReady;
}

void Hip::begin_capture() {
  use();
  reader_.begin();
  check(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal), "hipStreamBeginCapture");
}
int32_t Hip::capture_is_whole() {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  return hipStreamIsCapturing(stream_, &status) == hipSuccess &&
         status == hipStreamCaptureStatusActive;
}
void Hip::mark_capture() { reader_.mark(stream_); }
// HIP has no programmatic launch, so a kernel never starts before the end of an earlier one.
void Hip::separate_calls() {}
void Hip::end_capture(fk_graph** graph, fk_nodes* nodes) {
  hipGraph_t captured = nullptr;
  check(hipStreamEndCapture(stream_, &captured), "hipStreamEndCapture");
  hipGraphExec_t executable = nullptr;
  try {
    reader_.read(captured, *nodes);
    check(hipGraphInstantiate(&executable, captured, nullptr, nullptr, 0), "hipGraphInstantiate");
  } catch (...) {
    (void)hipGraphDestroy(captured);
    throw;
  }
  (void)hipGraphDestroy(captured);
  *graph = reinterpret_cast<fk_graph*>(executable);
}
void Hip::launch(fk_graph* graph, double* gap_s) {
  use();
  if (gap_s) check(hipEventRecord(before_, stream_), "hipEventRecord");
  check(hipGraphLaunch(reinterpret_cast<hipGraphExec_t>(graph), stream_), "hipGraphLaunch");
  if (!gap_s) return;
  *gap_s = -1;
  if (launched_) {
    float ms = 0;
    check(hipEventSynchronize(before_), "hipEventSynchronize");
    check(hipEventElapsedTime(&ms, after_, before_), "hipEventElapsedTime");
    *gap_s = double{ms} * 1e-3;
  }
  check(hipEventRecord(after_, stream_), "hipEventRecord");
  launched_ = true;
}
void Hip::free_graph(fk_graph* graph) {
  (void)hipGraphExecDestroy(reinterpret_cast<hipGraphExec_t>(graph));
}

Events::Events(Hip& device) : index_(device.index()), stream_(device.queue()) {
  check(hipSetDevice(index_), "hipSetDevice");
  int cache = 0;
  check(hipDeviceGetAttribute(&cache, hipDeviceAttributeL2CacheSize, index_),
        "hipDeviceGetAttribute");
  // MI200 and MI300 have up to 256 MiB of cache behind the L2 cache, which HIP does not report.
  bytes_ = static_cast<size_t>(2) * static_cast<size_t>(std::max(cache, 256 << 20));
  void* memory = nullptr;
  check(hipMalloc(&memory, 2 * bytes_), "hipMalloc");
  memory_ = static_cast<char*>(memory);
  for (hipEvent_t* event : {&start_, &stop_}) check(hipEventCreate(event), "hipEventCreate");
}
Events::~Events() {
  (void)hipSetDevice(index_);
  (void)hipStreamSynchronize(stream_);
  (void)hipFree(memory_);
  for (hipEvent_t event : {start_, stop_}) (void)hipEventDestroy(event);
}
void Events::flush(int32_t) {
  for (int pass = 0; pass < passes_; ++pass)
    check(hipMemcpyAsync(memory_, memory_ + bytes_, bytes_, hipMemcpyDeviceToDevice, stream_),
          "hipMemcpyAsync");
}
void Events::start() { check(hipEventRecord(start_, stream_), "hipEventRecord"); }
void Events::stop() {
  check(hipEventRecord(stop_, stream_), "hipEventRecord");
  late_ = hipEventQuery(start_) == hipSuccess;
  (void)hipGetLastError();
}
void Events::seconds(double* seconds, int32_t* late) {
  check(hipEventSynchronize(stop_), "hipEventSynchronize");
  float ms = 0;
  check(hipEventElapsedTime(&ms, start_, stop_), "hipEventElapsedTime");
  *seconds = double{ms} * 1e-3;
  *late = late_;
}

}  // namespace fk_hip

FK_BACKEND_OF(fk_hip::Hip, "hip", "0.1.0");
