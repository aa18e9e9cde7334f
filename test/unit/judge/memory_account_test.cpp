// SPDX-License-Identifier: Apache-2.0
// Whose memory it is, from made-up figures: there is no GPU here.
#include "core/judge/memory_account.hpp"

#include "test/catch.hpp"

using namespace fk;

namespace {

using Whose = MemoryAccount::Whose;
constexpr int64_t kMiB = int64_t{1} << 20, kGiB = int64_t{1} << 30;

// The finding if one device had 10 GiB in use, 1 GiB by the candidate, and then has these numbers.
std::optional<Whose> whose(int64_t all, std::optional<int64_t> own, int64_t lent = 0) {
  MemoryAccount account;
  account.begin({{10 * kGiB, own ? std::optional(kGiB) : std::nullopt}});
  account.lend({lent});
  const auto taken = account.taken({{all, own}});
  if (taken) CHECK(taken->bytes == all - 10 * kGiB - lent);
  return taken ? std::optional(taken->whose) : std::nullopt;
}

}  // namespace

TEST_CASE("memory_that_a_candidate_takes_is_found") {
  CHECK(whose(13 * kGiB, 4 * kGiB) == Whose::candidate);
  CHECK(whose(13 * kGiB, kGiB + 600 * kMiB) == Whose::somebody_else);
  CHECK(whose(13 * kGiB, std::nullopt) == Whose::unknown);
  // Memory which the candidate has asked for is allowed, and so are code and handles.
  CHECK_FALSE(whose(13 * kGiB, 4 * kGiB, 3 * kGiB));
  CHECK_FALSE(whose(10 * kGiB + 900 * kMiB, kGiB + 900 * kMiB));
  CHECK(whose(16 * kGiB, 4 * kGiB, 3 * kGiB) == Whose::somebody_else);
  // Memory which others share with the candidate counts as its own too. The device has no less of
  // it.
  CHECK_FALSE(whose(10 * kGiB, 4 * kGiB));
  // Where nothing is known nothing is found.
  MemoryAccount account;
  account.begin({{0, std::nullopt}});
  CHECK_FALSE(account.taken({{20 * kGiB, std::nullopt}}));
  account.begin({{10 * kGiB, std::nullopt}});
  CHECK_FALSE(account.taken({{0, std::nullopt}}));
}

// One rank's requests do not excuse another rank. The memory of all ranks is not one sum.
TEST_CASE("memory_is_counted_where_it_is") {
  MemoryAccount account;
  const MemoryLooks begun(3, {10 * kGiB, kGiB});
  account.begin(begun);
  account.lend({5 * kGiB, 0, 0});
  MemoryLooks now = begun;
  for (auto& place : now) {
    place.all += 700 * kMiB;
    *place.own += 700 * kMiB;
  }
  CHECK_FALSE(account.taken(now));
  now[2] = {12 * kGiB, 3 * kGiB};
  auto taken = account.taken(now);
  REQUIRE(taken);
  CHECK(taken->place == 2);
  CHECK(taken->whose == Whose::candidate);
  // Somebody else's is told only where there is nothing of the candidate's.
  now[1] = {20 * kGiB, kGiB};
  CHECK(account.taken(now)->place == 2);
  now[2] = begun[2];
  CHECK(account.taken(now)->whose == Whose::somebody_else);
  now[2] = {12 * kGiB, std::nullopt};
  taken = account.taken(now);
  CHECK(taken->place == 2);
  CHECK(taken->whose == Whose::unknown);
  // Memory in use at this moment is no candidate's fault.
  account.begin(now);
  CHECK_FALSE(account.taken(now));
}

// A process gives back what it had by right as well: that alone shows nothing.
TEST_CASE("memory_that_comes_back_is_more_than_what_was_given") {
  MemoryAccount account;
  account.begin({{10 * kGiB, std::nullopt}});
  account.lend({3 * kGiB});
  const MemoryLooks before = {{15 * kGiB, std::nullopt}};  // 2 GiB beside what was lent
  const auto taken = account.taken(before);
  REQUIRE(taken);
  CHECK(taken->bytes == 2 * kGiB);
  const auto back = [&](int64_t bytes) {
    return account.came_back(*taken, before, {{15 * kGiB - bytes, std::nullopt}});
  };
  CHECK(back(5 * kGiB + 400 * kMiB));        // all of it, and a context
  CHECK_FALSE(back(3 * kGiB + 600 * kMiB));  // what is its own by right, and a context
  CHECK_FALSE(back(0));
  // Also where calls have taken it, when what was lent is in use already.
  account.begin({{13 * kGiB, std::nullopt}});
  REQUIRE(account.taken(before));
  CHECK_FALSE(back(3 * kGiB + 600 * kMiB));
  CHECK(back(5 * kGiB + 400 * kMiB));
}
