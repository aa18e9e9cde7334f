// SPDX-License-Identifier: Apache-2.0
// If this fails, a request's answer depends on the requests beside it, or on the cuts of its
// prompt. Or it depends on its removal from the cache and its return.
#include "core/engines/generate/generate.hpp"

#include "core/engines/generate/host_sampling.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"
#include "test/unit/engines/fake_model.hpp"

namespace {

struct Setting {
  int64_t max_batch, max_context, chunk, rows, page_size, pages;
};

struct Outcome {
  mutant::Exchange exchange;
  int64_t prefills = 0, decodes = 0, ahead = 0;
  std::set<int64_t> batches;  // of decode
};

Outcome serve(const Setting& s, const std::vector<fk::Request>& requests, size_t per_poll = 1000,
              std::vector<int64_t> eos = {}, bool replay = false, fk::KvPagePool* pool = nullptr,
              mutant::Cache* kept = nullptr) {
  const int64_t width = (s.max_context + s.page_size - 1) / s.page_size;
  mutant::Cache own(static_cast<size_t>(s.pages * s.page_size));
  mutant::Cache& cache = kept ? *kept : own;
  mutant::Program prefill(cache, {{"T", s.chunk}, {"B", s.max_batch}, {"Q", s.rows}, {"W", width}},
                          s.page_size, false);
  mutant::Program decode(cache, {{"B", s.max_batch}, {"W", width}}, s.page_size, true);
  decode.replay = replay;
  Outcome out;
  out.exchange.per_poll = per_poll;
  out.exchange.requests.assign(requests.begin(), requests.end());
  fk::GenerateSetup setup{s.max_batch, s.max_context,  s.page_size,
                          s.pages,     mutant::kVocab, std::move(eos)};
  setup.pool = pool;
  fk::generate(prefill, decode, out.exchange, setup);
  out.prefills = prefill.runs;
  out.decodes = decode.runs;
  out.ahead = decode.ahead;
  out.batches = decode.batches;
  return out;
}

fk::Request request(uint64_t id, int64_t prompt, int64_t new_tokens, fk::Random& random) {
  fk::Request r;
  r.id = id;
  for (int64_t i = 0; i < prompt; ++i) r.tokens.push_back(random.integer(0, mutant::kVocab));
  r.new_tokens = new_tokens;
  return r;
}

std::vector<fk::Request> mixed(int count, int64_t prompt_max, int64_t new_max, uint64_t seed) {
  fk::Random random(seed);
  std::vector<fk::Request> requests;
  for (int i = 0; i < count; ++i) {
    requests.push_back(request(static_cast<uint64_t>(i) + 1, random.integer(1, prompt_max + 1),
                               random.integer(1, new_max + 1), random));
    if (i % 3 == 1) requests.back().sampling = {1.F, 0, 1.F, random.next()};
    if (i % 4 == 2) requests.back().forced = {1, 2, 3};
    requests.back().logits = i % 5 == 0;
    requests.back().prompt_logits = i % 5 <= 1;
    if (i % 2 == 1) requests.back().first_logits = random.integer(0, prompt_max);
  }
  return requests;
}

// Every position that was asked for, once, in order, each with the answer to its context.
void check_scores(const fk::Request& r, const Outcome& out) {
  const auto prompt = static_cast<int64_t>(r.tokens.size());
  std::vector<int64_t> context = r.tokens;
  const auto generated = mutant::expected(r);
  context.insert(context.end(), generated.begin(), generated.end());
  std::vector<std::pair<int64_t, int64_t>> want;
  for (int64_t p = 0; p < prompt + r.new_tokens - 1; ++p) {
    const bool scored = r.prompt_logits && p < prompt && p >= std::min(r.first_logits, prompt - 1);
    if (!scored && !(r.logits && p >= prompt - 1)) continue;
    const bool samples = p >= prompt - 1;
    const float uniform = samples ? fk::sampling_uniform(r.sampling.seed, p - prompt + 1) : 0;
    want.emplace_back(
        p, mutant::answer({context.begin(), context.begin() + static_cast<std::ptrdiff_t>(p) + 1},
                          samples ? r.sampling.temperature : 0, uniform));
  }
  const auto it = out.exchange.scored.find(r.id);
  CHECK((it == out.exchange.scored.end() ? decltype(want){} : it->second) == want);
}

Outcome check_all(const Setting& s, const std::vector<fk::Request>& requests, size_t per_poll,
                  bool replay = false) {
  const Outcome out = serve(s, requests, per_poll, {}, replay);
  CHECK(out.exchange.failures.empty());
  for (const auto& r : requests) {
    INFO("request " << r.id);
    const auto it = out.exchange.tokens.find(r.id);
    REQUIRE(it != out.exchange.tokens.end());
    CHECK(it->second == mutant::expected(r));
    CHECK(out.exchange.done.at(r.id));
    check_scores(r, out);
  }
  return out;
}

}  // namespace

