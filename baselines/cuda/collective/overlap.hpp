// SPDX-License-Identifier: Apache-2.0
// The division of a product whose rows are summed between ranks, or come from them. It gives the
// owner of each tile, the order of tiles, and the jobs of communication warps. It is plain
// arithmetic, for kernels and for tests without a GPU.
//
// Rows belong to ranks in equal parts, so the tiles of a part begin with the part. Two blocks
// multiply a pair of tiles, one below the other. A level has the pairs of one height in all parts.
// Ranks are at the same level at about the same time. While one level is multiplied, the level
// before is added and sent on. With two ranks, half of the tiles belong to the other rank. They
// come first, so that the other's share of a tile is here when this rank's share is computed.
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#define FK_BOTH __host__ __device__
#else
#define FK_BOTH
#endif

namespace fkc::overlap {

constexpr int kHigh = 128, kWide = 256,
              kPair = 2 * kHigh;  // rows and columns of a tile, rows of a pair
constexpr int kSlices = 4,
              kSliceRows = kHigh / kSlices;  // slices of a tile: rows which are added, or taken, at once
constexpr int kRowWords = kWide / 8, kRowBytes = kWide * 2;  // of a row of a tile, in words of 16 bytes
constexpr int kTileWords = kHigh * kRowWords, kTileBytes = kTileWords * 16;
constexpr int kUnitRows = 4,
              kUnits = kHigh / kUnitRows;  // rows of a message of a gather; units of a tile

// The place of eight elements of a row in a tile. In odd rows the halves of 64 bytes are exchanged.
// So a warp which writes eight rows of 64 bytes uses every bank of shared memory once.
FK_BOTH constexpr int word_of(int row, int eighth) {
  return row * kRowWords + (eighth ^ (row & 1) << 2);
}
FK_BOTH constexpr int row_of(int word) { return word / kRowWords; }
FK_BOTH constexpr int eighth_of(int word) { return word % kRowWords ^ (row_of(word) & 1) << 2; }

FK_BOTH constexpr int divided(int64_t a, int64_t b) { return int((a + b - 1) / b); }
FK_BOTH constexpr int between(int least, int v, int most) {
  return v < least ? least : v > most ? most : v;
}

// The order in which a rank multiplies pairs: sums by level, sums of two ranks, gathered rows.
enum class Order { kLevels, kHalves, kGathered };

// Two tiles: rows from high * kPair of a rank's part, columns from wide * kWide.
struct Pair {
  int part, high, wide;
};
// A job of communication warps: add a slice of a tile of their own part, or take the sum which
// `part` sent.
struct Job {
  int part, slot, slice;
};

struct Plan {
  int rows, part, ranks;  // all rows; rows of a part: the last parts may have fewer, or none
  int high, wide;         // pairs of a part, in each direction

  // Rows of a part of a sum which goes to all: whole slices.
  FK_BOTH static constexpr int share(int rows, int ranks) {
    return divided(divided(rows, ranks), kSliceRows) * kSliceRows;
  }
  FK_BOTH static constexpr Plan of(int rows, int part, int ranks, int columns) {
    return {rows, part, ranks, divided(part, kPair), divided(columns, kWide)};
  }
  FK_BOTH constexpr int begin(int p) const { return p * part < rows ? p * part : rows; }
  FK_BOTH constexpr int size(int p) const { return between(0, rows - p * part, part); }

  // Tiles of a part have a slot each, in every box of a part.
  FK_BOTH constexpr int slots() const { return 2 * high * wide; }
  FK_BOTH constexpr int slot(const Pair& pair, int half) const {
    return (pair.high * 2 + half) * wide + pair.wide;
  }
  FK_BOTH constexpr int first_row(int slot) const { return slot / wide * kHigh; }  // in the part
  FK_BOTH constexpr int first_column(int slot) const { return slot % wide * kWide; }
  FK_BOTH constexpr int tile_rows(int p, int slot) const {
    return between(0, size(p) - first_row(slot), kHigh);
  }
  FK_BOTH constexpr int slice_rows(int p, int slot, int slice) const {
    return between(0, tile_rows(p, slot) - slice * kSliceRows, kSliceRows);
  }

