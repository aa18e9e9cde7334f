// SPDX-License-Identifier: Apache-2.0
// A byte stream through shared memory, with one producer and one consumer in different processes.
// Positions only grow. Each side keeps its own position in private memory, and accepts the other's
// only within the capacity. A hostile peer can send nonsense but never cause an access outside the
// ring. A side sleeps on an eventfd; a flag saves the system call while no side sleeps.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fk {

// In shared memory, initially zero.
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
  // Writes as many bytes as fit now, and returns their number. Wakes the reader.
  size_t write_some(const void* bytes, size_t count);
  // Call it before a sleep on events.space, so that the reader wakes this side. False: there is
  // room after all.
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
  // Number of readable bytes. Throws Error when the peer's position is impossible.
  size_t available() const;
  // Copies at most `count` bytes, and returns their number. Wakes the writer.
  size_t read_some(void* bytes, size_t count);
  // Call it before a sleep on events.data, so that the writer wakes this side. False: there is data
  // after all.
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
