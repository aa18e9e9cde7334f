// SPDX-License-Identifier: Apache-2.0
// Guarded memory. The canary depends on the position, so that a write of a constant is seen too.
#include "core/referee/guarded.hpp"

#include <sys/mman.h>

#include <cstring>
#include <span>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

constexpr size_t kPage = 4096;

std::byte canary(const std::byte* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  return static_cast<std::byte>(0x5a ^ (address * 0x9e) ^ (address >> 8));
}

}  // namespace

GuardedBuffer::GuardedBuffer(int64_t bytes, int shift) : bytes_(bytes) {
  if (!bytes) return;
  const size_t before = kPage + 256 * static_cast<size_t>(shift % 15);
  const size_t used = (before + static_cast<size_t>(bytes) + kPage / 2 + kPage - 1) / kPage * kPage;
  map_bytes_ = used + 2 * kPage;
  void* map = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) fail("memory", "cannot allocate " + human_bytes(bytes) + " to check with");
  map_ = static_cast<std::byte*>(map);
  mprotect(map_, kPage, PROT_NONE);
  mprotect(map_ + kPage + used, kPage, PROT_NONE);
  begin_ = map_ + kPage;
  end_ = begin_ + used;
  data_ = begin_ + before;
  for (std::byte* p = begin_; p < data_; ++p) *p = canary(p);
  for (std::byte* p = data_ + bytes; p < end_; ++p) *p = canary(p);
}

GuardedBuffer::~GuardedBuffer() {
  if (map_) munmap(map_, map_bytes_);
}

void GuardedBuffer::poison(Poison kind) {
  if (!bytes_) return;
  if (kind == Poison::ones) {
    std::memset(data_, 0xff, static_cast<size_t>(bytes_));
    return;
  }
  uint64_t state = 0x1234567;
  for (int64_t i = 0; i < bytes_; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    data_[i] = static_cast<std::byte>(state >> 56);
  }
}

std::string GuardedBuffer::damage() const {
  if (!bytes_) return "";
  const auto count = [](const std::byte* from, const std::byte* to) {
    int64_t n = 0;
    for (const std::byte* p = from; p < to; ++p) n += *p != canary(p);
    return n;
  };
  const std::byte* last = data_ + bytes_;
  if (const int64_t n = count(last, end_)) {
    const std::byte* p = last;
    while (*p == canary(p)) ++p;
    return std::to_string(n) + (n == 1 ? " byte" : " bytes") + " written " +
           std::to_string(p - last) + " bytes past its end";
  }
  if (const int64_t n = count(begin_, data_)) {
    const std::byte* p = data_ - 1;
    while (*p == canary(p)) --p;
    return std::to_string(n) + (n == 1 ? " byte" : " bytes") + " written " +
           std::to_string(data_ - p) + " bytes before its start";
  }
  return "";
}

void* GuardDevice::allocate(int64_t bytes, const std::string& purpose) {
  auto memory = std::make_unique<GuardedBuffer>(bytes, shift_++);
  memory->poison(Poison::ones);
  void* data = memory->data();
  live_[data] = {std::move(memory), purpose};
  return data;
}

void GuardDevice::release(void* memory) {
  const auto it = live_.find(memory);
  if (it == live_.end()) return;
  damage_ = damage();
  live_.erase(it);
}

void GuardDevice::upload(void* device, const void* host, int64_t bytes) {
  if (bytes) std::memcpy(device, host, static_cast<size_t>(bytes));
}
void GuardDevice::download(void* host, const void* device, int64_t bytes) {
  if (bytes) std::memcpy(host, device, static_cast<size_t>(bytes));
}
void GuardDevice::fill_zero(void* device, int64_t bytes) {
  if (bytes) std::memset(device, 0, static_cast<size_t>(bytes));
}

std::string GuardDevice::damage() const {
  if (!damage_.empty()) return damage_;
  for (const auto& [data, allocation] : live_) {
    if (const std::string found = allocation.memory->damage(); !found.empty())
      return allocation.purpose + ": " + found;
  }
  return "";
}

std::string GuardDevice::hash_of(const std::string& word) const {
  std::string all;
  for (const auto& [data, allocation] : live_) {
    if (allocation.purpose.find(word) == std::string::npos) continue;
    all += hash_bytes(std::span<const std::byte>(allocation.memory->data(),
                                                 static_cast<size_t>(allocation.memory->bytes())));
  }
  return all;
}

}  // namespace fk
