// SPDX-License-Identifier: Apache-2.0
// A stream of bytes through shared memory with one producer and one consumer in different
// processes. Positions only grow; each side keeps its own in private memory and believes the
// other's only within the capacity, so that a hostile peer can send nonsense but never move an
// access outside the ring. Sleeping is by eventfd, with a flag that saves the system call while
// nobody sleeps.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fk {

// Lives in the shared memory, zeroed at first.
struct RingControl {
  alignas(64) std::atomic<uint64_t> head;  // bytes ever produced
  alignas(64) std::atomic<uint64_t> tail;  // bytes ever consumed
  alignas(64) std::atomic<uint32_t> reader_sleeps;
  alignas(64) std::atomic<uint32_t> writer_sleeps;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// The two eventfds of a ring; not owned.
struct RingEvents {
  int data = -1;   // the consumer sleeps on it
  int space = -1;  // the producer sleeps on it
};

class RingWriter {
 public:
  // `capacity` is a power of two.
  RingWriter(RingControl& control, std::byte* data, uint64_t capacity, RingEvents events);
  // Writes as much as fits now; the number of bytes. Wakes the reader.
  size_t write_some(const void* bytes, size_t count);
  // Says that this side is about to sleep on events.space: false when there is room after all.
  bool sleep();

 private:
  RingControl& control_;
  std::byte* data_;
  uint64_t capacity_, head_ = 0;
  RingEvents events_;
};

class RingReader {
 public:
  RingReader(RingControl& control, const std::byte* data, uint64_t capacity, RingEvents events);
  // Bytes that can be read now. Throws Error when the peer's position is impossible.
  size_t available() const;
  // Copies out at most `count` bytes; the number of bytes. Wakes the writer.
  size_t read_some(void* bytes, size_t count);
  // Says that this side is about to sleep on events.data: false when there is something after all.
  bool sleep();

 private:
  RingControl& control_;
  const std::byte* data_;
  uint64_t capacity_, tail_ = 0;
  RingEvents events_;
};

// Empties an eventfd; never blocks.
void drain_event(int fd);

}  // namespace fk
