// SPDX-License-Identifier: Apache-2.0
// Attacks of another machine, or of a plugin's process on this machine, on a mirror. If this fails,
// the attacker writes to foreign memory, or a mirror passes on bytes behind a stage.
#include <poll.h>

#include <algorithm>
#include <cstring>

#include "test/catch.hpp"
#include "test/unit/comm/machines.hpp"

namespace {

using namespace fk;
using namespace fk::test;

// As it goes over the wire.
struct Words {
  uint32_t magic = 0x314d4b46, kind = 1, rank = 1, bytes = 0;
  uint64_t number = 1;
  CommCall call = CommCall::of("barrier", 0, 0);
};

// A mirror of rank 0, whose peer, with rank 1 of three, is the test.
struct Wire {
  SharedMemory block = SharedMemory::anonymous(shared_comm_bytes(3, 0));
  std::array<int, 2> pair = stream_pair();
  MeetingBoard& board = meeting_board(block);
  std::unique_ptr<BlockMirror> mirror;

  // `before`: what the board says when the mirror looks at it for the first time.
  explicit Wire(const std::function<void(MeetingBoard&)>& before = {}) {
    if (before) before(board);
    mirror =
        std::make_unique<BlockMirror>(block, 3, std::vector<BlockMirror::Peer>{{pair[0], {1}}});
  }
  Wire(const Wire&) = delete;
  ~Wire() { ::close(pair[1]); }
  void send(const void* data, size_t bytes) const {
    REQUIRE(::send(pair[1], data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes));
  }
  void send(const Words& words) const { send(&words, sizeof words); }
  // True if the mirror's next message comes within ten seconds and has this number of bytes.
  bool takes(void* to, size_t bytes) const {
    pollfd ready{pair[1], POLLIN, 0};
    return ::poll(&ready, 1, 10'000) == 1 &&
           ::recv(pair[1], to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }
  template <class Condition>
  static bool soon(const Condition& condition) {
    for (const double end = seconds_now() + 10; seconds_now() < end; ::usleep(200))
      if (condition()) return true;
    return false;
  }
  bool over() const {
    return soon([&] { return board.over == 1; });
  }
  // How often `value` stands in the block outside of what belongs to rank 1.
  int64_t elsewhere(std::byte value) const {
    const auto* from = static_cast<const std::byte*>(block.data());
    int64_t count = 0;
    for (const int rank : {0, 2})
      for (const uint64_t half : {0, 1})
        count += std::count(meeting_stage(block, 3, rank, half),
                            meeting_stage(block, 3, rank, half) + kStageBytes, value);
    const auto* seats = reinterpret_cast<const std::byte*>(board.seats.data());
    const size_t seat = sizeof(MeetingBoard::Seat);
    count += std::count(seats, seats + seat, value);
    count += std::count(seats + 2 * seat, seats + kRanksMax * seat, value);
    count += std::count(from, reinterpret_cast<const std::byte*>(&board.text), value);
    return count;
  }
};

constexpr auto kMark = std::byte{0xa7};

}  // namespace

TEST_CASE("what a peer says of its ranks is believed when it is whole") {
  Wire wire;
  Words words;
  words.bytes = 100;
  words.call.staged = int64_t{1} << 40;  // whatever it says here
  const std::vector<std::byte> stage(100, kMark);
  wire.send(words);
  wire.send(stage.data(), 99);
  ::usleep(20'000);
  CHECK(wire.board.seats[1].arrived == 0);
  wire.send(stage.data(), 1);
  REQUIRE(Wire::soon([&] { return wire.board.seats[1].arrived == 1; }));
  CHECK(wire.board.seats[1].calls[1].staged == 100);
  CHECK(wire.board.seats[1].calls[1].same(CommCall::of("barrier", 0, 0)));
  CHECK(std::memcmp(meeting_stage(wire.block, 3, 1, 1), stage.data(), 100) == 0);
  Words settled;
  settled.kind = 2;
  wire.send(settled);
  CHECK(Wire::soon([&] { return wire.board.seats[1].settled == 1; }));
  CHECK(wire.board.failed == 0);
  wire.mirror.reset();
  CHECK(wire.elsewhere(kMark) == 0);
}

TEST_CASE("what makes no sense ends the meeting and is written nowhere") {
  struct Bad {
    const char* what;
    void (*make)(Words&);
  };
  const Bad all[] = {
      {"not a message between ranks", [](Words& w) { w.magic = 0x20544547; }},
      {"no known kind", [](Words& w) { w.kind = 4; }},
      {"no known kind", [](Words& w) { w.kind = 0; }},
      {"an unknown rank", [](Words& w) { w.rank = 0; }},
      {"an unknown rank", [](Words& w) { w.rank = 2; }},
      {"an unknown rank", [](Words& w) { w.rank = 3; }},
      {"an unknown rank", [](Words& w) { w.rank = 64; }},
      {"an unknown rank", [](Words& w) { w.rank = 0xffffffff; }},
      {"an unknown rank", [](Words& w) { w.kind = 2, w.rank = 0; }},
      {"more than a stage", [](Words& w) { w.bytes = kStageBytes + 1; }},
      {"more than a stage", [](Words& w) { w.bytes = 0xffffffff; }},
      {"out of order", [](Words& w) { w.number = 0; }},
      {"out of order", [](Words& w) { w.number = 2; }},
      {"out of order", [](Words& w) { w.number = (uint64_t{1} << 32) + 2; }},
      {"out of order", [](Words& w) { w.kind = 2, w.number = 0; }},
      {"out of order", [](Words& w) { w.kind = 2, w.number = 2; }},
      {"out of order", [](Words& w) { w.kind = 2, w.bytes = 8; }},
      {"of no sense", [](Words& w) { w.kind = 3, w.bytes = 512; }},
      {"of no sense", [](Words& w) { w.kind = 3, w.number = 2; }},
  };
  const std::vector<std::byte> marks(2048, kMark);
  for (const Bad& bad : all) {
    Wire wire;
    Words words;
    bad.make(words);
    INFO(bad.what << ", kind " << words.kind << ", rank " << words.rank << ", " << words.bytes
                  << " bytes, number " << words.number);
    wire.send(words);
    // The mirror may have closed the socket by now.
    (void)::send(wire.pair[1], marks.data(), marks.size(), MSG_NOSIGNAL);
    REQUIRE(wire.over());
    CHECK_THAT(meeting_failure(wire.board),
               ContainsSubstring("rank 1: their machine sent ") && ContainsSubstring(bad.what));
    wire.mirror.reset();
    CHECK(wire.elsewhere(kMark) == 0);
    CHECK(wire.board.seats[1].arrived == 0);
    CHECK(wire.board.seats[1].settled == 0);
  }
}

TEST_CASE("a connection that ends within a message is one that ends") {
  for (const size_t cut : {size_t{1}, sizeof(Words), sizeof(Words) + 50}) {
    Wire wire;
    Words words;
    words.bytes = 100;
    std::vector<std::byte> all(sizeof words + 100, kMark);
    std::memcpy(all.data(), &words, sizeof words);
    wire.send(all.data(), cut);
    ::shutdown(wire.pair[1], SHUT_RDWR);
    REQUIRE(wire.over());
    CHECK(meeting_failure(wire.board) == "rank 1 ended: the connection to its machine closed");
    CHECK(wire.board.seats[1].arrived == 0);
  }
}

TEST_CASE("a failure is passed on to a peer, and not back to the one that brought it") {
  Words back;
  for (const uint64_t over : {0, 1}) {
    Wire wire;
    Words words;
    words.kind = 3;
    words.number = over;
    words.bytes = 5;
    wire.send(words);
    wire.send("tired", 5);
    REQUIRE(Wire::soon([&] { return wire.board.failed == 2 && wire.board.over == over; }));
    CHECK(meeting_failure(wire.board) == "tired");
    wire.board.seats[0].settled = 1;
    wake_all(wire.board);
    REQUIRE(wire.takes(&back, sizeof back));
    CHECK(back.kind == 2);  // and nothing before it
  }
  // A rank that has failed and settles: others take a failure back when all have settled.
  const Wire wire([](MeetingBoard& board) {
    fail_meeting(board, "a reason");
    board.seats[0].settled = 1;
  });
  REQUIRE(wire.takes(&back, sizeof back));
  CHECK(back.kind == 3);
  CHECK(back.number == 0);
  REQUIRE(back.bytes == 8);
  std::array<char, 8> why{};
  REQUIRE(wire.takes(why.data(), why.size()));
  CHECK(std::string(why.data(), why.size()) == "a reason");
  REQUIRE(wire.takes(&back, sizeof back));
  CHECK(back.kind == 2);
}

TEST_CASE("what a plugin writes to the board is not passed on when no rank can have said it") {
  using Write = void (*)(MeetingBoard::Seat&);
  const Write all[] = {
      [](MeetingBoard::Seat& s) { s.calls[1].staged = kStageBytes + 1, s.arrived = 1; },
      [](MeetingBoard::Seat& s) { s.calls[1].staged = int64_t{1} << 40, s.arrived = 1; },
      [](MeetingBoard::Seat& s) { s.calls[1].staged = -1, s.arrived = 1; },
      [](MeetingBoard::Seat& s) { s.arrived = 3; },
      [](MeetingBoard::Seat& s) { s.arrived = ~uint64_t{0}; },
      [](MeetingBoard::Seat& s) { s.settled = 3; },
      [](MeetingBoard::Seat& s) { s.settled = ~uint64_t{0}; },
  };
  int number = 0;
  for (const Write& write : all) {
    INFO("write " << number++);
    Wire wire;
    write(wire.board.seats[2]);
    wake_all(wire.board);
    Words back;
    REQUIRE(wire.takes(&back, sizeof back));
    CHECK(back.kind == 3);
    CHECK(back.number == 1);
    REQUIRE(back.bytes < 512);
    std::string why(back.bytes, 0);
    REQUIRE(wire.takes(why.data(), why.size()));
    CHECK(why == "what rank 2 says at the meeting was overwritten");
  }
}

TEST_CASE("a machine that takes nothing any more holds nobody up for ever") {
  Wire wire;
  MeetingBoard::Seat& seat = wire.board.seats[0];
  seat.calls[1].staged = seat.calls[0].staged = kStageBytes;
  seat.arrived = 2;  // more than the socket holds
  wake_all(wire.board);
  ::usleep(50'000);
  const double start = seconds_now();
  wire.mirror.reset();
  CHECK(seconds_now() - start < 5);
}
