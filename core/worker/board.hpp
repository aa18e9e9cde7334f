// SPDX-License-Identifier: Apache-2.0
// The shared memory of one worker: a board, on which it writes its present work, and two rings
// (ring.hpp). The controller reads this work only after a crash or a hang, as a hint.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/worker/ring.hpp"

namespace fk {

inline constexpr int kPhasesMax = 8;
inline constexpr uint64_t kRequestRingBytes = uint64_t{1} << 20;
inline constexpr uint64_t kResultRingBytes = uint64_t{1} << 22;

struct Board {
  // By phase of the model: index of the node of the graph that runs now; -1: none runs.
  alignas(64) volatile int32_t nodes[kPhasesMax];
  char stage[256];  // "loading mine.so"; may be unterminated: read with a bound
  char crash[256];  // "SIGSEGV at 0x10 in mine.so+0x1139 (forward)", written by a signal handler
  uint64_t data_bytes;  // private memory at the crash, to tell a limit from a bug
  // The controller's sign for a waiting task: twice the task's number, plus 1 if the task is to go
  // on.
  alignas(64) std::atomic<uint64_t> sign;
  // Number of the task that has finished its work and will answer next.
  alignas(64) std::atomic<uint64_t> done;
  RingControl requests, results;
};

inline constexpr size_t kBoardBytes = (sizeof(Board) + 4095) / 4096 * 4096;
inline constexpr size_t kSharedBytes = kBoardBytes + kRequestRingBytes + kResultRingBytes;

inline std::byte* request_data(void* shared) {
  return static_cast<std::byte*>(shared) + kBoardBytes;
}
inline std::byte* result_data(void* shared) {
  return static_cast<std::byte*>(shared) + kBoardBytes + kRequestRingBytes;
}

inline constexpr int kControlFd = 3;  // the control socket in a worker

}  // namespace fk
