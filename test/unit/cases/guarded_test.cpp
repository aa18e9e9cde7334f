// SPDX-License-Identifier: Apache-2.0
// Guarded buffers: what a write near a buffer leaves behind, and that a far one has nowhere to go.
#include "core/cases/guarded.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "test/catch.hpp"

namespace {

// True if this process may read the byte at `at`; the kernel answers, so nothing is touched.
bool accessible(const std::byte* at) {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const bool yes = ::write(ends[1], at, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return yes;
}

TEST_CASE("a write beside a guarded buffer is named") {
  const auto cpu = fk::open_device("cpu");
  fk::GuardedBuffer buffer(*cpu, 1000, 3);
  CHECK(buffer.damage().empty());
  buffer.data()[1000] ^= std::byte{1};
  buffer.data()[1007] ^= std::byte{1};
  CHECK(buffer.damage() == "2 bytes written 0 bytes past its end");
  buffer.data()[1000] ^= std::byte{1};
  buffer.data()[1007] ^= std::byte{1};
  buffer.data()[-8] ^= std::byte{1};
  CHECK(buffer.damage() == "1 byte written 8 bytes before its start");
}

TEST_CASE("an access far from a guarded buffer is stopped wherever other memory lies") {
  const auto cpu = fk::open_device("cpu");
  for (const bool at_end : {false, true}) {
    // Large ones beside it, which such an access would reach.
    constexpr int64_t kLarge = 64 << 20;
    fk::GuardedBuffer before(*cpu, kLarge, 0), buffer(*cpu, 4096, 1, at_end),
        after(*cpu, kLarge, 2);
    CHECK(accessible(buffer.data()));
    CHECK(accessible(buffer.data() + 4095));
    for (std::ptrdiff_t far = 64 << 10; far <= 63 << 20; far *= 2) {
      CAPTURE(at_end, far);
      CHECK_FALSE(accessible(buffer.data() + 4096 + far));
      CHECK_FALSE(accessible(buffer.data() - far));
    }
  }
}

}  // namespace