TEST_CASE("generate_gives_every_request_what_it_would_get_alone") {
  const auto requests = mixed(40, 50, 30, 3);
  check_all({8, 96, 512, 64, 16, 48}, requests, 1000);  // roomy
  check_all({8, 96, 7, 8, 4, 200}, requests, 3);        // small chunks, late arrivals
  check_all({1, 96, 16, 1, 16, 6}, requests, 1);        // one at a time
  check_all({5, 80, 13, 5, 3, 40}, requests, 2);        // odd sizes
}

TEST_CASE("generate_preempts_when_pages_run_out_and_the_result_is_the_same") {
  const auto requests = mixed(24, 10, 40, 5);
  const Setting tight{8, 64, 32, 16, 4, 20};  // 80 slots for 8 requests of up to 50 tokens
  check_all(tight, requests, 1000);
  const Outcome out = serve(tight, requests), roomy = serve({8, 64, 32, 16, 4, 400}, requests);
  CHECK(out.prefills > roomy.prefills);  // what was evicted was computed again
}

TEST_CASE("generate_refuses_what_can_never_run_and_goes_on") {
  fk::Random random(1);
  std::vector<fk::Request> requests;
  for (uint64_t id = 1; id <= 9; ++id) requests.push_back(request(id, 5, 4, random));
  requests[0].tokens.clear();
  requests[1].tokens[3] = mutant::kVocab;
  requests[2].tokens[0] = -1;
  requests[3].new_tokens = 1000;
  requests[4].new_tokens = 0;
  requests[5].forced = {mutant::kVocab};
  requests[6].sampling.temperature = -1;
  requests[7] = request(8, 40, 20, random);  // 59 slots of 48
  const Outcome out = serve({4, 64, 16, 4, 8, 6}, requests);
  CHECK(out.exchange.tokens.size() == 1);
  CHECK(out.exchange.tokens.at(9) == mutant::expected(requests[8]));
  REQUIRE(out.exchange.failures.size() == 8);
  CHECK_THAT(out.exchange.failures.at(2), ContainsSubstring("prompt token 3 is 97"));
  CHECK_THAT(out.exchange.failures.at(4), ContainsSubstring("exceed the context of 64"));
  CHECK_THAT(out.exchange.failures.at(8), ContainsSubstring("needs 8 pages"));
}

TEST_CASE("generate_uses_the_last_page_of_a_cache_that_just_fits") {
  fk::Random random(2);
  const auto r = request(1, 40, 9, random);  // the last token needs no slot: 48 = 6 pages
  const Outcome out = serve({4, 64, 16, 4, 8, 6}, {r});
  CHECK(out.exchange.tokens.at(1) == mutant::expected(r));
}

TEST_CASE("generate_scores_a_prompt_without_new_tokens") {
  fk::Random random(4);
  auto r = request(1, 33, 0, random);
  r.prompt_logits = true;
  const Outcome out = serve({2, 64, 16, 4, 8, 16}, {r});
  CHECK(out.exchange.failures.empty());
  CHECK(out.exchange.tokens.empty());
  r.new_tokens = 1;
  check_scores(r, out);
}

TEST_CASE("generate_stops_at_an_end_token_only_when_asked") {
  fk::Random random(6);
  auto r = request(1, 6, 30, random);
  const auto all = mutant::expected(r);
  const Outcome on = serve({2, 64, 16, 4, 8, 16}, {r}, 1000, {all[4]});
  CHECK(on.exchange.tokens.at(1) == all);
  r.ignore_eos = false;
  const Outcome off = serve({2, 64, 16, 4, 8, 16}, {r}, 1000, {all[4]});
  const auto& got = off.exchange.tokens.at(1);
  CHECK(got.back() == all[4]);
  CHECK(got.size() <= 5);
  CHECK(off.exchange.done.at(1));
}

TEST_CASE("generate_batches_decode_steps") {
  fk::Random random(8);
  std::vector<fk::Request> requests;
  for (uint64_t id = 1; id <= 8; ++id) requests.push_back(request(id, 16, 11, random));
  const Outcome out = serve({8, 64, 512, 64, 16, 64}, requests);
  CHECK(out.prefills == 1);
  CHECK(out.decodes == 10);
}

