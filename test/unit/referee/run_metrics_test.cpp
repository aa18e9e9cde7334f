// SPDX-License-Identifier: Apache-2.0
// Numbers of speed: known samples give known figures, and noise is not called a speedup.
#include "core/referee/metrics.hpp"

#include "test/catch.hpp"

using namespace fk;

namespace {

RequestResult result(int64_t prompt, const std::vector<double>& token_s) {
  RequestResult r;
  r.request.tokens.resize(static_cast<size_t>(prompt));
  r.tokens.resize(token_s.size());
  r.token_s = token_s;
  r.done_s = token_s.back();
  return r;
}

}  // namespace

TEST_CASE("metrics_figure_of_known_values") {
  const Figure f = figure_of({5, 1, 2, 3, 4});
  CHECK(f.median == 3);
  CHECK(f.p10 == Approx(1.4));
  CHECK(f.p90 == Approx(4.6));
  CHECK(figure_of({}).count == 0);
}

TEST_CASE("metrics_round_of_two_requests") {
  Round round;
  round.start_s = 10;
  round.end_s = 14;
  round.requests[1] = result(30, {11, 12, 13});
  round.requests[2] = result(30, {12, 13, 14});
  SpeedSamples s;
  s.add(round, true);
  CHECK(s.total_s == std::vector<double>{4});
  CHECK(s.prefill_tokens_s[0] == Approx(60.0 / 2));
  CHECK(s.decode_tokens_s[0] == Approx(3.0 / 2));  // after 12: tokens at 13, 13 and 14
  CHECK(s.first_token_s == std::vector<double>{1, 2});
  CHECK(s.token_s == std::vector<double>{1, 1});
  SpeedSamples mixed;
  mixed.add(round, false);
  CHECK(mixed.decode_tokens_s[0] == Approx(4.0 / 3));  // after 11
}

TEST_CASE("metrics_verdicts") {
  const std::vector<double> base(8, 2.0);
  CHECK(speed_verdict(speedup_of(base, std::vector<double>(8, 1.0))) == "faster");
  CHECK(speedup_of(base, std::vector<double>(8, 1.0)).median == 2);
  CHECK(speed_verdict(speedup_of(base, std::vector<double>(8, 3.0))) == "slower");
  CHECK(speed_verdict(speedup_of(base, base)) == "same");
  CHECK(speed_verdict(speedup_of(base, {1, 3, 1.5, 2.5, 1, 3, 2, 2})) == "cannot tell");
  CHECK(speed_verdict(speedup_of({2, 2}, {1, 1})) == "cannot tell");
}
