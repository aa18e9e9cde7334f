// SPDX-License-Identifier: Apache-2.0
// If this fails, a request's answer depends on the requests beside it. Or masks are not filled in
// the order of certainty, or a given order is not kept.
#include "core/engines/masked_diffusion/masked_diffusion.hpp"

#include <cstring>
#include <deque>
#include <map>
#include <numeric>

#include "core/base/error.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

namespace {

constexpr int64_t kVocab = 61, kMask = 60, kBlock = 5, kSteps = 3;

// The answer to a position of a text, and how sure it is: hashes of all of it.
struct Answer {
  int64_t token = 0;
  float logprob = 0;
};
Answer answer(const std::vector<int64_t>& text, int64_t position) {
  uint64_t h = static_cast<uint64_t>(position) + 1;
  for (const int64_t token : text)
    h = (h ^ static_cast<uint64_t>(token + 1)) * 0x9E3779B97F4A7C15ULL + 0x632BE59BD9B4E019ULL;
  return {static_cast<int64_t>((h >> 40) % kMask), -static_cast<float>((h >> 20) % 1000) / 100};
}

class DiffuseProgram : public fk::Program {
 public:
  DiffuseProgram(int64_t tokens, int64_t batch, int64_t rows) : limits_{tokens, batch, rows} {
    for (const char* name : {"ids", "positions"}) make(name, tokens * 8);
    make("cu_seqlens", (batch + 1) * 4);
    for (const char* name : {"rows", "temperature", "top_k", "top_p", "uniform"})
      make(name, rows * 4);
  }
  int axis(const std::string& name) const override { return name == "T" ? 0 : name == "B" ? 1 : 2; }
  int64_t limit(const std::string& name) const override { return limits_[axis(name)]; }
  void bind(int axis, int64_t value) override {
    if (value > limits_[axis]) fk::fail("mutant", "axis out of range");
    bound_[axis] = value;
  }
  void* input(const std::string& name) override { return inputs_.at(name).data(); }
  void run() override {
    ++runs;
    tokens_.clear();
    logprobs_.clear();
    for (int64_t q = 0; q < bound_[2]; ++q) {
      const auto row = in<int32_t>("rows", q);
      int64_t b = 0;
      while (in<int32_t>("cu_seqlens", b + 1) <= row) ++b;
      const int64_t first = in<int32_t>("cu_seqlens", b);
      std::vector<int64_t> text;
      for (int64_t t = first; t < in<int32_t>("cu_seqlens", b + 1); ++t) {
        if (in<int64_t>("positions", t) != t - first) fk::fail("mutant", "another position");
        text.push_back(in<int64_t>("ids", t));
      }
      const Answer a = answer(text, row - first);
      tokens_.push_back(a.token);
      logprobs_.push_back(a.logprob);
    }
  }
  Output output(const std::string&) const override { fk::fail("mutant", "nobody needs it"); }
  void read(const std::string& output, void* host, int64_t bytes) override {
    std::vector<float> logits(tokens_.size() * kVocab);
    for (size_t q = 0; q < tokens_.size(); ++q)
      logits[q * kVocab + static_cast<size_t>(tokens_[q])] = 1;
    const void* from = output == "tokens"    ? static_cast<const void*>(tokens_.data())
                       : output == "logprob" ? logprobs_.data()
                                             : logits.data();
    const size_t have = output == "tokens"    ? tokens_.size() * 8
                        : output == "logprob" ? logprobs_.size() * 4
                                              : logits.size() * 4;
    if (have != static_cast<size_t>(bytes)) fk::fail("mutant", "a read of another size");
    if (have > 0) std::memcpy(host, from, have);
  }
  void set_taps(fk::TapSink) override {}
  void set_watch(fk::NodeWatch*) override {}
  void set_marker(volatile int32_t*) override {}
  const std::vector<NodeInfo>& nodes() const override { return nodes_; }
  int64_t arena_bytes() const override { return 0; }
  int runs = 0;

