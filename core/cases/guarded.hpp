// SPDX-License-Identifier: Apache-2.0
// Memory that detects wrong accesses. Every buffer has a canary on both sides. On the CPU, 64 MiB
// of inaccessible addresses follow beyond them: a small overrun is reported, a large one stops the
// process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

// The fill of undefined memory: all bits set (NaN, -1) or random bits.
enum class Poison { ones, random };

// A fast hash to detect changes of memory. It does not resist forgery.
uint64_t fingerprint(std::span<const std::byte> memory);

// Memory mapped by several processes and handed out from its start: equal requests in equal order
// get equal places. Without memory it only counts the bytes.
class SharedRegion {
 public:
  SharedRegion() = default;
  SharedRegion(void* begin, int64_t bytes)
      : begin_(static_cast<std::byte*>(begin)), bytes_(bytes) {}
  // Aligned to 256 bytes; null while counting. `gaps` of the bytes have no memory.
  std::byte* take(int64_t bytes, int64_t gaps = 0);
  int64_t taken() const { return taken_; }
  int64_t gaps() const { return gaps_; }

 private:
  std::byte* begin_ = nullptr;
  int64_t bytes_ = 0, taken_ = 0, gaps_ = 0;
};

class GuardedBuffer {
 public:
  // Starts at a multiple of 256 bytes, plus `behind`. `shift` = 0, 1, 2 ... gives different offsets
  // from its page. With `at_end`, on the CPU, it ends where an inaccessible page begins, or up to
  // 255 bytes before, which stops reads beyond it. `device` must outlive it. Error when memory is
  // short.
  // `held`: only these parts, in ascending order, have memory; other addresses are inaccessible.
  // Empty: all of the buffer.
  GuardedBuffer(Device& device, int64_t bytes, int shift, bool at_end = false, int64_t behind = 0,
                std::vector<HeldPart> held = {});
  // In a region. The owner writes canaries and may call damage(). Other processes see the owner's
  // data, and have no canaries; with `at_end` the page behind is inaccessible to them. `held` is
  // for the CPU only.
  GuardedBuffer(Device& device, SharedRegion& region, int64_t bytes, int shift, bool at_end,
                bool owner, int64_t behind = 0, std::vector<HeldPart> held = {});
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  std::byte* data() const { return data_; }  // on the device; null when empty
  int64_t bytes() const { return bytes_; }
  // The inaccessible page behind a buffer with `at_end`; null if there is none.
  const std::byte* forbidden() const { return forbidden_; }
  // The parts with memory; a buffer without gaps is one part.
  std::vector<std::span<std::byte>> parts() const;
  void poison(Poison kind);
  // Copy from and to host memory; they wait for work enqueued on the device's stream.
  void write(int64_t at, const void* from, int64_t bytes);
  // Writes all elements of `from` as `dtype`, a block at a time: a large tensor is not copied as a
  // whole.
  void write(int64_t at, const Tensor& from, DType dtype);
  void read(void* to, int64_t at, int64_t bytes) const;
  // All of it, readable by the host: the memory itself, or a copy in `keep`. Bytes between held
  // parts must not be read.
  std::span<const std::byte> host(std::vector<std::byte>& keep) const;
  // The held parts one after the other: the memory itself, or a copy in `keep`.
  std::span<const std::byte> held_bytes(std::vector<std::byte>& keep) const;
  // Position of a byte among all held bytes; for the buffer's end their number.
  int64_t place_of(int64_t at) const;
  // A hash of the contents to detect changes, computed on the device.
  uint64_t print() const;
  // Copies the contents of another buffer of the same device and size.
  void copy_from(const GuardedBuffer& other);
  // Empty while both canaries are intact, else "24 bytes written 8 bytes past its end".
  std::string damage() const;
  // On a device, reads the results of print() and damage() for these buffers in one request. They
  // return these results until the glance ends. No code may write the buffers meanwhile.
  class Glance {
   public:
    Glance(Device& device, std::vector<const GuardedBuffer*> buffers);
    ~Glance();
    Glance(const Glance&) = delete;

   private:
    std::vector<const GuardedBuffer*> buffers_;
  };

 private:
  void map(size_t before, size_t used);
  void poison_part(std::span<std::byte> part, Poison kind);
  bool open_parts(std::byte* begin, size_t before, size_t used) const;
  void close_gaps() const;
  void write_canaries();

  Device& device_;
  std::byte* map_ = nullptr;
  size_t map_bytes_ = 0;
  std::byte* begin_ = nullptr;  // start of accessible memory, with canaries up to data_
  std::byte* end_ = nullptr;
  std::byte* data_ = nullptr;
  const std::byte* forbidden_ = nullptr;
  int64_t bytes_ = 0;
  std::vector<HeldPart> held_;
  struct Seen {
    bool whole = false;  // both canaries are intact
    uint64_t print = 0;
  };
  mutable std::optional<Seen> seen_;                               // during a glance
  mutable std::optional<std::pair<uint64_t, uint64_t>> canaries_;  // sums: in front, behind
};

// A device whose allocations are guarded, for the instance under test.
class GuardDevice final : public Device {
 public:
  // `device` must outlive it; `threads` is the number that a CPU instance may use.
  GuardDevice(Device& device, int shift, int32_t threads)
      : device_(device), shift_(shift), threads_(threads) {}
  int32_t type() const override { return device_.type(); }
  int32_t id() const override { return device_.id(); }
  std::string name() const override { return device_.name() + " with guarded memory"; }
  void* allocate(int64_t bytes, const std::string& purpose) override;
  void release(void* memory) override;
  void upload(void* device, const void* host, int64_t bytes) override {
    device_.upload(device, host, bytes);
  }
  void download(void* host, const void* device, int64_t bytes) override {
    device_.download(host, device, bytes);
  }
  void* allocate_host(int64_t bytes) override { return device_.allocate_host(bytes); }
  void release_host(void* memory) override { device_.release_host(memory); }
  void upload_later(void* device, const void* host, int64_t bytes) override {
    device_.upload_later(device, host, bytes);
  }
  void fill_zero(void* device, int64_t bytes) override { device_.fill_zero(device, bytes); }
  void copy(void* to, const void* from, int64_t bytes) override { device_.copy(to, from, bytes); }
  Shared allocate_shared(int64_t bytes, const std::string& purpose, Sharing others) override {
    return device_.allocate_shared(bytes, purpose, others);
  }
  void* open_shared(int fd, int64_t bytes, Sharing mine) override {
    return device_.open_shared(fd, bytes, mine);
  }
  void close_shared(void* data, int64_t bytes) override { device_.close_shared(data, bytes); }
  std::unique_ptr<Stopwatch> stopwatch() override { return device_.stopwatch(); }
  void synchronize() override { device_.synchronize(); }
  void synchronize_all() override { device_.synchronize_all(); }
  void* stream() override { return device_.stream(); }
  std::string left_behind() override { return device_.left_behind(); }
  int32_t cpu_threads() const override { return threads_; }

  Device& below() const { return device_; }
  // Empty, or the damage so far (released allocations included).
  std::string damage() const;
  // Memory of the live allocations.
  std::vector<std::span<const std::byte>> memory() const;
  // The fingerprints of all live allocations whose purpose contains `word`.
  std::vector<uint64_t> fingerprints_of(const std::string& word) const;

 private:
  struct Allocation {
    std::unique_ptr<GuardedBuffer> memory;
    std::string purpose;
  };
  Device& device_;
  std::map<void*, Allocation> live_;
  std::string damage_;
  int shift_;
  int32_t threads_;
};

}  // namespace fk
