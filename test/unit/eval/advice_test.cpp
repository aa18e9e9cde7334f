// SPDX-License-Identifier: Apache-2.0
// Advice from a recording and benches: calls times times, and Amdahl's law.
#include "core/eval/advice.hpp"

#include <nlohmann/json.hpp>

#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

using namespace fk;

namespace {

Json recorded_case(const char* op, const char* name, const char* path, int count) {
  return {{"op", op},          {"name", name}, {"phase", "decode"},
          {"provider", "cpu"}, {"path", path}, {"count", count}};
}
Json bench_row(const char* op, const char* name, const char* provider, double cold,
               double roofline) {
  return {{"op", op},       {"case", name},         {"provider", provider}, {"why", ""},
          {"cold_s", cold}, {"roofline", roofline}, {"of_copy", 0.8}};
}

}  // namespace

TEST_CASE("advice_is_calls_times_seconds_and_amdahls_law") {
  const Json index = {{"scenario", "small"},
                      {"profile", "tiny"},
                      {"dtype", "f32"},
                      {"device", "cpu"},
                      {"ops",
                       {{{"op", "linear"}, {"phase", "decode"}, {"calls", 30}},
                        {{"op", "rms_norm"}, {"phase", "decode"}, {"calls", 10}}}},
                      {"cases",
                       {recorded_case("linear", "d0", "model.layers.0.q", 10),
                        recorded_case("linear", "d1", "model.layers.1.k", 5),
                        recorded_case("rms_norm", "d0", "model.layers.0.norm", 10)}}};
  // linear: 30 calls of which 15 were kept: 2 * (10 * 0.2 + 5 * 0.4) = 8 s. rms_norm: 2 s.
  const Json linear = {
      {"rows",
       {bench_row("linear", "d0", "cpu", 0.2, 0.5), bench_row("linear", "d0", "other", 0.1, 1),
        bench_row("linear", "d0", "reference", 0.01, 1), bench_row("linear", "d1", "cpu", 0.4, 0.5),
        bench_row("linear", "d1", "other", 0.4, 1)}}};
  const Json norm = {
      {"rows",
       {bench_row("rms_norm", "d0", "cpu", 0.2, 0), bench_row("rms_norm", "d0", "other", 0.3, 0)}}};
  const Advice a = advice_of(index, {linear, norm}, catalog());
  CHECK(a.seconds == Approx(10));
  REQUIRE(a.ops.size() == 2);
  const AdviceRow& first = a.ops[0];
  CHECK(first.op == "linear");
  CHECK(first.calls == 30);
  CHECK(first.share == Approx(0.8));
  CHECK(first.limit == "roofline");
  CHECK(*first.of_limit == Approx(0.5));
  CHECK(*first.gain == Approx(10.0 / 6));  // 8 s become 4 s
  CHECK(*first.most_gain == Approx(5));
  CHECK(first.best == "other");                 // the oracle is no rival
  CHECK(*first.best_gain == Approx(10.0 / 8));  // 8 s become 2 * (10 * 0.1 + 5 * 0.4) = 6 s
  CHECK(a.ops[1].limit == "copy");              // no roofline is known
  CHECK(*a.ops[1].gain == Approx(10 / 9.6));
  CHECK(a.ops[1].best.empty());
  REQUIRE(a.places.size() == 3);
  CHECK(a.places[2].place == "model.layers.*.norm");  // the shortest
  CHECK(a.notes.empty());
}

TEST_CASE("advice_names_calls_without_a_time") {
  const Json index = {{"ops", {{{"op", "linear"}, {"phase", "decode"}, {"calls", 1}}}},
                      {"cases", {recorded_case("linear", "d0", "q", 1)}}};
  const Advice a = advice_of(index, {}, catalog());
  CHECK(a.ops.empty());
  REQUIRE(a.notes.size() == 1);
  CHECK_THAT(a.notes[0], ContainsSubstring("linear d0"));
}
