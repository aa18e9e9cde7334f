// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a run meet: shared memory in which every rank says what it is about to do and
// waits until all have said the same. A rank that says something else, or does not come in time,
// fails the meeting for all, for good, with a sentence that names it.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/error.hpp"

namespace fk {

inline constexpr int kRanksMax = 64;

// What ranks must agree on before they exchange data.
struct CommCall {
  std::array<char, 32> op{};  // "all_reduce"; zero-terminated
  uint32_t dtype = 0;         // as FK_DTYPE; 0: none
  uint32_t detail = 0;        // the reduction, a width
  int64_t count = 0;          // elements, or bytes without a dtype
  uint64_t value = 0;         // not compared: what this rank wants to tell
  int64_t staged = 0;         // not compared: bytes that it has laid into its stage

  static CommCall of(const char* op, uint32_t dtype, int64_t count, uint32_t detail = 0);
  bool same(const CommCall& other) const;
  std::string text() const;  // "all_reduce of 512 f32"
};

// The head of the shared memory, zeroed at first.
struct MeetingBoard {
  struct Seat {
    // Meetings that this rank has come to. Its words for number n are in calls[n % 2]: nobody can
    // be two meetings ahead of somebody who still reads.
    alignas(64) std::atomic<uint64_t> arrived;
    std::atomic<uint64_t> settled;
    std::array<CommCall, 2> calls;
  };
  alignas(64) std::atomic<uint32_t> pulse;  // counts arrivals; sleepers wait for it to change
  std::atomic<uint32_t> sleepers;
  alignas(64) std::atomic<uint32_t> failed;  // 0: no, 1: the text is being written, 2: yes
  std::atomic<uint32_t> over;                // 1: a rank is gone, so that nobody will ever settle
  std::atomic<uint32_t> apart;               // 1: ranks of other machines have seats here too
  std::array<char, 512> text;
  std::array<Seat, kRanksMax> seats;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Fails the meeting: everybody who waits or comes later is told `why`. The first reason stays.
void fail_meeting(MeetingBoard& board, const std::string& why);
// The same for good, for the broker, which sees that a rank is gone: there is nobody to settle
// with.
void end_meeting(MeetingBoard& board, const std::string& why);
// After settle() nothing has failed, unless all is over.
void take_back_failure(MeetingBoard& board);
// Behind "rank 1 " in the reason when a rank is missed.
inline constexpr char kDidNotCome[] = "did not come to ";
// The reason, without control characters, or empty.
std::string meeting_failure(const MeetingBoard& board);
// For who watches the board: whoever sleeps at it looks again; and sleeps until the pulse is not
// `seen` any more, or for so long, 50 ms at most.
void wake_all(MeetingBoard& board);
void nap_at(MeetingBoard& board, uint32_t seen, double seconds);

// One rank's place at the board. One thread at a time.
class Meeting {
 public:
  static constexpr double kNoLimit = 1e9;
  // `board` outlives it. `patience_s`: how long the others may take to come.
  Meeting(MeetingBoard& board, int rank, int size, double patience_s);

  int rank() const { return rank_; }
  int size() const { return size_; }
  double patience() const { return patience_s_; }
  // Says what this rank does and waits for the others. What they wrote before they came is visible
  // afterwards. Error when the meeting has failed.
  void meet(const CommCall& call) { meet(call, patience_s_); }
  // How many times meet() has returned: even and odd ones may use different memory.
  uint64_t count() const { return number_; }
  // The first rank's `value`; the others give what they like. `patience_s` as in the constructor.
  uint64_t first_says(const char* about, uint64_t value, double patience_s);
  // The largest value of all ranks; of seconds that are not negative, the slowest rank's.
  uint64_t largest(const char* about, uint64_t value);
  double slowest(const char* about, double seconds);
  // Whether every rank says yes.
  bool all_say(const char* about, bool yes);
  // Everybody comes here whatever has failed before; then nothing has. Error when a rank does not
  // come: that stays. Between independent pieces of work, some of which may have failed.
  void settle();
  // Tells all ranks that this one gives up, so that they need not wait for it.
  void give_up(const std::string& why);
  std::string failure() const { return meeting_failure(board_); }

 private:
  void meet(const CommCall& call, double patience_s);
  void need_agreement(const CommCall& mine);
  void settle_once();
  void arrive(std::atomic<uint64_t>& at, uint64_t number);
  // The first rank whose counter is below `number` when the time is over, else -1.
  int wait_for(std::atomic<uint64_t> MeetingBoard::Seat::*counter, uint64_t number,
               double patience_s, bool despite_failure);
  [[noreturn]] void fail_with(const std::string& why);

  MeetingBoard& board_;
  int rank_, size_;
  double patience_s_;
  uint64_t number_ = 0, settled_ = 0;
};

}  // namespace fk
