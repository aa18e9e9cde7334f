// SPDX-License-Identifier: Apache-2.0
// How a product is cut whose rows are summed up between ranks, or come from them: which tile is
// whose, in which order tiles are multiplied, and what the threads that talk do when. Plain
// arithmetic, for kernels and for tests without a GPU.
//
// Rows belong to ranks in equal parts, so the tiles of a part begin with the part. Two blocks
// multiply a pair of tiles, one below the other. A level has the pairs of one height in all parts:
// ranks are at the same level at about the same time, and what belongs to one level is added up and
// passed on while the next one is multiplied. Of two ranks a half of the tiles is the other's:
// those come first, so that the other's share of a tile is there when this rank's own is.
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
              kSliceRows = kHigh / kSlices;  // of a tile: what is added up, or taken, at once
constexpr int kRowWords = kWide / 8, kRowBytes = kWide * 2;  // of a tile, in words of 16 bytes
constexpr int kTileWords = kHigh * kRowWords, kTileBytes = kTileWords * 16;
constexpr int kUnitRows = 4,
              kUnits = kHigh / kUnitRows;  // rows that are sent at once to be gathered; of a tile

// Where eight elements of a row are in a tile: odd rows have their halves of 64 bytes exchanged, so
// that a warp which writes eight rows of 64 bytes finds no bank of shared memory twice.
FK_BOTH constexpr int word_of(int row, int eighth) {
  return row * kRowWords + (eighth ^ (row & 1) << 2);
}
FK_BOTH constexpr int row_of(int word) { return word / kRowWords; }
FK_BOTH constexpr int eighth_of(int word) { return word % kRowWords ^ (row_of(word) & 1) << 2; }

FK_BOTH constexpr int divided(int64_t a, int64_t b) { return int((a + b - 1) / b); }
FK_BOTH constexpr int between(int least, int v, int most) {
  return v < least ? least : v > most ? most : v;
}

// In which order a rank multiplies pairs: sums by level, sums of two ranks, gathered rows.
enum class Order { kLevels, kHalves, kGathered };

// Two tiles: rows from high * kPair of a rank's part, columns from wide * kWide.
struct Pair {
  int part, high, wide;
};
// What the talking threads of a block do: add up a slice of a tile of their own part, or take the
// sum that `part` sent.
struct Job {
  int part, slot, slice;
};

struct Plan {
  int rows, part, ranks;  // all rows; of a part: the last ones may be shorter, or have none
  int high, wide;         // pairs of a part

  // Parts of rows of a sum that goes to everybody: whole slices each.
  FK_BOTH static constexpr int share(int rows, int ranks) {
    return divided(divided(rows, ranks), kSliceRows) * kSliceRows;
  }
  FK_BOTH static constexpr Plan of(int rows, int part, int ranks, int columns) {
    return {rows, part, ranks, divided(part, kPair), divided(columns, kWide)};
  }
  FK_BOTH constexpr int begin(int p) const { return p * part < rows ? p * part : rows; }
  FK_BOTH constexpr int size(int p) const { return between(0, rows - p * part, part); }

  // Tiles of a part have a slot each, in every box that holds a part.
  FK_BOTH constexpr int slots() const { return 2 * high * wide; }
  FK_BOTH constexpr int slot(const Pair& pair, int half) const {
    return (pair.high * 2 + half) * wide + pair.wide;
  }
  FK_BOTH constexpr int first_row(int slot) const { return slot / wide * kHigh; }  // in its part
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
  // Level by level; in a level the others' parts first, everybody beginning with another one.
  FK_BOTH constexpr Pair summed(int i, int me) const {
    const int level = wide * ranks, in = i % level;
    return {(me + 1 + in / wide) % ranks, i / level, in % wide};
  }
  // This rank's part first, which is there; then the others' level by level, as they come.
  FK_BOTH constexpr Pair gathered(int i, int me) const {
    if (i < high * wide) return {me, i / wide, i % wide};
    const int level = wide * (ranks - 1), later = i - high * wide, in = later % level;
    return {(me + 1 + in / wide) % ranks, later / level, in % wide};
  }

  // All of the next rank, of which two have one, and then this rank's own.
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

  // Jobs in the order in which blocks take them, one after the other round the blocks: a level's
  // sums before what is taken of that level. Sums wait for products alone, and taking for the sums
  // of the same level at other ranks, before which no block has a job that is not of a lower level
  // or a sum: so somebody can always go on.
  FK_BOTH constexpr int jobs(bool all) const {
    return high * 2 * wide * kSlices * (all ? ranks : 1);
  }
  FK_BOTH constexpr Job job(int j, int me, bool all) const {
    const int one = 2 * wide * kSlices, level = one * (all ? ranks : 1), in = j % level;
    return {(me + in / one) % ranks, j / level * 2 * wide + in % one / kSlices, in % kSlices};
  }

  // Units of rows to be gathered, each to every other rank: row by row, so that the first tiles are
  // whole first.
  FK_BOTH constexpr int units() const { return divided(part, kUnitRows); }
  FK_BOTH constexpr int sends() const { return units() * (ranks - 1); }
  FK_BOTH constexpr int send_unit(int i) const { return i / (ranks - 1); }
  FK_BOTH constexpr int send_to(int i, int me) const { return (me + 1 + i % (ranks - 1)) % ranks; }
};

// One rank's symmetric memory: numbers that go on from call to call, then boxes. `slots` are those
// of the largest call.
struct Room {
  int ranks, slots;
  bool all;  // sums are passed on
  static constexpr int64_t kHead = 256;
  FK_BOTH constexpr int64_t counts() const { return int64_t(ranks) * slots; }
  // The number of the call for which `from` has sent its share of a tile of this rank's part, or a
  // slice of a sum of its own.
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

// The same for rows that are gathered: two boxes in turn, because those who send need not wait for
// the slowest reader. Numbers stand at the same places whatever the rows are, so that calls of
// different rows may share memory of the same size.
struct RowRoom {
  int ranks, part, row_bytes;  // part: of the largest call
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
