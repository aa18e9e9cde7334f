// SPDX-License-Identifier: Apache-2.0
// If this fails, pages leak or are shared, or a step is larger than a phase can take.
#include "core/engines/scheduler.hpp"

#include <set>

#include "core/tensor/random.hpp"
#include "test/catch.hpp"

TEST_CASE("page_pool_gives_distinct_pages_and_takes_them_back") {
  fk::KvPagePool pool(5);
  std::vector<int32_t> a, b;
  CHECK(pool.acquire(3, a));
  CHECK_FALSE(pool.acquire(3, b));
  CHECK(b.empty());
  CHECK(pool.acquire(2, b));
  std::vector<int32_t> all = a;
  all.insert(all.end(), b.begin(), b.end());
  std::sort(all.begin(), all.end());
  CHECK(all == std::vector<int32_t>{0, 1, 2, 3, 4});
  pool.release(a);
  CHECK(a.empty());
  CHECK(pool.free() == 3);
}

TEST_CASE("page_pool_shares_named_pages_until_they_are_needed") {
  fk::KvPagePool pool(3);
  std::vector<int32_t> a, b, c;
  CHECK(pool.acquire(2, a));
  pool.name(a[0], "x");
  pool.name(a[1], "x");  // the first one stays
  const int32_t page = a[0];
  CHECK_FALSE(pool.share("y", b));
  CHECK(pool.share("x", b));
  CHECK(b == std::vector<int32_t>{page});
  pool.release(a);
  CHECK(pool.free() == 2);  // b holds it
  pool.release(b);
  CHECK(pool.free() == 3);
  CHECK(pool.share("x", b));  // also while it is free
  pool.release(b);
  CHECK(pool.acquire(2, c));
  CHECK(pool.share("x", b));  // pages without names go first
  pool.release(b);
  CHECK(pool.acquire(1, c));
  CHECK(c.back() == page);
  CHECK_FALSE(pool.share("x", b));
  CHECK_FALSE(pool.has_names());
}

namespace {

fk::Request request(int64_t prompt, int64_t new_tokens) {
  fk::Request r;
  r.tokens.assign(static_cast<size_t>(prompt), 1);
  r.new_tokens = new_tokens;
  return r;
}

}  // namespace

TEST_CASE("scheduler_cuts_prompts_over_several_requests") {
  fk::Scheduler s({4, 100, 10, 4, 4, 100, 8});
  s.add(request(6, 2));
  s.add(request(13, 2));
  REQUIRE(s.next() == fk::Scheduler::Step::prefill);
  REQUIRE(s.work().size() == 2);
  CHECK((s.work()[0].count == 6 && s.work()[0].rows == 1 && s.work()[0].samples));
  CHECK((s.work()[1].count == 4 && s.work()[1].rows == 0 && !s.work()[1].samples));
  for (const auto& w : s.work()) s.computed(w);
  s.work()[0].sequence->tokens.push_back(1);
  // The rest of the second prompt goes before the first request's next token.
  REQUIRE(s.next() == fk::Scheduler::Step::prefill);
  REQUIRE(s.work().size() == 1);
  CHECK((s.work()[0].first == 4 && s.work()[0].count == 9 && s.work()[0].samples));
}

TEST_CASE("scheduler_gives_every_running_request_a_state_slot_of_its_own") {
  fk::Scheduler s({3, 100, 100, 3, 1, 14, 8});
  for (int i = 0; i < 8; ++i) s.add(request(3, 4));
  int64_t again = 0;
  std::set<fk::Sequence*> seen;
  while (!s.idle()) {
    REQUIRE(s.next() != fk::Scheduler::Step::none);
    const std::vector<fk::Work> work = s.work();
    std::set<int32_t> slots;
    for (const auto& w : work) {
      CHECK((w.sequence->slot >= 0 && w.sequence->slot < 3));
      CHECK(slots.insert(w.sequence->slot).second);
      // A request that was put off starts from nothing.
      if (!w.sequence->encoded) CHECK(w.first == 0);
      if (!w.sequence->encoded) again += !seen.insert(w.sequence).second;
      w.sequence->encoded = true;
    }
    for (const auto& w : work) {
      s.computed(w);
      if (!w.samples) continue;
      w.sequence->tokens.push_back(1);
      if (w.sequence->generated() < 4) continue;
      seen.erase(w.sequence);
      s.finish(w.sequence);
    }
  }
  CHECK(s.preemptions() > 0);
  CHECK(again == s.preemptions());
}

TEST_CASE("scheduler_evicts_the_youngest_and_serves_it_again") {
  fk::Scheduler s({4, 100, 100, 4, 1, 12, 8});
  s.add(request(4, 8));  // 11 pages in the end
  s.add(request(4, 4));
  REQUIRE(s.next() == fk::Scheduler::Step::prefill);
  CHECK(s.running() == 2);
  int64_t steps = 0;
  while (!s.idle() && steps++ < 100) {
    if (steps > 1) REQUIRE(s.next() != fk::Scheduler::Step::none);
    const std::vector<fk::Work> work = s.work();
    for (const auto& w : work) {
      s.computed(w);
      CHECK(w.sequence->pages.size() >= static_cast<size_t>(w.first + w.count));
      if (!w.samples) continue;
      w.sequence->tokens.push_back(1);
      if (w.sequence->generated() == w.sequence->request.new_tokens) s.finish(w.sequence);
    }
  }
  CHECK(s.idle());
  CHECK(s.preemptions() >= 1);
}
