// SPDX-License-Identifier: Apache-2.0
// Memory that notices what is done to it: a canary on both sides of every buffer, and pages without
// access beyond those, so that a small overrun is named and a large one stops the process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.hpp"

namespace fk {

// What undefined memory is filled with: all bits set (NaN, -1) or random bits.
enum class Poison { ones, random };

class GuardedBuffer {
 public:
  // Starts at a multiple of 256 bytes and, with `shift` = 0, 1, 2 ..., at a different offset from
  // its page. Error when memory is short.
  GuardedBuffer(int64_t bytes, int shift);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  std::byte* data() const { return data_; }  // null when there are no bytes
  int64_t bytes() const { return bytes_; }
  void poison(Poison kind);
  // Empty while both canaries are whole, else "24 bytes written 8 bytes past its end".
  std::string damage() const;

 private:
  std::byte* map_ = nullptr;
  size_t map_bytes_ = 0;
  std::byte* begin_ = nullptr;  // of the memory with access
  std::byte* end_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// The CPU with guarded memory, for the instance under test.
class GuardDevice final : public Device {
 public:
  explicit GuardDevice(int shift, int32_t threads) : shift_(shift), threads_(threads) {}
  int32_t type() const override { return FK_CPU; }
  int32_t id() const override { return 0; }
  std::string name() const override { return "cpu with guarded memory"; }
  void* allocate(int64_t bytes, const std::string& purpose) override;
  void release(void* memory) override;
  void upload(void* device, const void* host, int64_t bytes) override;
  void download(void* host, const void* device, int64_t bytes) override;
  void* allocate_host(int64_t bytes) override { return allocate(bytes, "host memory"); }
  void release_host(void* memory) override { release(memory); }
  void upload_later(void* device, const void* host, int64_t bytes) override {
    upload(device, host, bytes);
  }
  void fill_zero(void* device, int64_t bytes) override;
  void synchronize() override {}
  void* stream() override { return nullptr; }
  int32_t cpu_threads() const override { return threads_; }

  // Empty, or what was damaged so far (released allocations included).
  std::string damage() const;
  // A hash of all live allocations whose purpose contains `word`.
  std::string hash_of(const std::string& word) const;

 private:
  struct Allocation {
    std::unique_ptr<GuardedBuffer> memory;
    std::string purpose;
  };
  std::map<void*, Allocation> live_;
  std::string damage_;
  int shift_;
  int32_t threads_;
};

}  // namespace fk
