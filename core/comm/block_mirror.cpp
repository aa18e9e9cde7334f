// SPDX-License-Identifier: Apache-2.0
// Keeps the blocks of two machines equal over a socket (block_mirror.hpp). A Link serves one socket
// with two threads. The watching thread reads the meeting's board, as ranks do, and sends the state
// of all seats that are not reached over this socket. The reading thread writes received state into
// its own board. The state of a seat is its arrivals, each with the call and the stage of that
// meeting, and its numbers in settle(). The link also sends the failure and the end of the meeting.
// Each kind of message is sent completely and in order.
//
// Why this is right:
//
// A meeting. A rank writes its call and its stage before its arrival. It comes to meeting n + 2
// only after all ranks came to n + 1. They therefore saw its arrival at n, so that arrival had been
// sent. So at most two arrivals wait to be sent, and both halves of the stage still hold their
// content. Received data do not overwrite data that a local rank still reads.
//
// A failure is sent once to each peer, and never back to its sender. After it no meeting completes,
// and all ranks settle:
// 1. Every rank says an odd number. It saw or caused the failure before. A pass of the watching
// thread reads the numbers first, then the failure, and sends the failure first. So a failure of a
// local rank reaches the other machines before that rank's number.
// 2. When rank 0 has all odd numbers, it takes the failure back and says an even number. This
// number orders the other machines to take back theirs. All ranks have said the odd number, so none
// is in a meeting. By 1 no earlier failure can still arrive. (It could if failures were sent back:
// their sender may have settled before.) A failure that stands after an even number of rank 0 is
// sent again.
// 3. All ranks wait for all even numbers, so no meeting begins before the failure is taken back
// everywhere.
// Meetings then get new numbers, above all earlier ones. This needs no message: an old number is
// below every new one, so its rank counts as absent. The next arrival sent is the first of the new
// numbers. No rank waits for older unsent arrivals, since all have settled.
#include "core/comm/block_mirror.hpp"

#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>

#include "core/base/error.hpp"
#include "core/comm/meeting.hpp"
#include "core/comm/shared_comm.hpp"

namespace fk {

namespace {

constexpr int kMirrorSpins = 200;    // looks at the board before the watching thread sleeps
constexpr double kMirrorNap = 0.05;  // seconds

enum FrameKind : uint32_t { kArrived = 1, kSettled = 2, kFailed = 3 };
constexpr uint32_t kFrameMagic = 0x314d4b46;  // "FKM1"

// The header of a message. After it come `bytes` bytes: the stage of an arrival, or the reason of a
// failure.
struct MirrorFrame {
  uint32_t magic = kFrameMagic;
  uint32_t kind = 0;
  uint32_t rank = 0;
  uint32_t bytes = 0;
  uint64_t number = 0;  // of the meeting or settle(); of a failure 1: the meeting is over
  CommCall call;
};
static_assert(std::is_trivially_copyable_v<MirrorFrame> &&
              sizeof(MirrorFrame) == 24 + sizeof(CommCall));

using SeatNumbers = std::array<uint64_t, kRanksMax>;  // by rank

// The upper half of a meeting's number counts calls of settle(); the lower half begins anew.
uint64_t epoch_of(uint64_t number) { return number >> 32; }
// True if `number` is the next one, or the first one after a later settle().
bool follows(uint64_t number, uint64_t last) {
  if (epoch_of(number) == epoch_of(last)) return number == last + 1;
  return number > last && (number & 0xffffffff) == 1;
}

std::string name_of_ranks(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i)
    out += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  return out;
}

}  // namespace

class BlockMirror::Link {
 public:
  Link(const SharedMemory& block, int size, Peer peer)
      : block_(block),
        board_(meeting_board(block)),
        size_(static_cast<size_t>(size)),
        fd_(peer.fd),
        name_(name_of_ranks(peer.ranks)) {
    for (const int rank : peer.ranks) there_.at(static_cast<size_t>(rank)) = true;
  }
  Link(const Link&) = delete;
  ~Link() {
    ending_ = true;
    ::shutdown(fd_, SHUT_RDWR);
    wake_all(board_);
    if (watcher_.joinable()) watcher_.join();
    if (reader_.joinable()) reader_.join();
    ::close(fd_);
  }
  void start() {
    reader_ = std::thread([this] { read(); });
    watcher_ = std::thread([this] { watch(); });
  }

 private:
  void end(const std::string& why) {
    if (!ending_) end_meeting(board_, why);
  }
  void lost() {
    // "ranks 1, 2" or "rank 1"
    end(name_ + (name_[4] == 's' ? " ended: the connection to their machine closed"
                                 : " ended: the connection to its machine closed"));
  }

  // ---- sent state ----

