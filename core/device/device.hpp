// SPDX-License-Identifier: Apache-2.0
// A device as the runtime sees it: memory, copies and one stream. The CPU is one; CUDA devices are
// made by a translation unit that exists only where CUDA was found.
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

// A part of some memory, in bytes from its start.
struct HeldPart {
  int64_t at = 0, bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual int32_t type() const = 0;  // FK_CPU, FK_CUDA
  virtual int32_t id() const = 0;
  virtual std::string name() const = 0;  // "cpu", "cuda:0 NVIDIA H200"
  // Aligned to 256 bytes, content undefined. Throws Error with the figures when it does not fit.
  virtual void* allocate(int64_t bytes, const std::string& purpose) = 0;
  // So many bytes of addresses, of which these parts have memory, in ascending order. What lies in
  // one unit of the device's memory with them has it, too; all else is without access. Error where
  // the device cannot do that.
  virtual void* allocate_parts(int64_t bytes, std::span<const HeldPart> parts,
                               const std::string& purpose);
  virtual void release(void* memory) = 0;  // of either
  // Ordered on the stream; the host side may be reused when the call returns.
  virtual void upload(void* device, const void* host, int64_t bytes) = 0;
  virtual void download(void* host, const void* device,
                        int64_t bytes) = 0;  // returns when it is there
  // Memory of the host that copies to the device are fast from. Aligned to 256 bytes.
  virtual void* allocate_host(int64_t bytes) = 0;
  virtual void release_host(void* memory) = 0;
  // A copy from such memory, ordered on the stream; the memory must not change until
  // wait_for_uploads(), which does not wait for work that was enqueued after the copies.
  virtual void upload_later(void* device, const void* host, int64_t bytes) = 0;
  virtual void uploads_enqueued() {}
  virtual void wait_for_uploads() {}
  // A copy to memory of allocate_host(), ordered on the stream: it is there when the stream has
  // come that far.
  virtual void download_later(void* host, const void* device, int64_t bytes) {
    download(host, device, bytes);
  }
  virtual void fill_zero(void* device, int64_t bytes) = 0;
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;  // on the device, stream order
  // `rows` copies of `bytes`, from and to every so many bytes.
  virtual void copy_rows(void* to, int64_t to_step, const void* from, int64_t from_step,
                         int64_t bytes, int64_t rows);
  // The same of `count` tokens, where 0 stands for one that is not in [0, vocab_size): a kernel may
  // use it as an index before the host has seen it.
  virtual void copy_tokens(int64_t* to, const int64_t* from, int64_t count, int64_t vocab_size);
  virtual void synchronize() = 0;
  // The same of all that this process has enqueued anywhere, whoever did it.
  virtual void synchronize_all() { synchronize(); }
  // Whether nothing will work on it in this process any more, as after a fault of a kernel.
  virtual bool lost() const { return false; }
  // How long this thread was in the call that told so, or in a plugin's after its own last one: in
  // seconds, of which a kernel may have waited for another rank.
  virtual double lost_after_s() const { return 0; }
  virtual void* stream() = 0;  // cudaStream_t, null on the CPU
  virtual int32_t cpu_threads() const = 0;
  // So many processes compute at the same time: each gets its share of the cores.
  virtual void share_cores(int32_t /*processes*/) {}
  // Work that is enqueued on stream() between begin_capture() and end_capture() is not run, but
  // becomes one unit that launch() runs, as often as wanted. capture_is_whole() tells whether what
  // was enqueued so far can be captured; end_capture() throws Error where something could not.
  virtual bool can_capture() const { return false; }
  virtual void begin_capture() {}
  virtual bool capture_is_whole() { return true; }
  virtual std::shared_ptr<void> end_capture() { return nullptr; }
  // What is enqueued in this capture from now on belongs to this op: end_capture() throws Error
  // with its name where it holds what a graph must not (graph_audit.hpp). With `own_memory_only` it
  // may touch no other memory of the device than what the host has allocated or opened here, and
  // of `side_streams` it has branches for no more.
  virtual void mark_capture(const std::string& /*op*/, bool /*own_memory_only*/,
                            int64_t /*side_streams*/ = kAnyStreams) {}
  // In a capture: what is enqueued from now on begins when all before it has ended, also where a
  // kernel asks to be started earlier (programmatic dependent launch). Calls that are timed
  // together must not overlap: in a model other ops stand between them.
  virtual void separate_calls() {}
  // Of the last capture that ended well; nothing where the device does not know.
  virtual std::optional<LaunchFacts> captured_facts() const { return std::nullopt; }
  virtual void launch(void* /*captured*/) {}
  // From now on: how long the device had nothing of a graph to do, from the end of one launch to
  // the start of the next, in seconds, added to `gaps`; null ends it. For measuring the host.
  virtual void watch_launches(std::vector<double>* /*gaps*/) {}
  virtual std::unique_ptr<Stopwatch> stopwatch() = 0;
  // What code that was called on this thread has left behind there and must not: another current
  // device or context, another mode of captures, an error that nobody has asked for; and on the
  // device and its stream: other limits, a window of accesses that stay in the L2 cache. A
  // sentence, and all of it is put back; empty: nothing.
  virtual std::string left_behind() { return ""; }
  // Of the device's memory, whoever has the rest; nothing where that is not known.
  virtual std::optional<int64_t> free_bytes() { return std::nullopt; }
  // All of it, whoever has it; nothing where it is the host's.
  virtual std::optional<int64_t> memory_bytes() { return std::nullopt; }
  // What is enqueued on stream() from now on waits for let_go(), but `most_s` seconds at most.
  // False where the device cannot do that.
  virtual bool hold(double /*most_s*/) { return false; }
  virtual void let_go() {}
  // As they are now, whatever is enqueued; returns when they are there.
  virtual void peek(void* host, const void* device, int64_t bytes) {
    download(host, device, bytes);
  }
  // What a profiler that waits for it looks at is what is enqueued while it is on.
  virtual void profile(bool /*on*/) {}
  // Memory for several processes: whoever makes it fills it and gives the descriptor away, whoever
  // opens it reads it, or writes it too. Of what is made with Sharing::read, a writable mapping is
  // refused where the device can do that (the CPU); elsewhere its maker has to look. One physical
  // copy; it is mapped here until close_shared() or the end of the process.
  enum class Sharing { read, write };
  struct Shared {
    void* data = nullptr;
    int fd = -1;  // owned by the caller
  };
  virtual Shared allocate_shared(int64_t bytes, const std::string& purpose, Sharing others) = 0;
  // The same where so many bytes are gaps, which nobody touches: on the CPU they take no memory.
  virtual Shared allocate_with_gaps(int64_t bytes, int64_t /*gaps*/, const std::string& purpose,
                                    Sharing others) {
    return allocate_shared(bytes, purpose, others);
  }
  virtual void* open_shared(int fd, int64_t bytes, Sharing mine) = 0;
  virtual void close_shared(void* data, int64_t bytes) = 0;  // waits for the stream
  // What core/tensor/random.hpp's function of this name writes, bit for bit. False where the device
  // cannot; then nothing is written.
  virtual bool fill_normal(void* /*target*/, DType /*dtype*/, int64_t /*count*/, uint64_t /*seed*/,
                           double /*mean*/, double /*stddev*/) {
    return false;
  }
  // Of the bytes (a multiple of 8) and their places; for memory that must not change.
  virtual uint64_t checksum(const void* data, int64_t bytes);
  // The same of several parts of any size in one go: what costs is asking. checksum_of() has the
  // same value for memory of the host.
  virtual std::vector<uint64_t> checksums(std::span<const std::span<const std::byte>> parts);
  // All bits set, or random ones, on the stream. False where the device cannot; then nothing is
  // written.
  virtual bool fill_bits(void* /*target*/, int64_t /*bytes*/, bool /*random*/) { return false; }
  // While it is on, copy() and fill_bits() of small parts, which do not overlap, may wait to be
  // done in one go: what costs is asking. Whatever else is asked of the device finds them done.
  virtual void gather(bool /*on*/) {}
  bool host_memory() const { return type() == FK_CPU; }
};

// What Device::checksums() says of the same bytes.
uint64_t checksum_of(std::span<const std::byte> memory);

// A kind of device, registered by its translation unit: FK_DEVICE_KIND(cuda, {names, open}).
struct DeviceKind {
  std::vector<std::string> (*names)();  // what is here, e.g. {"cuda:0", "cuda:1"}; empty if none
  std::unique_ptr<Device> (*open)(const std::string& name);
  std::string (*missing)();  // why there is none; empty otherwise
};
struct DeviceRegistration {
  DeviceRegistration(const char* kind, DeviceKind functions);
};
#define FK_DEVICE_KIND(kind, ...) \
  static const ::fk::DeviceRegistration fk_device_##kind(#kind, __VA_ARGS__)

// "cpu" or "cuda:0" ("cuda" is the first one); Error when there is no such device, with the reason,
// which is a HostError where this machine has none of the kind.
std::unique_ptr<Device> open_device(const std::string& name);
std::vector<std::string> device_names();  // those that open_device accepts here

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

// Keeps one mapping of shared memory, and the descriptor of one that was made here.
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