 private:
  void make(const char* name, int64_t bytes) { inputs_[name].resize(static_cast<size_t>(bytes)); }
  template <class T>
  T in(const char* name, int64_t index) const {
    T out;
    std::memcpy(&out, inputs_.at(name).data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return out;
  }
  int64_t limits_[3], bound_[3] = {};
  std::map<std::string, std::vector<char>> inputs_;
  std::vector<int64_t> tokens_;
  std::vector<float> logprobs_;
  std::vector<NodeInfo> nodes_;
};

struct Got {
  std::map<int64_t, int64_t> tokens, logits;  // by index; position: argmax
  std::vector<int64_t> order;
  std::string failure;
  bool done = false;
};

class DiffuseExchange : public fk::Exchange {
 public:
  std::deque<fk::Request> requests;
  std::map<uint64_t, Got> got;
  bool next(fk::Request& request, bool wait) override {
    if (requests.empty() || (!wait && late)) return false;
    request = std::move(requests.front());
    requests.pop_front();
    return true;
  }
  void token(uint64_t id, int64_t index, int64_t token, bool last) override {
    CHECK_FALSE(got[id].done);
    CHECK(got[id].tokens.emplace(index, token).second);
    got[id].order.push_back(index);
    got[id].done = last;
  }
  void logits(uint64_t id, int64_t position, const float* values, int64_t count) override {
    CHECK(
        got[id].logits.emplace(position, std::max_element(values, values + count) - values).second);
  }
  void tensor(uint64_t, const std::string&, const std::vector<int64_t>&, const float*) override {}
  void failed(uint64_t id, const std::string& why) override { got[id].failure = why; }
  void progress(const std::string&) override {}
  bool late = false;  // one request at a time
};

// The same by the book, for one request.
Got expected(const fk::Request& r) {
  Got got;
  const auto prompt = static_cast<int64_t>(r.tokens.size());
  if (r.prompt_logits)
    for (int64_t p = std::min(r.first_logits, prompt - 1); p < prompt; ++p)
      got.logits[p] = answer(r.tokens, p).token;
  std::vector<int64_t> text = r.tokens;
  text.resize(static_cast<size_t>(prompt + r.new_tokens), kMask);
  for (int64_t start = 0; start < r.new_tokens; start += kBlock) {
    const int64_t count = std::min(kBlock, r.new_tokens - start);
    std::vector<int64_t> open(static_cast<size_t>(count));
    std::iota(open.begin(), open.end(), start);
    for (int64_t step = 0; step < kSteps && !open.empty(); ++step) {
      const std::vector<int64_t> before = text;
      const auto at = [&](int64_t i) { return answer(before, prompt + i); };
      if (r.forced.empty()) {
        std::stable_sort(open.begin(), open.end(), [&](int64_t a, int64_t b) {
          return at(a).logprob > at(b).logprob || (at(a).logprob == at(b).logprob && a < b);
        });
      } else if (!r.order.empty()) {
        open.assign(r.order.begin() + static_cast<int64_t>(got.order.size()),
                    r.order.begin() + start + count);
      }
      for (int64_t n = fk::fixed_in_step(count, kSteps, step); n > 0; --n) {
        const int64_t i = open.front();
        open.erase(open.begin());
        got.order.push_back(i);
        const bool forced = i < static_cast<int64_t>(r.forced.size());
        got.tokens[i] = forced ? r.forced[static_cast<size_t>(i)] : at(i).token;
        if (r.logits) got.logits[prompt + i] = at(i).token;
        text[static_cast<size_t>(prompt + i)] = got.tokens[i];
      }
    }
  }
  return got;
}

std::vector<fk::Request> mixed(int count) {
  fk::Random random(7);
  std::vector<fk::Request> requests;
  for (int i = 0; i < count; ++i) {
    fk::Request& r = requests.emplace_back();
    r.id = static_cast<uint64_t>(i) + 1;
    for (int64_t n = random.integer(1, 20); n > 0; --n) r.tokens.push_back(random.integer(0, 61));
    r.new_tokens = random.integer(i % 6 == 0 ? 0 : 1, 14);
    r.prompt_logits = i % 3 == 0;
    if (i % 2 == 0) r.first_logits = i % 7;
    r.logits = i % 4 == 0;
    if (i % 5 != 2 && i % 5 != 3) continue;
    for (int64_t n = 0; n < r.new_tokens; ++n) r.forced.push_back(random.integer(0, 61));
    if (i % 5 == 2) r.order = expected(requests[static_cast<size_t>(i) - 1]).order;
    if (static_cast<int64_t>(r.order.size()) != r.new_tokens) r.order.clear();
    if (i % 5 != 2 || !r.order.empty()) continue;
    for (int64_t n = r.new_tokens; n-- > 0;) r.order.push_back(n);  // backwards within each block
    for (int64_t at = 0; at < r.new_tokens; at += kBlock) {
      const int64_t end = std::min(at + kBlock, r.new_tokens);
      for (int64_t n = at; n < end; ++n) r.order[static_cast<size_t>(n)] = end - 1 - (n - at);
    }
  }
  return requests;
}

DiffuseExchange serve(DiffuseProgram& program, const std::vector<fk::Request>& requests,
                      bool late) {
  DiffuseExchange exchange;
  exchange.late = late;
  exchange.requests.assign(requests.begin(), requests.end());
  fk::diffuse(program, exchange,
              {{.mask_token = kMask, .block_length = kBlock, .block_steps = kSteps}, 34, kVocab});
  return exchange;
}

}  // namespace

TEST_CASE("diffuse_gives_every_request_what_it_would_get_alone") {
  const auto requests = mixed(40);
  for (const auto& [tokens, batch, rows, late] :
       {std::tuple{500, 8, 64, false}, {40, 3, 5, false}, {34, 1, 6, false}, {90, 4, 13, true}}) {
    DiffuseProgram program(tokens, batch, rows);
    const DiffuseExchange exchange = serve(program, requests, late);
    for (const auto& r : requests) {
      INFO("request " << r.id << " of batches of " << batch);
      const auto it = exchange.got.find(r.id);
      const Got want = expected(r), got = it == exchange.got.end() ? Got{} : it->second;
      CHECK(got.failure.empty());
      CHECK(got.tokens == want.tokens);
      CHECK(got.order == want.order);
      CHECK(got.logits == want.logits);
      CHECK(got.done == (r.new_tokens > 0));
    }
  }
}

TEST_CASE("diffuse_spreads_a_block_over_its_steps") {
  CHECK(fk::fixed_in_step(8, 3, 0) == 3);
  CHECK(fk::fixed_in_step(8, 3, 1) == 3);
  CHECK(fk::fixed_in_step(8, 3, 2) == 2);
  CHECK(fk::fixed_in_step(2, 32, 1) == 1);
  CHECK(fk::fixed_in_step(2, 32, 2) == 0);
  DiffuseProgram program(100, 2, 8);
  fk::Request r;
  r.id = 1;
  r.tokens = {1, 2, 3};
  r.new_tokens = 12;  // blocks of 5, 5 and 2
  serve(program, {r}, false);
  CHECK(program.runs == 3 + 3 + 2);
}

TEST_CASE("diffuse_refuses_what_can_never_run_and_goes_on") {
  auto requests = std::vector<fk::Request>(8);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].id = i + 1;
    requests[i].tokens = {1, 2, 3};
    requests[i].new_tokens = 6;
  }
  requests[0].tokens.clear();
  requests[1].new_tokens = 32;  // one more than fits
  requests[2].tokens[1] = kVocab;
  requests[3].sampling.top_p = 0;
  requests[4].new_tokens = 0;
  requests[5].forced = {1, 2, 3, 4, 5, 6};
  requests[5].order = {0, 1, 2, 3, 5, 4};  // of two blocks
  requests[6].forced = requests[5].forced;
  requests[6].order = {0, 1, 2, 2, 4, 5};
  DiffuseProgram program(100, 4, 20);
  const DiffuseExchange exchange = serve(program, requests, false);
  for (uint64_t id = 1; id <= 7; ++id) CHECK_FALSE(exchange.got.at(id).failure.empty());
  CHECK(exchange.got.at(8).done);
  CHECK(exchange.got.at(8).failure.empty());
}
