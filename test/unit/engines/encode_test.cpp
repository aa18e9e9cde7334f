// SPDX-License-Identifier: Apache-2.0
// If this fails, texts of one batch get each other's vectors, or positions do not count as the
// model wants.
#include "core/engines/encode/encode.hpp"

#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "core/base/error.hpp"
#include "test/catch.hpp"

namespace {

// Gives every token the vector (id, position, number of tokens of its text); or every text the
// first token's.
class EncodeProgram : public fk::Program {
 public:
  EncodeProgram(int64_t tokens, int64_t batch)
      : limits_{tokens, batch},
        ids_(at(tokens)),
        positions_(at(tokens)),
        types_(at(tokens), 9),
        starts_(at(batch) + 1),
        first_rows_(at(batch), 99),
        one_each_(at(batch) + 1, 99) {}
  int axis(const std::string& name) const override { return name == "T" ? 0 : 1; }
  int64_t limit(const std::string& axis) const override {
    return axis == "T" ? limits_[0] : limits_[1];
  }
  void bind(int axis, int64_t value) override {
    if (value > limits_[axis]) fk::fail("mutant", "axis out of range");
    bound_[axis] = value;
  }
  void* input(const std::string& name) override {
    if (name == "ids") return ids_.data();
    if (name == "positions") return positions_.data();
    if (name == "types") return types_.data();
    if (name == "cu_seqlens") return starts_.data();
    if (!of_texts) return nullptr;
    return name == "first_rows" ? first_rows_.data() : one_each_.data();
  }
  void run() override {
    ++runs;
    out_.clear();
    for (size_t b = 0; b < at(bound_[1]); ++b) {
      for (int32_t t = starts_[b]; t < starts_[b + 1]; ++t) {
        const size_t i = at(t);
        if (types_[i] != 0) fk::fail("mutant", "another type than 0");
        out_.push_back(static_cast<float>(ids_[i]));
        out_.push_back(static_cast<float>(positions_[i]));
        out_.push_back(static_cast<float>(starts_[b + 1] - starts_[b]));
      }
    }
    if (starts_[at(bound_[1])] != bound_[0]) fk::fail("mutant", "starts and tokens disagree");
    if (!of_texts) return;
    const std::vector<float> all = std::exchange(out_, {});
    for (size_t b = 0; b < at(bound_[1]); ++b) {
      if (one_each_[b + 1] != one_each_[b] + 1) fk::fail("mutant", "not one query of each text");
      const auto first = all.begin() + 3 * first_rows_[b];
      out_.insert(out_.end(), first, first + 3);
    }
  }
  Output output(const std::string&) const override {
    return {fk::DType::f32, {bound_[of_texts ? 1 : 0], 3}};
  }
  void read(const std::string&, void* host, int64_t bytes) override {
    if (static_cast<size_t>(bytes) != out_.size() * 4) fk::fail("mutant", "a read of another size");
    std::memcpy(host, out_.data(), out_.size() * 4);
  }
  void set_marker(volatile int32_t*) override {}
  void set_taps(fk::TapSink) override {}
  void set_watch(fk::NodeWatch*) override {}
  const std::vector<NodeInfo>& nodes() const override { return nodes_; }
  int64_t arena_bytes() const override { return 0; }
  int runs = 0;
  bool of_texts = false;

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  int64_t limits_[2], bound_[2]{};
  std::vector<int64_t> ids_, positions_, types_;
  std::vector<int32_t> starts_, first_rows_, one_each_;
  std::vector<float> out_;
  std::vector<NodeInfo> nodes_;
};

class EncodeExchange : public fk::Exchange {
 public:
  std::deque<fk::Request> requests;
  std::map<uint64_t, std::vector<float>> got;
  std::map<uint64_t, std::string> failures;
  bool next(fk::Request& request, bool) override {
    if (requests.empty()) return false;
    request = std::move(requests.front());
    requests.pop_front();
    return true;
  }
  void token(uint64_t, int64_t, int64_t, bool) override {}
  void logits(uint64_t, int64_t, const float*, int64_t) override {}
  void tensor(uint64_t id, const std::string& name, const std::vector<int64_t>& shape,
              const float* values) override {
    const bool of_text = name == "embedding" && shape == std::vector<int64_t>{3};
    if (!of_text && (name != "last_hidden_state" || shape[1] != 3))
      fk::fail("mutant", "another tensor");
    got[id].assign(values, values + (of_text ? 3 : shape[0] * shape[1]));
  }
  void failed(uint64_t id, const std::string& why) override { failures[id] = why; }
  void progress(const std::string&) override {}
};

fk::Request text(uint64_t id, std::vector<int64_t> tokens) {
  fk::Request r;
  r.id = id;
  r.tokens = std::move(tokens);
  return r;
}

fk::EncodeSetup setup() {
  fk::EncodeSetup s;
  s.max_context = 5;
  s.vocab_size = 100;
  return s;
}

}  // namespace