  FK_BOTH constexpr int pairs() const { return high * wide * ranks; }
  FK_BOTH constexpr bool there(const Pair& pair) const {
    return pair.high * kPair < size(pair.part);
  }
  // Level by level. In a level the others' parts come first, and every rank begins with another
  // one.
  FK_BOTH constexpr Pair summed(int i, int me) const {
    const int level = wide * ranks, in = i % level;
    return {(me + 1 + in / wide) % ranks, i / level, in % wide};
  }
  // This rank's part first, which needs no message; then the others' parts level by level, as they
  // arrive.
  FK_BOTH constexpr Pair gathered(int i, int me) const {
    if (i < high * wide) return {me, i / wide, i % wide};
    const int level = wide * (ranks - 1), later = i - high * wide, in = later % level;
    return {(me + 1 + in / wide) % ranks, later / level, in % wide};
  }

  // All pairs of the next rank, of two ranks, and then this rank's own.
  FK_BOTH constexpr Pair halved(int i, int me) const {
    const int one = high * wide, in = i % one;
    return {(me + 1 + i / one) % ranks, in / wide, in % wide};
  }
  template <Order kOrder>
  FK_BOTH constexpr Pair pair(int i, int me) const {
    return kOrder == Order::kLevels   ? summed(i, me)
           : kOrder == Order::kHalves ? halved(i, me)
                                      : gathered(i, me);
  }

  // Jobs in the order in which blocks take them. A level's sums come before the sums taken of this
  // level. Sums wait for products alone. Taking waits for sums of the same level at other ranks,
  // and before these a block has only jobs of lower levels, or sums. So some warp can always go on.
  FK_BOTH constexpr int jobs(bool all) const {
    return high * 2 * wide * kSlices * (all ? ranks : 1);
  }
  FK_BOTH constexpr Job job(int j, int me, bool all) const {
    const int one = 2 * wide * kSlices, level = one * (all ? ranks : 1), in = j % level;
    return {(me + in / one) % ranks, j / level * 2 * wide + in % one / kSlices, in % kSlices};
  }

  // Units of rows of a gather, each to every other rank, row by row. So the first tiles are
  // complete first.
  FK_BOTH constexpr int units() const { return divided(part, kUnitRows); }
  FK_BOTH constexpr int sends() const { return units() * (ranks - 1); }
  FK_BOTH constexpr int send_unit(int i) const { return i / (ranks - 1); }
  FK_BOTH constexpr int send_to(int i, int me) const { return (me + 1 + i % (ranks - 1)) % ranks; }
};

// The symmetric memory of a rank: numbers which rise from call to call, then boxes. `slots`: of the
// largest call.
struct Room {
  int ranks, slots;
  bool all;  // sums go to all ranks
  static constexpr int64_t kHead = 256;
  FK_BOTH constexpr int64_t counts() const { return int64_t(ranks) * slots; }
  // The number of the last call whose data `from` has sent. The data are its share of a tile of
  // this rank's part, or a slice of a sum of its own part.
  FK_BOTH constexpr int64_t shared_number(int from, int slot) const {
    return kHead + (int64_t(from) * slots + slot) * 4;
  }
  FK_BOTH constexpr int64_t summed_number(int from, int slot, int slice) const {
    return kHead + (counts() + (int64_t(from) * slots + slot) * kSlices + slice) * 4;
  }
  FK_BOTH constexpr int64_t boxes() const {
    return (kHead + counts() * (all ? 1 + kSlices : 1) * 4 + 255) / 256 * 256;
  }
  FK_BOTH constexpr int64_t shared(int from, int slot) const {
    return boxes() + (int64_t(from) * slots + slot) * kTileBytes;
  }
  FK_BOTH constexpr int64_t summed(int from, int slot) const {
    return shared(from, slot) + counts() * kTileBytes;
  }
  FK_BOTH constexpr int64_t bytes() const {
    return boxes() + counts() * kTileBytes * (all ? 2 : 1);
  }
};

// The same for gathered rows. There are two boxes in turn, because senders need not wait for the
// slowest reader. Numbers have fixed places, so calls of different rows may share memory of the
// same size.
struct RowRoom {
  int ranks, part, row_bytes;  // part: rows of a part of the largest call
  static constexpr int64_t kHead = 256;
  static constexpr int kUnitsMost = 8192, kPartMost = kUnitsMost * kUnitRows;
  FK_BOTH constexpr int64_t number(int from, int unit) const {
    return kHead + (int64_t(from) * kUnitsMost + unit) * 4;
  }
  FK_BOTH constexpr int64_t box_bytes() const {
    return (int64_t(ranks) * part * row_bytes + 255) / 256 * 256;
  }
  FK_BOTH constexpr int64_t box(int which) const { return number(ranks, 0) + which * box_bytes(); }
  FK_BOTH constexpr int64_t bytes() const { return box(2); }
};

}  // namespace fkc::overlap