  void watch();
  void pass();
  void say_arrivals(size_t rank);
  void say_settled(size_t rank, uint64_t number);
  void say_failure(bool over);
  bool send(const MirrorFrame& frame, const void* payload);
  // A plugin's process maps the board too. State that no rank writes is not passed on.
  void refuse(size_t rank) {
    overwritten_.at(rank) = true;
    end("what rank " + std::to_string(rank) + " says at the meeting was overwritten");
  }

  // ---- received state ----

  void read();
  const char* accept(const MirrorFrame& frame);
  const char* accept_arrival(const MirrorFrame& frame);
  const char* accept_settled(const MirrorFrame& frame);
  const char* accept_failure(const MirrorFrame& frame);
  bool receive(void* to, size_t bytes);

  const SharedMemory& block_;
  MeetingBoard& board_;
  const size_t size_;
  const int fd_;
  const std::string name_;
  std::array<bool, kRanksMax> there_{};  // by rank: the peer has it
  std::atomic<bool> ending_ = false;
  std::mutex mutex_;            // guards the next two
  bool knows_failure_ = false;  // the peer has sent or received the failure
  bool knows_end_ = false;

  // Used by the watching thread only.
  bool said_ = false, broken_ = false;  // this pass has sent something; the socket has failed
  std::array<bool, kRanksMax> overwritten_{};
  SeatNumbers told_{}, told_settled_{};  // numbers sent so far, of meetings and of settle()
  // Used by the reading thread only.
  SeatNumbers heard_{}, heard_settled_{};  // numbers received so far

  std::thread reader_, watcher_;
};

void BlockMirror::Link::watch() {
  for (int idle = 0; !ending_ && !broken_;) {
    const uint32_t seen = board_.pulse.load(std::memory_order_seq_cst);
    said_ = false;
    pass();
    if (said_) {
      idle = 0;
    } else if (++idle < kMirrorSpins) {
      if (idle % 16 == 15) ::sched_yield();
    } else {
      nap_at(board_, seen, kMirrorNap);
    }
  }
  if (broken_) lost();
}

void BlockMirror::Link::pass() {
  SeatNumbers settled{};
  for (size_t r = 0; r < size_; ++r)
    settled[r] = board_.seats[r].settled.load(std::memory_order_seq_cst);
  bool failed = false, over = false;
  {
    const std::lock_guard lock(mutex_);
    over = !knows_end_ && board_.over.load(std::memory_order_seq_cst) != 0;
    failed = !knows_failure_ && board_.failed.load(std::memory_order_seq_cst) == 2;
    knows_end_ = knows_end_ || over;
    knows_failure_ = knows_failure_ || failed;
  }
  for (size_t r = 0; r < size_; ++r)
    if (!there_[r]) say_arrivals(r);
  if (failed || over) say_failure(over);
  for (size_t r = 0; r < size_; ++r) {
    if (there_[r] || overwritten_[r]) continue;
    // At most two numbers can be unsent (see above).
    if (settled[r] - told_settled_[r] > 2) refuse(r);
    while (!overwritten_[r] && told_settled_[r] != settled[r]) say_settled(r, ++told_settled_[r]);
  }
}

void BlockMirror::Link::say_arrivals(size_t rank) {
  MeetingBoard::Seat& seat = board_.seats[rank];
  const uint64_t last = seat.arrived.load(std::memory_order_seq_cst);
  uint64_t& told = told_[rank];
  if (overwritten_[rank] || last == told) return;
  if (epoch_of(last) > epoch_of(told)) told = epoch_of(last) << 32;
  if (last - told > 2) return refuse(rank);
  while (told != last) {
    MirrorFrame frame;
    frame.kind = kArrived;
    frame.rank = static_cast<uint32_t>(rank);
    frame.number = told + 1;
    frame.call = seat.calls[frame.number % 2];
    if (frame.call.staged < 0 || frame.call.staged > static_cast<int64_t>(kStageBytes))
      return refuse(rank);
    frame.bytes = static_cast<uint32_t>(frame.call.staged);
    if (!send(frame,
              meeting_stage(block_, static_cast<int>(size_), static_cast<int>(rank), frame.number)))
      return;
    ++told;
  }
}

void BlockMirror::Link::say_settled(size_t rank, uint64_t number) {
  MirrorFrame frame;
  frame.kind = kSettled;
  frame.rank = static_cast<uint32_t>(rank);
  frame.number = number;
  if (rank == 0 && number % 2 == 0) {
    const std::lock_guard lock(mutex_);
    knows_failure_ = false;
  }
  send(frame, nullptr);
}

void BlockMirror::Link::say_failure(bool over) {
  std::string why = meeting_failure(board_);
  why.resize(std::min(why.size(), board_.text.size() - 1));
  MirrorFrame frame;
  frame.kind = kFailed;
  frame.number = over ? 1 : 0;
  frame.bytes = static_cast<uint32_t>(why.size());
  send(frame, why.data());
}

