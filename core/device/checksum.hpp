// SPDX-License-Identifier: Apache-2.0
// The checksum of memory in pieces: the sum of all pieces is checksum_of() of the whole.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace fk {

// `first`: index of the first word of 8 bytes of this piece in the whole. Each piece but the last
// has whole words.
uint64_t checksum_from(std::span<const std::byte> piece, uint64_t first);

}  // namespace fk
