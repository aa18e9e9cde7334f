// SPDX-License-Identifier: Apache-2.0
// Ranks on several machines. If this fails, they read torn pieces, or wait for a rank which has
// given up. Or they meet after a failure, or let another machine write to forbidden places.
#include "core/comm/block_mirror.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>

#include "fk/comm_library.h"
#include "test/catch.hpp"
#include "test/unit/comm/collectives.hpp"
#include "test/unit/comm/machines.hpp"

namespace {

using namespace fk;
using namespace fk::test;

const std::vector<Machines::Places> kPlaces = {
    {{0}, {1}}, {{0, 1}, {2}}, {{0, 3}, {1}, {2}}, {{0}, {1, 2}, {3, 4}}};

void all_say(const std::vector<RankResult>& results, const std::string& text) {
  for (size_t r = 0; r < results.size(); ++r) {
    INFO("rank " << r);
    CHECK(results[r].text == text);
    CHECK(results[r].seconds < 60);
  }
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// A call which no other rank makes.
void another(SharedCommunicator& comm) {
  const fk_comm& c = *comm.table();
  Tensor x = numbers(DType::f32, comm.rank(), 3);
  const View v(x);
  c.all_reduce(&c, v.in(), &v.out, FK_SUM, nullptr);
}

std::string barrier(SharedCommunicator& comm) {
  const fk_comm& c = *comm.table();
  return c.barrier(&c, nullptr) == FK_OK ? "" : c.error(&c);
}

}  // namespace

TEST_CASE("collectives between machines give every rank what they mean") {
  for (const auto& places : kPlaces) {
    INFO(places.size() << " machines");
    const Machines machines(places);
    all_say(machines.run(90,
                         [](SharedCommunicator& comm) {
                           for (const DType dtype : {DType::f32, DType::bf16, DType::i32})
                             for (const int64_t n : {0, 1, 17, 140'003 / comm.size()})
                               if (auto why = collectives(comm, dtype, n); !why.empty()) return why;
                           return std::string();
                         }),
            "");
  }
}

TEST_CASE("thousands of meetings between machines, in any order of arrival") {
  const Machines machines({{0, 1}, {2}, {3}});
  all_say(machines.run(90,
                       [](SharedCommunicator& comm) {
                         std::mt19937 random(static_cast<unsigned>(comm.rank()));
                         const fk_comm& c = *comm.table();
                         for (int i = 0; i < 3000; ++i) {
                           if (random() % 64 == 0) sleep_ms(1);
                           // Pieces of many lengths, and meetings without any between them.
                           const int64_t n = i % 5 == 0 ? 5000 : i % 3;
                           if (i % 7 == 0) {
                             if (auto why = barrier(comm); !why.empty()) return why;
                             continue;
                           }
                           Tensor x(DType::i32, {n});
                           auto* at = static_cast<int32_t*>(x.data());
                           for (int64_t k = 0; k < n; ++k)
                             at[k] = static_cast<int32_t>(i + k * (comm.rank() + 1));
                           const View v(x);
                           if (c.all_reduce(&c, v.in(), &v.out, FK_SUM, nullptr) != FK_OK)
                             return std::string(c.error(&c));
                           for (int64_t k = 0; k < n; ++k)
                             if (at[k] != 4 * i + 10 * k) return "call " + std::to_string(i);
                         }
                         return std::string();
                       }),
          "");
}

TEST_CASE("the first rank's word reaches all machines") {
  const Machines machines({{0}, {1}, {2}});
  all_say(machines.run(90,
                       [](SharedCommunicator& comm) {
                         for (uint64_t i = 0; i < 100; ++i) {
                           const uint64_t said =
                               comm.meeting().first_says("count", comm.rank() == 0 ? i * i : 7, 30);
                           if (said != i * i) return "it said " + std::to_string(said);
                         }
                         return std::string();
                       }),
          "");
}

TEST_CASE("a rank that disagrees is named on all machines") {
  for (int odd = 1; odd < 3; ++odd) {
    const Machines machines({{0}, {1}, {2}});
    all_say(machines.run(90,
                         [&](SharedCommunicator& comm) {
                           const fk_comm& c = *comm.table();
                           Tensor x = numbers(DType::f32, comm.rank(), comm.rank() == odd ? 6 : 4);
                           const View v(x);
                           c.all_reduce(&c, v.in(), &v.out, FK_SUM, nullptr);
                           return std::string(c.error(&c));
                         }),
            "rank " + std::to_string(odd) +
                " called all_reduce of 6 f32 where rank 0 called all_reduce of 4 f32");
  }
}

TEST_CASE("a rank that gives up ends the others' waiting on all machines") {
  for (int odd = 0; odd < 3; ++odd) {
    const Machines machines({{0}, {1}, {2}});
    all_say(machines.run(3600,
                         [&](SharedCommunicator& comm) {
                           if (comm.rank() == odd) comm.meeting().give_up("for a test");
                           return barrier(comm);
                         }),
            "rank " + std::to_string(odd) + " gave up: for a test");
  }
}

TEST_CASE("a rank of another machine that does not come is missed within the patience") {
  const Machines machines({{0}, {1}, {2}});
  const auto results = machines.run(2, [](SharedCommunicator& comm) {
    auto why = barrier(comm);
    return comm.rank() == 2 || !why.empty() ? why : barrier(comm);
  });
  for (size_t r = 0; r < 2; ++r)
    CHECK(results[r].text == "rank 2 did not come to barrier within 2.0 s");
}

TEST_CASE("who ends the meeting on one machine ends it on all, for those who settle too") {
  for (size_t where = 0; where < 3; ++where) {
    const Machines machines({{0}, {1}, {2, 3}});
    all_say(machines.run(
                3600,
                [](SharedCommunicator& comm) {
                  if (comm.rank() == 3) return std::string("ranks: rank 3 crashed");
                  if (comm.rank() == 1) return "ranks: " + barrier(comm);
                  comm.settle();
                  return std::string("it settled");
                },
                [&] {
                  sleep_ms(20);
                  end_meeting(machines.board(where), "rank 3 crashed");
                }),
            "ranks: rank 3 crashed");
  }
}

// Every round fails in another way, at another place; some ranks have not noticed when they settle.
TEST_CASE("after settle() ranks of all machines work together again, whatever failed before") {
  for (const auto& places : kPlaces) {
    INFO(places.size() << " machines");
    const Machines machines(places);
    all_say(machines.run(90,
                         [](SharedCommunicator& comm) {
                           std::mt19937 random(99);  // the same numbers on all ranks
                           const auto pick = [&](int n) {
                             return static_cast<int>(random() % static_cast<unsigned>(n));
                           };
                           for (int round = 0; round < 150; ++round) {
                             const int odd = pick(comm.size()), absent = pick(comm.size());
                             const int kind = pick(4), before = pick(4);
                             for (int i = 0; i < before; ++i)
                               if (auto why = collectives(comm, DType::i32, 1 + i); !why.empty())
                                 return why;
                             const bool mine = comm.rank() == odd;
                             if (kind == 0 && mine) comm.meeting().give_up("for a test");
                             if (kind == 1 && mine) another(comm);
                             if (kind == 2 && mine) sleep_ms(1);
                             if (kind == 2 && mine) comm.meeting().give_up("late");
                             // An absent rank settles before it has heard of the failure.
                             const bool comes = kind == 1 || (kind != 3 && comm.rank() != absent);
                             if (!mine && comes) barrier(comm);
                             comm.settle();
                             if (auto why = collectives(comm, DType::f32, 9); !why.empty())
                               return "round " + std::to_string(round) + ": " + why;
                           }
                           return std::string();
                         }),
            "");
  }
}

TEST_CASE("a machine that is gone ends the meeting on all others, with its ranks' names") {
  for (const bool alone : {false, true}) {
    Machines machines(alone ? Machines::Places{{0}, {1}, {2}} : Machines::Places{{0}, {1}, {2, 3}});
    std::atomic<int> ready = 0;
    const auto results = machines.run(
        3600,
        [&](SharedCommunicator& comm) {
          barrier(comm);
          ++ready;
          if (comm.rank() >= 2) return std::string();
          for (;;)
            if (auto why = barrier(comm); !why.empty()) return why;
        },
        [&] {
          while (ready < (alone ? 3 : 4)) sleep_ms(1);
          machines.end(2);
        });
    for (size_t r = 0; r < 2; ++r)
      CHECK(results[r].text ==
            (alone ? "rank 2 ended: the connection to its machine closed"
                   : "ranks 2 and 3 ended: the connection to their machine closed"));
  }
}

TEST_CASE("without the first machine all others are told that its ranks are gone") {
  Machines machines({{0}, {1}, {2}});
  const auto results = machines.run(
      3600, [](SharedCommunicator& comm) { return comm.rank() == 0 ? "" : barrier(comm); },
      [&] { machines.end(0); });
  CHECK(results[1].text == "ranks 0 and 2 ended: the connection to their machine closed");
  CHECK(results[2].text == "ranks 0 and 1 ended: the connection to their machine closed");
}

TEST_CASE("between machines there are no symmetric buffers, and plugins can know") {
  const auto body = [](SharedCommunicator& comm) {
    const fk_comm& c = *comm.table();
    if (fk_comm_library(&c) != FK_LIBRARY_NONE) return std::string("a library");
    const bool told = fk_comm_has_symmetric(&c) != 0;
    const fk_symmetric* view = nullptr;
    if (told != (c.symmetric(&c, 0, &view) == FK_OK)) return std::string("it was told otherwise");
    return std::string(c.error(&c));
  };
  all_say(run_ranks(2, 30, body), "");
  const auto results = Machines({{0}, {1}}).run(30, body);
  for (const auto& result : results)
    CHECK_THAT(
        result.text,
        ContainsSubstring("there are no symmetric buffers between ranks on several machines"));
}
