// SPDX-License-Identifier: Apache-2.0
// The division of products which exchange data at the same time
// (baselines/cuda/collective/overlap.hpp). Every tile is multiplied once, every slice is added and
// taken once, and memory does not overlap. In any order of the blocks, no call waits for ever, and
// no call sees data of another call.
#include "baselines/cuda/collective/overlap.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "test/catch.hpp"

namespace {

using namespace fkc::overlap;

std::vector<Plan> plans() {
  std::vector<Plan> all;
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const int rows : {1, 31, 256, 389, 1000, 4096})
      for (const int columns : {8, 256, 328, 1024}) {
        all.push_back(Plan::of(rows, Plan::share(rows, ranks), ranks, columns));
        all.push_back(Plan::of(rows * ranks, rows, ranks, columns));
      }
  return all;
}

Pair pair_of(const Plan& plan, Order order, int i, int me) {
  switch (order) {
    case Order::kLevels:
      return plan.pair<Order::kLevels>(i, me);
    case Order::kHalves:
      return plan.pair<Order::kHalves>(i, me);
    default:
      return plan.pair<Order::kGathered>(i, me);
  }
}

TEST_CASE("of two ranks this rank's own pairs are all behind the other's") {
  for (const Plan& plan : plans())
    for (int i = 0; plan.ranks == 2 && i < plan.pairs(); ++i)
      REQUIRE((plan.halved(i, 1).part == 1) == (i >= plan.pairs() / 2));
}

TEST_CASE("a word of a tile has one place, and eight rows of 64 bytes meet no bank twice") {
  std::set<int> words;
  for (int row = 0; row < kHigh; ++row)
    for (int eighth = 0; eighth < kRowWords; ++eighth) {
      const int word = word_of(row, eighth);
      words.insert(word);
      REQUIRE(row_of(word) == row);
      REQUIRE(eighth_of(word) == eighth);
    }
  REQUIRE(words.size() == size_t{kTileWords});
  REQUIRE(*words.rbegin() == kTileWords - 1);
  // Eight lanes at a time, four of a row: 128 bytes in all 32 banks.
  for (int row = 0; row < kHigh; row += 2)
    for (int group = 0; group < kRowWords; group += 4) {
      std::set<int> banks;
      for (int lane = 0; lane < 8; ++lane)
        banks.insert(word_of(row + lane / 4, group + lane % 4) % 8);
      REQUIRE(banks.size() == 8);
    }
}

TEST_CASE("every row and column belongs to one tile, which every rank multiplies once") {
  for (const Plan& plan : plans())
    for (int me = 0; me < plan.ranks; ++me)
      for (const Order order : {Order::kLevels, Order::kHalves, Order::kGathered}) {
        std::set<std::pair<int, int>> tiles;
        std::vector<int> rows(static_cast<size_t>(plan.rows));
        for (int i = 0; i < plan.pairs(); ++i) {
          const Pair pair = pair_of(plan, order, i, me);
          REQUIRE(pair.wide < plan.wide);
          for (int half = 0; half < 2; ++half) {
            const int slot = plan.slot(pair, half);
            REQUIRE(slot < plan.slots());
            REQUIRE(tiles.emplace(pair.part, slot).second);
            const int count = plan.tile_rows(pair.part, slot);
            REQUIRE((plan.there(pair) || count == 0));
            if (pair.wide > 0) continue;
            for (int r = 0; r < count; ++r)
              ++rows[static_cast<size_t>(plan.begin(pair.part) + plan.first_row(slot) + r)];
          }
        }
        REQUIRE(tiles.size() == static_cast<size_t>(plan.ranks * plan.slots()));
        REQUIRE(std::count(rows.begin(), rows.end(), 1) == plan.rows);
      }
}

TEST_CASE("every slice is added up or taken once, level by level, sums first") {
  for (const Plan& plan : plans())
    for (const bool all : {false, true}) {
      const int me = plan.ranks - 1;
      std::set<std::vector<int>> slices;
      std::pair<int, bool> last{0, false};
      for (int j = 0; j < plan.jobs(all); ++j) {
        const Job job = plan.job(j, me, all);
        REQUIRE(slices.insert({job.part, job.slot, job.slice}).second);
        REQUIRE((job.slot < plan.slots() && job.slice < kSlices && (all || job.part == me)));
        const std::pair<int, bool> now{plan.first_row(job.slot) / kPair, job.part != me};
        REQUIRE(last <= now);
        last = now;
      }
      REQUIRE(slices.size() ==
              static_cast<size_t>((all ? plan.ranks : 1) * plan.slots() * kSlices));
      int rows = 0;
      for (const std::vector<int>& s : slices)
        if (s[1] % plan.wide == 0) rows += plan.slice_rows(s[0], s[1], s[2]);
      REQUIRE(rows == (all ? plan.rows : plan.size(me)));
    }
}

