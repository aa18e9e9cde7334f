// SPDX-License-Identifier: Apache-2.0
// A device for the runtime: memory, copies and one stream. The CPU is one device. CUDA devices come
// from a translation unit that exists only where CUDA was found.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/graph_audit.hpp"
#include "core/device/launch_facts.hpp"
#include "core/device/stopwatch.hpp"
#include "core/tensor/dtype.hpp"
#include "fk/tensor.h"

namespace fk {

// A part of an allocation, in bytes from its start.
struct HeldPart {
  int64_t at = 0, bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual int32_t type() const = 0;  // FK_CPU, FK_CUDA
  virtual int32_t id() const = 0;
  virtual std::string name() const = 0;  // "cpu", "cuda:0 NVIDIA H200"
  // Aligned to 256 bytes, content undefined. Error with the figures when memory is short.
  virtual void* allocate(int64_t bytes, const std::string& purpose) = 0;
  // Reserves `bytes` of addresses. Only these parts, in ascending order, have memory, rounded to
  // whole units of the device's memory; other addresses cannot be accessed. Error if the device
  // does not support it.
  virtual void* allocate_parts(int64_t bytes, std::span<const HeldPart> parts,
                               const std::string& purpose);
  virtual void release(void* memory) = 0;  // for both kinds of memory
  // Ordered on the stream; the host side may be reused when the call returns.
  virtual void upload(void* device, const void* host, int64_t bytes) = 0;
  virtual void download(void* host, const void* device,
                        int64_t bytes) = 0;  // returns when it is there
  // Host memory with fast copies to the device. Aligned to 256 bytes.
  virtual void* allocate_host(int64_t bytes) = 0;
  virtual void release_host(void* memory) = 0;
  // A copy from memory of allocate_host(), ordered on the stream. The memory must not change until
  // wait_for_uploads() returns. That call does not wait for work enqueued after the copies.
  virtual void upload_later(void* device, const void* host, int64_t bytes) = 0;
  virtual void uploads_enqueued() {}
  virtual void wait_for_uploads() {}
  // A copy to memory of allocate_host(), ordered on the stream. The data has arrived when the
  // stream reaches this point.
  virtual void download_later(void* host, const void* device, int64_t bytes) {
    download(host, device, bytes);
  }
  virtual void fill_zero(void* device, int64_t bytes) = 0;
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;  // on the device, stream order
  // Copies `rows` rows of `bytes`; steps are bytes from row to row.
  virtual void copy_rows(void* to, int64_t to_step, const void* from, int64_t from_step,
                         int64_t bytes, int64_t rows);
  // Copies `count` tokens. Tokens outside of [0, vocab_size) become 0: a kernel may use a token as
  // an index before the host has seen it.
  virtual void copy_tokens(int64_t* to, const int64_t* from, int64_t count, int64_t vocab_size);
  virtual void synchronize() = 0;
  // Waits for all work of this process on the device, on any stream.
  virtual void synchronize_all() { synchronize(); }
  // True if the device can run no more work of this process, as after a fault of a kernel.
  virtual bool lost() const { return false; }
  // Seconds of this thread in the call that reported the loss, or in a plugin after the thread's
  // last own call. A kernel may have waited for another rank in this time.
  virtual double lost_after_s() const { return 0; }
  virtual void* stream() = 0;  // cudaStream_t, null on the CPU
  virtual int32_t cpu_threads() const = 0;
  // Number of processes that compute at the same time: each uses its share of the cores.
  virtual void share_cores(int32_t /*processes*/) {}
  // Work enqueued on stream() between begin_capture() and end_capture() does not run. It becomes
  // one unit that launch() runs any number of times. capture_is_whole() is false after work that
  // cannot be captured; end_capture() then throws Error.
  virtual bool can_capture() const { return false; }
  virtual void begin_capture() {}
  virtual bool capture_is_whole() { return true; }
  virtual std::shared_ptr<void> end_capture() { return nullptr; }
  // Work captured from now on belongs to this op. end_capture() throws Error with the op's name if
  // the work contains something forbidden (graph_audit.hpp). With `own_memory_only` it may touch
  // only device memory that the host allocated or opened here. It may have at most `side_streams`
  // branches in addition to the main one.
  virtual void mark_capture(const std::string& /*op*/, bool /*own_memory_only*/,
                            int64_t /*side_streams*/ = kAnyStreams) {}
  // In a capture: later work starts only after all earlier work has ended, even if a kernel asks
  // for an earlier start (programmatic dependent launch). Calls timed together must not overlap,
  // because in a model other ops stand between them.
  virtual void separate_calls() {}
  // Facts of the last successful capture; empty where the device does not know them.
  virtual std::optional<LaunchFacts> captured_facts() const { return std::nullopt; }
  virtual void launch(void* /*captured*/) {}
  // From now on appends to `gaps` the device's idle time between the end of one launch and the
  // start of the next, in seconds. Null ends it. Measures the host's overhead.
  virtual void watch_launches(std::vector<double>* /*gaps*/) {}
  virtual std::unique_ptr<Stopwatch> stopwatch() = 0;
  // Restores state that code called on this thread has changed and must not change. On the thread:
  // the current device or context, the capture mode, a pending error. On the device and its stream:
  // limits, a window of accesses that persist in the L2 cache. Returns the changes in a sentence;
  // empty: none.
  virtual std::string left_behind() { return ""; }
  // Free memory of the device, for any use; empty where unknown.
  virtual std::optional<int64_t> free_bytes() { return std::nullopt; }
  // Total memory of the device; empty where the host's memory is used.
  virtual std::optional<int64_t> memory_bytes() { return std::nullopt; }
  // Work enqueued on stream() from now on waits for let_go(), at most `most_s` seconds. False where
  // the device does not support it.
  virtual bool hold(double /*most_s*/) { return false; }
  virtual void let_go() {}
  // Copies the present content without waiting for enqueued work; returns when the copy is done.
  virtual void peek(void* host, const void* device, int64_t bytes) {
    download(host, device, bytes);
  }
  // An attached profiler records the work enqueued while `on` is true.
  virtual void profile(bool /*on*/) {}
  // Memory for several processes. Its maker fills it and passes the descriptor on; processes that
  // open it read it, or write it too. With Sharing::read, the CPU device refuses writable mappings;
  // on other devices the maker has to check the content. One physical copy; it is mapped here until
  // close_shared() or the end of the process.
  enum class Sharing { read, write };
  struct Shared {
    void* data = nullptr;
    int fd = -1;  // owned by the caller
  };
  virtual Shared allocate_shared(int64_t bytes, const std::string& purpose, Sharing others) = 0;
  // The same with `gaps` bytes that no process touches: on the CPU they take no memory.
  virtual Shared allocate_with_gaps(int64_t bytes, int64_t /*gaps*/, const std::string& purpose,
                                    Sharing others) {
    return allocate_shared(bytes, purpose, others);
  }
  virtual void* open_shared(int fd, int64_t bytes, Sharing mine) = 0;
  virtual void close_shared(void* data, int64_t bytes) = 0;  // waits for the stream
  // Writes the same bits as the function of this name in core/tensor/random.hpp. False if the
  // device cannot; then nothing is written.
  virtual bool fill_normal(void* /*target*/, DType /*dtype*/, int64_t /*count*/, uint64_t /*seed*/,
                           double /*mean*/, double /*stddev*/) {
    return false;
  }
  // A hash of the bytes (a multiple of 8) and their positions, to detect changes of memory.
  virtual uint64_t checksum(const void* data, int64_t bytes);
  // The same for several parts of any size in one call, because each request costs time.
  // checksum_of() has the same value for host memory.
  virtual std::vector<uint64_t> checksums(std::span<const std::span<const std::byte>> parts);
  // Writes all bits set, or random bits, on the stream. False if the device cannot; then nothing is
  // written.
  virtual bool fill_bits(void* /*target*/, int64_t /*bytes*/, bool /*random*/) { return false; }
  // While on, copy() and fill_bits() of small parts, which must not overlap, may be deferred and
  // run in one launch. They run before any other operation of the device.
  virtual void gather(bool /*on*/) {}
  bool host_memory() const { return type() == FK_CPU; }
};

// The value of Device::checksums() for the same bytes.
uint64_t checksum_of(std::span<const std::byte> memory);

// A kind of device, registered by its translation unit: FK_DEVICE_KIND(cuda, {names, open}).
struct DeviceKind {
  std::vector<std::string> (*names)();  // devices present, e.g. {"cuda:0", "cuda:1"}; empty if none
  std::unique_ptr<Device> (*open)(const std::string& name);
  std::string (*missing)();  // reason for the absence of devices; empty otherwise
};
struct DeviceRegistration {
  DeviceRegistration(const char* kind, DeviceKind functions);
};
#define FK_DEVICE_KIND(kind, ...) \
  static const ::fk::DeviceRegistration fk_device_##kind(#kind, __VA_ARGS__)

// "cpu" or "cuda:0" ("cuda" is the first one). Error with the reason when the device does not
// exist; a HostError where this machine has no device of the kind.
std::unique_ptr<Device> open_device(const std::string& name);
bool has_device_kind(const std::string& kind);  // in this build
std::vector<std::string> device_names();        // names that open_device accepts here

// Owns one allocation of the host.
class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(Device& device, int64_t bytes)
      : device_(&device), data_(device.allocate_host(bytes ? bytes : 1)) {}
  HostMemory(HostMemory&& o) noexcept : device_(o.device_), data_(o.data_) { o.data_ = nullptr; }
  HostMemory& operator=(HostMemory&& o) noexcept {
    std::swap(device_, o.device_), std::swap(data_, o.data_);
    return *this;
  }
  ~HostMemory() {
    if (data_) device_->release_host(data_);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
};

// Keeps one mapping of shared memory, and its descriptor if it was made here.
class SharedMapping {
 public:
  SharedMapping() = default;
  SharedMapping(Device& device, Device::Shared shared, int64_t bytes)
      : device_(&device), shared_(shared), bytes_(bytes) {}
  SharedMapping(SharedMapping&& o) noexcept { *this = std::move(o); }
  SharedMapping& operator=(SharedMapping&& o) noexcept {
    std::swap(device_, o.device_), std::swap(shared_, o.shared_), std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~SharedMapping();
  void* data() const { return shared_.data; }
  size_t size() const { return static_cast<size_t>(bytes_); }
  int fd() const { return shared_.fd; }

 private:
  Device* device_ = nullptr;
  Device::Shared shared_;
  int64_t bytes_ = 0;
};

// Owns one allocation of the device.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device& device, int64_t bytes, const std::string& purpose)
      : device_(&device), data_(bytes ? device.allocate(bytes, purpose) : nullptr), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& o) noexcept : device_(o.device_), data_(o.data_), bytes_(o.bytes_) {
    o.data_ = nullptr;
  }
  DeviceMemory& operator=(DeviceMemory&& o) noexcept {
    std::swap(device_, o.device_), std::swap(data_, o.data_), std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~DeviceMemory() {
    if (data_) device_->release(data_);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  int64_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace fk