// If this fails, a shared page has other tokens than the request's, or nothing is shared.
TEST_CASE("generate_shares_the_pages_of_equal_beginnings") {
  fk::Random random(31);
  const auto begin = request(1, 40, 1, random).tokens;
  std::vector<fk::Request> requests;
  for (uint64_t id = 1; id <= 40; ++id) {
    auto r = request(id, random.integer(1, 12), random.integer(1, 9), random);
    const auto common = random.integer(0, 41);
    r.tokens.insert(r.tokens.begin(), begin.begin(), begin.begin() + common);
    r.shares_prefix = id % 5 != 0;
    r.logits = id % 3 == 0;
    requests.push_back(r);
  }
  for (const int64_t pages : {200, 30}) {  // with 30, names are lost and requests are preempted
    const Setting setting{6, 80, 8, 8, 4, pages};
    mutant::Cache cache(static_cast<size_t>(setting.pages * setting.page_size));
    fk::KvPagePool pool(setting.pages);
    const Outcome plain = serve(setting, requests, 3);
    const Outcome first = serve(setting, requests, 3, {}, pages == 200, &pool, &cache);
    CHECK(first.exchange.tokens == plain.exchange.tokens);
    CHECK(pool.free() == setting.pages);
    const Outcome later = serve(setting, requests, 3, {}, false, &pool, &cache);
    CHECK(later.exchange.tokens == plain.exchange.tokens);
    CHECK(first.prefills < plain.prefills);
    if (pages == 200) CHECK(later.prefills < first.prefills);
  }
}

TEST_CASE("host_sampler_applies_penalties_and_min_p") {
  fk::HostSampler sampler;
  const std::vector<float> logits = {1.F, 3.F, 2.9F, -1.F};
  const auto choose = [&](const fk::Sampling& s, const std::vector<int64_t>& tokens, int64_t prompt,
                          float uniform = 0.5F) {
    std::vector<float> row = logits;
    return sampler.choose(row, tokens, prompt, s, uniform);
  };
  CHECK(choose({}, {1, 1}, 1) == 1);
  CHECK(choose({.presence_penalty = 0.2F}, {1, 1}, 1) == 2);  // in the answer
  CHECK(choose({.presence_penalty = 0.2F}, {1, 1}, 2) == 1);  // in the prompt alone
  CHECK(choose({.presence_penalty = 0.2F}, {1, 2}, 0) == 1);  // both alike
  CHECK(choose({.frequency_penalty = 0.2F}, {1, 2, 1}, 0) == 2);
  CHECK(choose({.repetition_penalty = 4.F}, {1, 2}, 2) == 0);
  CHECK(choose({.repetition_penalty = 4.F}, {0, 1, 2}, 3) == 1);
  CHECK(choose({.repetition_penalty = 0.5F}, {3}, 1) == 1);  // -1 becomes -0.5
  // The parts of the largest probability are exp(-2), 1, exp(-0.1) and exp(-4).
  fk::Sampling warm{.temperature = 1.F};
  CHECK(choose(warm, {}, 0, 0.999F) == 3);
  warm.min_p = 0.1F;
  CHECK(choose(warm, {}, 0, 0.999F) == 0);
  warm.min_p = 0.5F;
  CHECK(choose(warm, {}, 0, 0.999F) == 2);
  CHECK(choose(warm, {}, 0, 0.1F) == 1);
  warm.min_p = 1.F;
  CHECK(choose(warm, {}, 0, 0.999F) == 1);
}

TEST_CASE("generate_samples_on_the_host_as_on_the_device") {
  fk::Random random(33);
  auto plain = request(1, 6, 12, random), beside = request(2, 9, 12, random);
  auto changed = plain;
  changed.sampling.min_p = 0.5F;  // greedy: without effect
  const Outcome device = serve({2, 64, 16, 4, 8, 16}, {plain, beside});
  const Outcome host = serve({2, 64, 16, 4, 8, 16}, {changed, beside}, 1000, {}, true);
  CHECK(host.exchange.tokens == device.exchange.tokens);
  changed.sampling.presence_penalty = 2;  // the mutant's logits are 0 and 1: no token comes twice
  const Outcome other = serve({2, 64, 16, 4, 8, 16}, {changed, beside});
  const auto& said = other.exchange.tokens.at(1);
  CHECK(std::set<int64_t>(said.begin(), said.end()).size() == said.size());
  CHECK(other.exchange.tokens.at(2) == device.exchange.tokens.at(2));
  changed.sampling.repetition_penalty = 0;
  CHECK(serve({2, 64, 16, 4, 8, 16}, {changed}).exchange.failures.count(1) == 1);
}

