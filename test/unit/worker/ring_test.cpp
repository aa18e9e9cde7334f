// SPDX-License-Identifier: Apache-2.0
// The rings between processes: nothing is lost or reordered, and positions that a hostile peer
// makes up are refused before they move an access.
#include "core/worker/ring.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "core/base/error.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

constexpr uint64_t kCapacity = 256;

struct Ring {
  RingControl control{};
  std::vector<std::byte> data = std::vector<std::byte>(kCapacity);
  RingEvents events{eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK)};
  RingWriter writer{control, data.data(), kCapacity, events};
  RingReader reader{control, data.data(), kCapacity, events};
  ~Ring() { close(events.data), close(events.space); }
};

void sleep_on(int fd) {
  pollfd entry{fd, POLLIN, 0};
  poll(&entry, 1, 5000);
  drain_event(fd);
}

}  // namespace

TEST_CASE("ring_bytes_arrive_in_order_across_threads") {
  constexpr size_t kBytes = 1 << 20;
  Ring ring;
  std::thread producer([&] {
    Random random(1);
    size_t sent = 0;
    while (sent < kBytes) {
      std::vector<uint8_t> piece(std::min<size_t>(kBytes - sent, 1 + random.next() % 600));
      for (auto& b : piece) b = static_cast<uint8_t>(sent++ * 7);
      for (size_t at = 0; at < piece.size();) {
        at += ring.writer.write_some(piece.data() + at, piece.size() - at);
        if (at < piece.size() && ring.writer.sleep()) sleep_on(ring.events.space);
      }
    }
  });
  Random random(2);
  size_t wrong = 0;
  for (size_t got = 0; got < kBytes;) {
    uint8_t piece[300];
    const size_t count = ring.reader.read_some(piece, 1 + random.next() % sizeof piece);
    for (size_t i = 0; i < count; ++i) wrong += piece[i] != static_cast<uint8_t>((got + i) * 7);
    got += count;
    if (count == 0 && ring.reader.sleep()) sleep_on(ring.events.data);
  }
  producer.join();
  CHECK(wrong == 0);
}

TEST_CASE("ring_full_ring_takes_no_more") {
  Ring ring;
  const std::vector<std::byte> bytes(kCapacity + 10);
  CHECK(ring.writer.write_some(bytes.data(), bytes.size()) == kCapacity);
  CHECK(ring.writer.write_some(bytes.data(), 1) == 0);
  CHECK(ring.writer.sleep());
  std::byte one{};
  CHECK(ring.reader.read_some(&one, 1) == 1);
  CHECK_FALSE(ring.writer.sleep());
}

TEST_CASE("ring_impossible_positions_are_refused") {
  Ring ring;
  std::byte byte{};
  ring.control.head.store(kCapacity + 1);
  CHECK_THROWS_AS(ring.reader.read_some(&byte, 1), Error);
  ring.control.head.store(~uint64_t{0});
  CHECK_THROWS_AS(ring.reader.available(), Error);
  ring.control.tail.store(1);  // more read than was ever written
  CHECK_THROWS_AS(ring.writer.write_some(&byte, 1), Error);
}
