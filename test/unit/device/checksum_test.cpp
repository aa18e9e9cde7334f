// SPDX-License-Identifier: Apache-2.0
// The sum that tells whether memory is what it was; CUDA devices make the same one.
#include <algorithm>
#include <vector>

#include "core/device/device.hpp"
#include "test/catch.hpp"

using namespace fk;

TEST_CASE("a checksum depends on every byte and on its place") {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 61; ++i) bytes.push_back(static_cast<std::byte>(7 * i + 1));
  const uint64_t sum = checksum_of(bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto other = bytes;
    other[i] ^= std::byte{0x10};
    CHECK(checksum_of(other) != sum);
  }
  auto moved = bytes;
  std::rotate(moved.begin(), moved.begin() + 8, moved.end());
  CHECK(checksum_of(moved) != sum);
  CHECK(checksum_of({}) == 0);
  // Bytes beyond the end count as zero, so a whole word with zeros at its end has the same sum.
  const std::vector<std::byte> part(5, std::byte{3});
  auto whole = part;
  whole.resize(8);
  CHECK(checksum_of(part) == checksum_of(whole));
}
