// SPDX-License-Identifier: Apache-2.0
// Each meeting has a number. A rank writes its call and then the number into its seat, and waits
// until all seats have the number. A waiting rank looks at the board many times, then sleeps on a
// futex.
#include "core/comm/meeting.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"
#include "core/tensor/dtype.hpp"

namespace fk {

namespace {

// Looks at the board before a rank sleeps. If every rank has its own cores, about half a
// millisecond: a step on a GPU takes little longer than a few wake-ups.
constexpr int kSpins = 200, kSpinsAlone = 20000;
constexpr double kNapMax = 0.05;  // seconds: the largest cost of a missed wake-up

uint32_t* word_of(std::atomic<uint32_t>& word) {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  return reinterpret_cast<uint32_t*>(&word);
}

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

void wake_all(MeetingBoard& board) {
  board.pulse.fetch_add(1, std::memory_order_seq_cst);
  if (board.sleepers.load(std::memory_order_seq_cst) != 0)
    ::syscall(SYS_futex, word_of(board.pulse), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void nap_at(MeetingBoard& board, uint32_t seen, double seconds) {
  const timespec time{0, static_cast<long>(std::clamp(seconds, 1e-4, kNapMax) * 1e9)};
  board.sleepers.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, word_of(board.pulse), FUTEX_WAIT, seen, &time, nullptr, 0);
  board.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

CommCall CommCall::of(const char* op, uint32_t dtype, int64_t count, uint32_t detail) {
  CommCall call;
  std::strncpy(call.op.data(), op, call.op.size() - 1);
  call.dtype = dtype;
  call.count = count;
  call.detail = detail;
  return call;
}

bool CommCall::same(const CommCall& o) const {
  return std::strncmp(op.data(), o.op.data(), op.size()) == 0 && dtype == o.dtype &&
         detail == o.detail && count == o.count;
}

std::string CommCall::text() const {
  std::string out = bounded(op.data(), op.size());
  if (dtype == 0) return count == 0 ? out : out + " of " + std::to_string(count) + " bytes";
  std::string type = "unknown elements";
  try {
    const DLPackType known{static_cast<uint8_t>(dtype & 0xff), static_cast<uint8_t>(dtype >> 8)};
    type = name(from_dlpack(known));
  } catch (const Error&) {  // another rank's text may be anything; it is shown as it is
  }
  static constexpr const char* kKinds[] = {"", " (max)", " (min)"};  // by FK_SUM, FK_MAX, FK_MIN
  return out + " of " + std::to_string(count) + " " + type + (detail < 3 ? kKinds[detail] : "");
}

void fail_meeting(MeetingBoard& board, const std::string& why) {
  uint32_t none = 0;
  if (!board.failed.compare_exchange_strong(none, 1)) return;
  const size_t length = std::min(why.size(), board.text.size() - 1);
  std::memcpy(board.text.data(), why.data(), length);
  board.text[length] = 0;
  board.failed.store(2, std::memory_order_seq_cst);
  wake_all(board);
}

void end_meeting(MeetingBoard& board, const std::string& why) {
  fail_meeting(board, why);
  board.over.store(1, std::memory_order_seq_cst);
  fail_meeting(board, why);  // a rank may have taken it back before it saw the end
  wake_all(board);
}

void take_back_failure(MeetingBoard& board) {
  board.failed.store(0, std::memory_order_seq_cst);
  if (board.over.load(std::memory_order_seq_cst) != 0) fail_meeting(board, "a rank is gone");
}

std::string meeting_failure(const MeetingBoard& board) {
  if (board.failed.load(std::memory_order_acquire) == 0) return "";
  // The writer of the text may die while writing.
  const double end = now_seconds() + 1;
  while (board.failed.load(std::memory_order_acquire) == 1 && now_seconds() < end) ::sched_yield();
  const std::string text = bounded(board.text.data(), board.text.size());
  return text.empty() ? "the ranks have failed" : text;
}

Meeting::Meeting(MeetingBoard& board, int rank, int size, double patience_s)
    : board_(board), rank_(rank), size_(size), patience_s_(patience_s) {
  if (size < 1 || size > kRanksMax || rank < 0 || rank >= size)
    fail("ranks", rank_text(rank) + " of " + std::to_string(size) + " cannot be",
         "there are at most " + std::to_string(kRanksMax));
}

void Meeting::fail_with(const std::string& why) {
  fail_meeting(board_, why);
  fail("ranks", meeting_failure(board_));
}

void Meeting::give_up(const std::string& why) {
  fail_meeting(board_, rank_text(rank_) + " gave up: " + why);
}

void Meeting::arrive(std::atomic<uint64_t>& at, uint64_t number) {
  at.store(number, std::memory_order_seq_cst);
  wake_all(board_);
}

int Meeting::wait_for(std::atomic<uint64_t> MeetingBoard::Seat::*counter, uint64_t number,
                      double patience_s, bool despite_failure) {
  static const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const int spins = cores >= 4 * size_ ? kSpinsAlone : kSpins;
  const double end = now_seconds() + patience_s;
  for (int turn = 0, at = 0;; ++turn) {
    const uint32_t seen = board_.pulse.load(std::memory_order_seq_cst);
    while (at < size_ &&
           (board_.seats[static_cast<size_t>(at)].*counter).load(std::memory_order_seq_cst) >=
               number)
      ++at;
    if (at == size_) return -1;
    // settle() waits despite a failure, but not for ranks that have ended.
    if (despite_failure ? board_.over.load(std::memory_order_seq_cst) != 0
                        : board_.failed.load(std::memory_order_seq_cst) != 0)
      fail("ranks", meeting_failure(board_));
    if (turn < spins) {
      if (turn % 16 == 15) ::sched_yield();
      continue;
    }
    const double left = end - now_seconds();
    if (left <= 0) return at;
    nap_at(board_, seen, left);
  }
}

void Meeting::need_agreement(const CommCall& mine) {
  for (int r = 0; r < size_; ++r) {
    const CommCall& theirs = board_.seats[static_cast<size_t>(r)].calls[number_ % 2];
    if (theirs.same(mine)) continue;
    // All ranks get the same sentence, about the first rank that differs from rank 0.
    int odd = 1;
    const CommCall& first = board_.seats[0].calls[number_ % 2];
    while (odd < size_ && board_.seats[static_cast<size_t>(odd)].calls[number_ % 2].same(first))
      ++odd;
    odd = std::min(odd, size_ - 1);
    fail_with(rank_text(odd) + " called " +
              board_.seats[static_cast<size_t>(odd)].calls[number_ % 2].text() +
              " where rank 0 called " + first.text());
  }
}

void Meeting::meet(const CommCall& call, double patience_s) {
  if (board_.failed.load(std::memory_order_acquire) != 0) fail("ranks", meeting_failure(board_));
  ++number_;
  MeetingBoard::Seat& seat = board_.seats[static_cast<size_t>(rank_)];
  seat.calls[number_ % 2] = call;
  arrive(seat.arrived, number_);
  const int missing = wait_for(&MeetingBoard::Seat::arrived, number_, patience_s, false);
  if (missing >= 0)
    fail_with(rank_text(missing) + " " + kDidNotCome + call.text() + " within " +
              human_duration(patience_s));
  need_agreement(call);
}

uint64_t Meeting::first_says(const char* about, uint64_t value, double patience_s) {
  CommCall call = CommCall::of(about, 0, 0);
  call.value = value;
  meet(call, patience_s);
  return board_.seats[0].calls[number_ % 2].value;
}

uint64_t Meeting::largest(const char* about, uint64_t value) {
  CommCall call = CommCall::of(about, 0, 0);
  call.value = value;
  meet(call);
  for (int r = 0; r < size_; ++r)
    value = std::max(value, board_.seats[static_cast<size_t>(r)].calls[number_ % 2].value);
  return value;
}

double Meeting::slowest(const char* about, double seconds) {
  // Bits of non-negative numbers compare as the numbers do.
  return std::bit_cast<double>(largest(about, std::bit_cast<uint64_t>(std::max(seconds, 0.0))));
}

bool Meeting::all_say(const char* about, bool yes) { return largest(about, yes ? 0 : 1) == 0; }

void Meeting::settle_once() {
  ++settled_;
  arrive(board_.seats[static_cast<size_t>(rank_)].settled, settled_);
  const int missing = wait_for(&MeetingBoard::Seat::settled, settled_, patience_s_, true);
  if (missing >= 0)
    fail_with(rank_text(missing) + " did not finish within " + human_duration(patience_s_));
}

void Meeting::settle() {
  settle_once();
  // No rank is in meet() now. Ranks may have left it at different numbers. So all begin anew, above
  // every used number: settled_ is the upper half of the new numbers.
  number_ = settled_ << 32;
  board_.seats[static_cast<size_t>(rank_)].arrived.store(number_, std::memory_order_seq_cst);
  if (rank_ == 0 && board_.over.load(std::memory_order_seq_cst) == 0) take_back_failure(board_);
  settle_once();
}

}  // namespace fk
