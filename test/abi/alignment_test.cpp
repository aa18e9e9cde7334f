// SPDX-License-Identifier: Apache-2.0
// If these fail, the host and plugins differ about where tensor views may begin.
#include "fk/tensor.h"
#include "test/catch.hpp"

namespace {

int64_t alignment_of(int bits, const std::vector<int64_t>& strides) {
  fk_in view{};
  view.dtype.bits = static_cast<uint8_t>(bits);
  view.ndim = static_cast<int32_t>(strides.size());
  view.strides = strides.data();
  return fk_alignment(&view);
}

}  // namespace

TEST_CASE("a view is aligned as its strides are, to 16 bytes at most") {
  CHECK(alignment_of(16, {4096, 1}) == 16);
  CHECK(alignment_of(16, {4096, 128, 1}) == 16);
  CHECK(alignment_of(16, {368, 46, 1}) == 4);  // 92 bytes from head to head
  CHECK(alignment_of(16, {4100, 128, 1}) == 8);
  CHECK(alignment_of(16, {4097, 1}) == 2);
  CHECK(alignment_of(32, {3, 1}) == 4);
  CHECK(alignment_of(64, {3, 1}) == 8);
  CHECK(alignment_of(8, {24, 1}) == 8);
  CHECK(alignment_of(8, {7, 1}) == 1);
}

TEST_CASE("a view without rows is aligned as an element is") {
  CHECK(alignment_of(32, {1}) == 4);
  CHECK(alignment_of(16, {1}) == 2);
  CHECK(alignment_of(64, {}) == 8);
}