bool BlockMirror::Link::send(const MirrorFrame& frame, const void* payload) {
  std::array<iovec, 2> parts = {iovec{const_cast<MirrorFrame*>(&frame), sizeof frame},
                                iovec{const_cast<void*>(payload), frame.bytes}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  said_ = true;
  while (!broken_ && parts[0].iov_len + parts[1].iov_len > 0) {
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) broken_ = true;
    auto left = static_cast<size_t>(std::max<ssize_t>(sent, 0));
    for (iovec& part : parts) {
      const size_t here = std::min(left, part.iov_len);
      part.iov_base = static_cast<std::byte*>(part.iov_base) + here;
      part.iov_len -= here;
      left -= here;
    }
  }
  return !broken_;
}

void BlockMirror::Link::read() {
  MirrorFrame frame;
  while (receive(&frame, sizeof frame)) {
    const char* wrong = accept(frame);
    if (!wrong) continue;
    end(name_ + ": their machine sent " + wrong);
    ::shutdown(fd_, SHUT_RDWR);
    return;
  }
  lost();
}

// The fault of a message, or null. The next receive() finds a connection that ends within one.
const char* BlockMirror::Link::accept(const MirrorFrame& frame) {
  if (frame.magic != kFrameMagic) return "not a message between ranks";
  if (frame.kind == kFailed) return accept_failure(frame);
  if (frame.rank >= size_ || !there_.at(frame.rank)) return "a message from an unknown rank";
  if (frame.kind == kArrived) return accept_arrival(frame);
  if (frame.kind == kSettled) return accept_settled(frame);
  return "a message of no known kind";
}

const char* BlockMirror::Link::accept_arrival(const MirrorFrame& frame) {
  const size_t rank = frame.rank;
  if (!follows(frame.number, heard_[rank])) return "a meeting out of order";
  if (frame.bytes > kStageBytes) return "more than a stage holds";
  if (!receive(meeting_stage(block_, static_cast<int>(size_), static_cast<int>(rank), frame.number),
               frame.bytes))
    return nullptr;
  heard_[rank] = frame.number;
  MeetingBoard::Seat& seat = board_.seats[rank];
  CommCall& call = seat.calls[frame.number % 2];
  call = frame.call;
  call.staged = frame.bytes;  // for a mirror that passes it on
  seat.arrived.store(frame.number, std::memory_order_seq_cst);
  wake_all(board_);
  return nullptr;
}

const char* BlockMirror::Link::accept_settled(const MirrorFrame& frame) {
  const size_t rank = frame.rank;
  if (frame.number != heard_settled_[rank] + 1 || frame.bytes != 0) return "a number out of order";
  heard_settled_[rank] = frame.number;
  if (rank == 0 && frame.number % 2 == 0) {
    const std::lock_guard lock(mutex_);
    if (board_.over.load(std::memory_order_seq_cst) == 0) take_back_failure(board_);
    knows_failure_ = false;
  }
  board_.seats[rank].settled.store(frame.number, std::memory_order_seq_cst);
  wake_all(board_);
  return nullptr;
}

const char* BlockMirror::Link::accept_failure(const MirrorFrame& frame) {
  std::array<char, sizeof(MeetingBoard::text)> why{};
  if (frame.bytes >= why.size() || frame.number > 1) return "a failure of no sense";
  if (!receive(why.data(), frame.bytes)) return nullptr;
  const std::lock_guard lock(mutex_);
  knows_failure_ = true;
  if (frame.number == 1) {
    knows_end_ = true;
    end_meeting(board_, why.data());
  } else {
    fail_meeting(board_, why.data());
  }
  return nullptr;
}

bool BlockMirror::Link::receive(void* to, size_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const ssize_t got = ::recv(fd_, at, bytes, MSG_WAITALL);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    const auto here = static_cast<size_t>(std::max<ssize_t>(got, 0));
    at += here;
    bytes -= here;
  }
  return true;
}

BlockMirror::BlockMirror(const SharedMemory& block, int size, std::vector<Peer> peers) {
  try {
    FK_CHECK(size <= kRanksMax && block.bytes() >= shared_comm_bytes(size, 0),
             "a block for all ranks");
    std::vector<bool> seen(static_cast<size_t>(size), false);
    for (const Peer& peer : peers) {
      for (const int rank : peer.ranks) {
        FK_CHECK(rank >= 0 && rank < size && !seen[static_cast<size_t>(rank)],
                 "a rank is on one machine");
        seen[static_cast<size_t>(rank)] = true;
      }
    }
    meeting_board(block).apart.store(1, std::memory_order_release);
    for (Peer& peer : peers) {
      links_.push_back(std::make_unique<Link>(block, size, peer));
      peer.fd = -1;
      links_.back()->start();
    }
  } catch (...) {
    for (const Peer& peer : peers)
      if (peer.fd >= 0) ::close(peer.fd);
    throw;
  }
}

BlockMirror::~BlockMirror() = default;

}  // namespace fk