TEST_CASE("encode_packs_by_token_budget_and_batch") {
  EncodeProgram program(8, 3);
  EncodeExchange exchange;
  for (uint64_t id = 1; id <= 7; ++id)
    exchange.requests.push_back(
        text(id, std::vector<int64_t>(1 + id % 4, static_cast<int64_t>(id))));
  fk::encode(program, exchange, setup());
  CHECK(exchange.got.size() == 7);
  for (const auto& [id, values] : exchange.got) {
    const auto n = static_cast<size_t>(1 + id % 4);
    REQUIRE(values.size() == n * 3);
    for (size_t t = 0; t < n; ++t) {
      CHECK(values[t * 3] == static_cast<float>(id));
      CHECK(values[t * 3 + 1] == static_cast<float>(t));
      CHECK(values[t * 3 + 2] == static_cast<float>(n));
    }
  }
  CHECK(program.runs == 3);  // 2+3, 4+1+2, 3+4
}

TEST_CASE("encode_counts_positions_from_an_offset_and_skips_pads") {
  EncodeProgram program(8, 3);
  EncodeExchange exchange;
  exchange.requests.push_back(text(1, {7, 1, 8}));
  fk::EncodeSetup s = setup();
  s.options.position_offset = 2;
  s.options.pad_token = 1;
  fk::encode(program, exchange, s);
  CHECK(exchange.got.at(1) == std::vector<float>{7, 2, 3, 1, 1, 3, 8, 3, 3});
}

TEST_CASE("encode_gives_one_vector_of_each_text") {
  EncodeProgram program(8, 3);
  program.of_texts = true;
  EncodeExchange exchange;
  for (uint64_t id = 1; id <= 7; ++id)
    exchange.requests.push_back(
        text(id, std::vector<int64_t>(1 + id % 4, static_cast<int64_t>(id))));
  fk::EncodeSetup s = setup();
  s.options.output = "embedding";
  s.options.of_texts = true;
  fk::encode(program, exchange, s);
  for (uint64_t id = 1; id <= 7; ++id)
    CHECK(exchange.got.at(id) ==
          std::vector<float>{static_cast<float>(id), 0, static_cast<float>(1 + id % 4)});
}

TEST_CASE("encode_refuses_what_it_cannot_take_and_goes_on") {
  EncodeProgram program(8, 3);
  EncodeExchange exchange;
  exchange.requests = {text(1, {}), text(2, {1, 2, 3, 4, 5, 6}), text(3, {100}), text(4, {5})};
  fk::encode(program, exchange, setup());
  CHECK(exchange.got.size() == 1);
  CHECK_THAT(exchange.failures.at(2), ContainsSubstring("exceed the context of 5"));
  CHECK_THAT(exchange.failures.at(3), ContainsSubstring("token 0 is 100"));
  CHECK(exchange.failures.count(1) == 1);
}
