// SPDX-License-Identifier: Apache-2.0
// The meeting of a run's ranks: shared memory in which every rank announces its next call and waits
// until all ranks have announced the same. A different call, or a rank that is late, fails the
// meeting for all ranks, with a sentence that names the rank.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/error.hpp"

namespace fk {

inline constexpr int kRanksMax = 64;

// The call on which ranks must agree before they exchange data.
struct CommCall {
  std::array<char, 32> op{};  // "all_reduce"; zero-terminated
  uint32_t dtype = 0;         // as FK_DTYPE; 0: none
  uint32_t detail = 0;        // the reduction, a width
  int64_t count = 0;          // elements, or bytes without a dtype
  uint64_t value = 0;         // not compared: a value for the other ranks
  int64_t staged = 0;         // not compared: bytes laid into its stage

  static CommCall of(const char* op, uint32_t dtype, int64_t count, uint32_t detail = 0);
  bool same(const CommCall& other) const;
  std::string text() const;  // "all_reduce of 512 f32"
};

// The head of the shared memory, initially zero.
struct MeetingBoard {
  struct Seat {
    // Number of meetings that this rank has come to. Its call in meeting n is in calls[n % 2]: no
    // rank can be two meetings ahead of a rank that still reads.
    alignas(64) std::atomic<uint64_t> arrived;
    std::atomic<uint64_t> settled;
    std::array<CommCall, 2> calls;
  };
  alignas(64) std::atomic<uint32_t> pulse;  // counts arrivals; sleepers wait for a change
  std::atomic<uint32_t> sleepers;
  alignas(64) std::atomic<uint32_t> failed;  // 0: no, 1: the text is being written, 2: yes
  std::atomic<uint32_t> over;                // 1: a rank has ended, so ranks can never settle
  std::atomic<uint32_t> apart;               // 1: ranks of other machines have seats too
  std::array<char, 512> text;
  std::array<Seat, kRanksMax> seats;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Fails the meeting: ranks that wait or come later get `why`. The first reason stays.
void fail_meeting(MeetingBoard& board, const std::string& why);
// Fails it for ever. For the controller when a rank has ended, because settling needs all ranks.
void end_meeting(MeetingBoard& board, const std::string& why);
// Clears the failure after settle(), unless the meeting is over.
void take_back_failure(MeetingBoard& board);
// Follows "rank 1 " in the reason when a rank is late.
inline constexpr char kDidNotCome[] = "did not come to ";
// The reason, without control characters, or empty.
std::string meeting_failure(const MeetingBoard& board);
// For observers of the board. wake_all() makes all sleepers look again. nap_at() sleeps until the
// pulse differs from `seen`, for `seconds`, at most 50 ms.
void wake_all(MeetingBoard& board);
void nap_at(MeetingBoard& board, uint32_t seen, double seconds);

// One rank's place at the board. One thread at a time.
class Meeting {
 public:
  static constexpr double kNoLimit = 1e9;
  // `board` outlives it. `patience_s`: seconds in which the other ranks must come.
  Meeting(MeetingBoard& board, int rank, int size, double patience_s);

  int rank() const { return rank_; }
  int size() const { return size_; }
  double patience() const { return patience_s_; }
  // Announces this rank's call and waits for the others. Writes of other ranks before their arrival
  // are visible afterwards. Error when the meeting has failed.
  void meet(const CommCall& call) { meet(call, patience_s_); }
  // Number of meetings that this rank has come to. Data of even and odd meetings are in different
  // memory.
  uint64_t count() const { return number_; }
  // Rank 0's `value`; other ranks pass any value. `patience_s` as in the constructor.
  uint64_t first_says(const char* about, uint64_t value, double patience_s);
  // largest(): the largest value of all ranks. slowest(): the same for non-negative seconds.
  uint64_t largest(const char* about, uint64_t value);
  double slowest(const char* about, double seconds);
  // True if every rank passes true.
  bool all_say(const char* about, bool yes);
  // All ranks come here, after any failure, and the failure is cleared. Error when a rank does not
  // come; this failure stays. Call it between independent pieces of work, some of which may have
  // failed.
  void settle();
  // Fails the meeting for all ranks, so that they do not wait for this one.
  void give_up(const std::string& why);
  std::string failure() const { return meeting_failure(board_); }

 private:
  void meet(const CommCall& call, double patience_s);
  void need_agreement(const CommCall& mine);
  void settle_once();
  void arrive(std::atomic<uint64_t>& at, uint64_t number);
  // The first rank whose counter is below `number` at the end of the time, else -1.
  int wait_for(std::atomic<uint64_t> MeetingBoard::Seat::*counter, uint64_t number,
               double patience_s, bool despite_failure);
  [[noreturn]] void fail_with(const std::string& why);

  MeetingBoard& board_;
  int rank_, size_;
  double patience_s_;
  uint64_t number_ = 0, settled_ = 0;
};

}  // namespace fk