TEST_CASE("sampling_uniform_depends_on_seed_and_index_alone") {
  CHECK(fk::sampling_uniform(1, 0) == fk::sampling_uniform(1, 0));
  CHECK(fk::sampling_uniform(1, 0) != fk::sampling_uniform(2, 0));
  CHECK(fk::sampling_uniform(1, 0) != fk::sampling_uniform(1, 1));
  double sum = 0;
  for (int64_t i = 0; i < 10000; ++i) {
    const float u = fk::sampling_uniform(42, i);
    CHECK((u >= 0 && u < 1));
    sum += static_cast<double>(u);
  }
  CHECK(sum / 10000 == Approx(0.5).margin(0.02));
}

TEST_CASE("generate_runs_captured_decode_at_few_batches") {
  const Setting setting{40, 64, 64, 64, 4, 2000};
  const auto requests = mixed(60, 20, 30, 11);
  const Outcome exact = serve(setting, requests);
  const Outcome padded = serve(setting, requests, 1000, {}, true);
  CHECK(padded.exchange.tokens == exact.exchange.tokens);
  CHECK(padded.decodes == exact.decodes);
  for (const int64_t batch : padded.batches) CHECK(batch == fk::decode_batch(batch));
  CHECK(exact.batches != padded.batches);  // the case has batches that are padded
  CHECK(*padded.batches.rbegin() <= setting.max_batch);
}

TEST_CASE("generate_runs_ahead_and_the_result_is_the_same") {
  auto requests = mixed(40, 50, 30, 3);
  for (const Setting& s : {Setting{8, 96, 512, 64, 16, 48}, Setting{8, 96, 7, 8, 4, 200},
                           Setting{1, 96, 16, 1, 16, 6}, Setting{5, 80, 13, 5, 3, 40}})
    for (const size_t per_poll : {1000UL, 3UL, 1UL})
      CHECK(check_all(s, requests, per_poll, true).ahead > 10);
  // Pages run out, and who leaves comes back.
  check_all({8, 64, 32, 16, 4, 20}, mixed(24, 10, 40, 5), 1000, true);
  // Only the first decode step after a prefill waits, and the one in which requests end.
  fk::Random random(8);
  requests.clear();
  for (uint64_t id = 1; id <= 8; ++id) requests.push_back(request(id, 16, 11, random));
  const Outcome out = serve({8, 64, 512, 64, 16, 64}, requests, 1000, {}, true);
  CHECK(out.decodes == 10);
  CHECK(out.ahead == 9);
}

TEST_CASE("generate_that_runs_ahead_ends_with_the_end_token") {
  fk::Random random(6);
  std::vector<fk::Request> requests;
  std::vector<int64_t> ends;
  for (uint64_t id = 1; id <= 12; ++id) {
    requests.push_back(request(id, 6, 30, random));
    requests.back().ignore_eos = id % 4 == 0;
    if (id % 5 == 1) ends.push_back(mutant::expected(requests.back())[id]);
  }
  const Setting s{4, 64, 16, 4, 4, 40};
  const Outcome plain = serve(s, requests, 2, ends), ahead = serve(s, requests, 2, ends, true);
  CHECK(ahead.ahead > 10);
  CHECK(ahead.exchange.tokens == plain.exchange.tokens);
  CHECK(ahead.exchange.done == plain.exchange.done);
  size_t ended = 0;
  for (const auto& [id, tokens] : ahead.exchange.tokens) ended += tokens.size() < 30;
  CHECK(ended >= 3);
}

TEST_CASE("decode_batch_is_close_above") {
  CHECK(fk::decode_batch(1) == 1);
  CHECK(fk::decode_batch(16) == 16);
  CHECK(fk::decode_batch(17) == 18);
  CHECK(fk::decode_batch(33) == 36);
  CHECK(fk::decode_batch(256) == 256);
  std::set<int64_t> sizes;
  for (int64_t count = 1; count <= 256; ++count) {
    const int64_t batch = fk::decode_batch(count);
    CHECK(batch >= count);
    CHECK(8 * (batch - count) <= count);
    CHECK(fk::decode_batch(batch) == batch);
    sizes.insert(batch);
  }
  CHECK(sizes.size() == 48);
}