TEST_CASE("every unit of rows is sent once to every other rank") {
  for (const Plan& plan : plans()) {
    std::set<std::pair<int, int>> sent;
    for (int i = 0; i < plan.sends(); ++i) {
      const int to = plan.send_to(i, 0);
      REQUIRE((to > 0 && to < plan.ranks && plan.send_unit(i) * kUnitRows < plan.part));
      REQUIRE(sent.emplace(plan.send_unit(i), to).second);
    }
    REQUIRE(sent.size() == static_cast<size_t>(plan.units() * (plan.ranks - 1)));
  }
}

TEST_CASE("numbers and boxes in symmetric memory do not overlap") {
  for (const int ranks : {2, 3, 8})
    for (const bool all : {false, true}) {
      const Room room{ranks, 34, all};
      std::vector<std::pair<int64_t, int64_t>> ranges{{0, Room::kHead}};
      for (int from = 0; from < ranks; ++from)
        for (int slot = 0; slot < room.slots; ++slot) {
          ranges.emplace_back(room.shared_number(from, slot), 4);
          ranges.emplace_back(room.shared(from, slot), kTileBytes);
          REQUIRE(room.shared(from, slot) % 256 == 0);
          if (all) ranges.emplace_back(room.summed(from, slot), kTileBytes);
          for (int slice = 0; all && slice < kSlices; ++slice)
            ranges.emplace_back(room.summed_number(from, slot, slice), 4);
        }
      std::sort(ranges.begin(), ranges.end());
      for (size_t i = 1; i < ranges.size(); ++i)
        REQUIRE(ranges[i - 1].first + ranges[i - 1].second <= ranges[i].first);
      REQUIRE(ranges.back().first + ranges.back().second <= room.bytes());
    }
  const RowRoom rows{3, 70, 48};
  REQUIRE(rows.number(2, RowRoom::kUnitsMost - 1) + 4 <= rows.box(0));
  REQUIRE(rows.box(0) + 3 * 70 * 48 <= rows.box(1));
  REQUIRE(rows.box(1) + 3 * 70 * 48 <= rows.bytes());
  REQUIRE(rows.box(0) % 256 == 0);
  // Ranks which share memory of the same size find numbers and boxes at the same places.
  const RowRoom other{3, 48, 70};
  REQUIRE(other.bytes() == rows.bytes());
  REQUIRE(other.box(1) == rows.box(1));
}

// One rank of linear_sum, or of linear_sum_of_two, in the order of its kernel. Blocks send tiles in
// order, and take jobs in order. A call begins after the end of the call before. Boxes hold the
// number of the call that wrote them.
struct Model {
  struct Rank {
    uint32_t call = 0;  // done
    std::vector<uint32_t> taken;
    std::vector<std::vector<uint32_t>> shared, summed, shared_number,
        summed_number;           // [from][slot, slice]
    std::vector<int> pair, job;  // of each block: the next one; -1: it asks for one
    int given = 0;
  };
  std::vector<Plan> calls;
  int size, blocks;
  bool all, halves;
  std::vector<Rank> ranks;

  Model(std::vector<Plan> plans, int block_count, bool passed_on, bool of_two)
      : calls(std::move(plans)),
        size(calls[0].ranks),
        blocks(block_count),
        all(passed_on),
        halves(of_two) {
    size_t slots = 0;
    for (const Plan& p : calls) slots = std::max(slots, static_cast<size_t>(p.slots()));
    ranks.resize(static_cast<size_t>(size));
    for (Rank& r : ranks) {
      const std::vector<std::vector<uint32_t>> tiles(ranks.size(), std::vector<uint32_t>(slots));
      const std::vector<std::vector<uint32_t>> slices(ranks.size(),
                                                      std::vector<uint32_t>(slots * kSlices));
      r.taken.resize(ranks.size());
      r.shared = r.shared_number = tiles;
      r.summed = r.summed_number = slices;
      start(r);
    }
  }
  void start(Rank& r) const {
    r.pair.clear();
    r.job.clear();
    r.given = 0;
    for (int b = 0; b < blocks; ++b) {
      r.pair.push_back(b / 2);
      r.job.push_back(halves ? b / 2 : -1);
    }
  }

