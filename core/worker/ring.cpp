// SPDX-License-Identifier: Apache-2.0
// Positions count all bytes ever written or read, so their lowest bits are the place in the ring. A
// side announces its sleep and then looks once more, so no wake-up is lost.
#include "core/worker/ring.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"

namespace fk {

namespace {

void wake(std::atomic<uint32_t>& sleeps, int fd) {
  if (sleeps.load(std::memory_order_seq_cst) == 0) return;
  sleeps.store(0, std::memory_order_seq_cst);
  const uint64_t one = 1;
  // A full counter means that the sleeper is already awake.
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
}

}  // namespace

RingWriter::RingWriter(RingControl& control, std::byte* data, uint64_t capacity, RingEvents events)
    : control_(control), data_(data), capacity_(capacity), events_(events) {
  FK_CHECK(capacity > 0 && (capacity & (capacity - 1)) == 0, "a ring's capacity is a power of two");
}

size_t RingWriter::write_some(const void* bytes, size_t count) {
  const uint64_t used = head_ - control_.tail.load(std::memory_order_acquire);
  if (used > capacity_)
    fail("worker", "the other process claims to have read what was not written");
  const auto now = static_cast<size_t>(std::min<uint64_t>(count, capacity_ - used));
  const uint64_t at = head_ & (capacity_ - 1);
  const auto first = static_cast<size_t>(std::min<uint64_t>(now, capacity_ - at));
  if (now == 0) return 0;
  std::memcpy(data_ + at, bytes, first);
  std::memcpy(data_, static_cast<const std::byte*>(bytes) + first, now - first);
  head_ += now;
  control_.head.store(head_, std::memory_order_seq_cst);
  wake(control_.reader_sleeps, events_.data);
  return now;
}

bool RingWriter::sleep() {
  control_.writer_sleeps.store(1, std::memory_order_seq_cst);
  if (head_ - control_.tail.load(std::memory_order_seq_cst) >= capacity_) return true;
  control_.writer_sleeps.store(0, std::memory_order_relaxed);
  return false;
}

RingReader::RingReader(RingControl& control, const std::byte* data, uint64_t capacity,
                       RingEvents events)
    : control_(control), data_(data), capacity_(capacity), events_(events) {
  FK_CHECK(capacity > 0 && (capacity & (capacity - 1)) == 0, "a ring's capacity is a power of two");
}

size_t RingReader::available() const {
  const uint64_t ready = control_.head.load(std::memory_order_acquire) - tail_;
  if (ready > capacity_)
    fail("worker", "the other process claims more data than the ring can hold");
  return static_cast<size_t>(ready);
}

size_t RingReader::read_some(void* bytes, size_t count) {
  const size_t now = std::min(count, available());
  if (now == 0) return 0;
  const uint64_t at = tail_ & (capacity_ - 1);
  const auto first = static_cast<size_t>(std::min<uint64_t>(now, capacity_ - at));
  std::memcpy(bytes, data_ + at, first);
  std::memcpy(static_cast<std::byte*>(bytes) + first, data_, now - first);
  tail_ += now;
  control_.tail.store(tail_, std::memory_order_seq_cst);
  wake(control_.writer_sleeps, events_.space);
  return now;
}

bool RingReader::sleep() {
  control_.reader_sleeps.store(1, std::memory_order_seq_cst);
  if (control_.head.load(std::memory_order_seq_cst) == tail_) return true;
  control_.reader_sleeps.store(0, std::memory_order_relaxed);
  return false;
}

void drain_event(int fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd, &count, sizeof count);
}

}  // namespace fk
