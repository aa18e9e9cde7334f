// SPDX-License-Identifier: Apache-2.0
// The 128-byte swizzle by hand: where cp.async puts pieces of 16 bytes, so that ldmatrix finds
// eight rows in different banks.
#pragma once
#include "target.cuh"

namespace fkc {

// Piece `piece` of a row of kPieces pieces, at least eight; the piece's number is XORed with the
// row's.
template <int kPieces>
__device__ uint32_t swizzled(uint32_t base, int row, int piece) {
  return base + (row * kPieces + (piece ^ (row & 7))) * 16;
}

}  // namespace fkc