  // The next step of a block's sender, if it can go on.
  bool send(int me, int block) {
    Rank& r = ranks[static_cast<size_t>(me)];
    const Plan& plan = calls[r.call];
    int& i = r.pair[static_cast<size_t>(block)];
    if (i >= plan.pairs()) return false;
    for (int other = 0; other < size; ++other)
      if (other != me && r.taken[static_cast<size_t>(other)] < r.call) return false;
    const Pair pair = halves ? plan.halved(i, me) : plan.summed(i, me);
    const auto slot = static_cast<size_t>(plan.slot(pair, block % 2)),
               from = static_cast<size_t>(me);
    if (halves && pair.part == me && plan.tile_rows(me, static_cast<int>(slot)) > 0) {
      if (r.shared_number[1 - from][slot] < r.call + 1) return false;
      REQUIRE(r.shared[1 - from][slot] == r.call + 1);
    }
    i += blocks / 2;
    if (!plan.there(pair)) return true;
    if (halves && pair.part == me) {
      Rank& other = ranks[1 - from];
      for (size_t slice = slot * kSlices; all && slice < (slot + 1) * kSlices; ++slice)
        other.summed[from][slice] = other.summed_number[from][slice] = r.call + 1;
      return true;
    }
    Rank& owner = ranks[static_cast<size_t>(pair.part)];
    owner.shared[from][slot] = owner.shared_number[from][slot] = r.call + 1;
    return true;
  }
  // With two ranks: the sums of the other's block that has this one's place.
  bool take(int me, int block) {
    Rank& r = ranks[static_cast<size_t>(me)];
    const Plan& plan = calls[r.call];
    int& i = r.job[static_cast<size_t>(block)];
    if (!all || i >= plan.pairs()) return false;
    const Pair pair = plan.halved(i, 1 - me);
    const auto first = static_cast<size_t>(plan.slot(pair, block % 2)) * kSlices;
    const int slot = plan.slot(pair, block % 2);
    for (int s = 0; pair.part != me && s < kSlices; ++s) {
      if (plan.slice_rows(pair.part, slot, s) == 0) continue;
      const auto from = static_cast<size_t>(1 - me), slice = first + static_cast<size_t>(s);
      if (r.summed_number[from][slice] < r.call + 1) return false;
      REQUIRE(r.summed[from][slice] == r.call + 1);
    }
    i += blocks / 2;
    return true;
  }
  bool talk(int me, int block) {
    if (halves) return take(me, block);
    Rank& r = ranks[static_cast<size_t>(me)];
    const Plan& plan = calls[r.call];
    int& j = r.job[static_cast<size_t>(block)];
    if (j < 0) {
      j = r.given++;
      return true;
    }
    if (j >= plan.jobs(all)) return false;
    const Job job = plan.job(j, me, all);
    const auto slot = static_cast<size_t>(job.slot), from = static_cast<size_t>(job.part);
    const size_t slice = slot * kSlices + static_cast<size_t>(job.slice);
    const uint32_t number = r.call + 1;
    if (plan.slice_rows(job.part, job.slot, job.slice) == 0) {
      j = -1;
      return true;
    }
    if (job.part != me) {
      if (r.summed_number[from][slice] < number) return false;
      REQUIRE(r.summed[from][slice] == number);
      j = -1;
      return true;
    }
    for (size_t s = 0; s < ranks.size(); ++s)
      if (r.shared_number[s][slot] < number) return false;
    for (size_t s = 0; s < ranks.size(); ++s) {
      REQUIRE(r.shared[s][slot] == number);
      if (all && s != from)
        ranks[s].summed[from][slice] = ranks[s].summed_number[from][slice] = number;
    }
    j = -1;
    return true;
  }
  bool end(int me) {
    Rank& r = ranks[static_cast<size_t>(me)];
    const Plan& plan = calls[r.call];
    for (int b = 0; b < blocks; ++b)
      if (r.pair[static_cast<size_t>(b)] < plan.pairs() ||
          (halves ? all && r.job[static_cast<size_t>(b)] < plan.pairs()
                  : r.job[static_cast<size_t>(b)] < plan.jobs(all)))
        return false;
    ++r.call;
    for (Rank& other : ranks) other.taken[static_cast<size_t>(me)] = r.call;
    start(r);
    return true;
  }
  bool done(int me) const { return ranks[static_cast<size_t>(me)].call == calls.size(); }
};

TEST_CASE("calls of products that are summed up end whatever the order, and see their own shares") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const int size = 2 + round % 3, blocks = 2 + 2 * static_cast<int>(random() % 4);
    const bool all = round % 2 == 0;
    std::vector<Plan> calls;
    for (int c = 0; c < 5; ++c) {
      const int rows = 1 + static_cast<int>(random() % 1500);
      calls.push_back(all ? Plan::of(rows, Plan::share(rows, size), size, 300)
                          : Plan::of(rows * size, rows, size, 300));
    }
    Model model(calls, blocks, all, size == 2 && random() % 4);
    // One rank is often left behind.
    const int slow = static_cast<int>(random()) & 1
                         ? static_cast<int>(random() % static_cast<unsigned>(size))
                         : -1;
    std::vector<std::pair<int, int>> actors;  // rank, which: two for each block, and the end
    for (int r = 0; r < size; ++r)
      for (int a = 0; a <= 2 * blocks; ++a) actors.emplace_back(r, a);
    // Everybody once, in some order; false where nobody could do anything.
    const auto turn = [&](bool skip_slow) {
      bool moved = false;
      std::shuffle(actors.begin(), actors.end(), random);
      for (const auto& [rank, which] : actors) {
        if (model.done(rank) || (skip_slow && rank == slow)) continue;
        if (which == 2 * blocks)
          moved |= model.end(rank);
        else if (which % 2)
          moved |= model.talk(rank, which / 2);
        else
          moved |= model.send(rank, which / 2);
      }
      return moved;
    };
    INFO("round " << round);
    for (int turns = 0; std::any_of(actors.begin(), actors.end(),
                                    [&](const auto& a) { return !model.done(a.first); });
         ++turns) {
      const bool moved = turn(turns % 8 > 0) || turn(false);
      REQUIRE(moved);
    }
  }
}

}  // namespace
