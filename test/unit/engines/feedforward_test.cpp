// SPDX-License-Identifier: Apache-2.0
// If this fails, requests of one batch get each other's answers, or a request without its tensors
// is not refused.
#include "core/engines/feedforward/feedforward.hpp"

#include <cmath>
#include <cstring>
#include <deque>
#include <map>

#include "core/base/error.hpp"
#include "test/catch.hpp"

namespace {

// answer [B,2] = the sums of the two rows of image [B,2,3].
class PassProgram : public fk::Program {
 public:
  explicit PassProgram(int64_t batch) : batch_(batch), image_(static_cast<size_t>(batch) * 6) {}
  int axis(const std::string& name) const override { return name == "B" ? 0 : -1; }
  int64_t limit(const std::string&) const override { return batch_; }
  void bind(int, int64_t value) override { bound_ = value; }
  void* input(const std::string& name) override {
    if (name == "ids") return ids.data();
    return name == "image" ? image_.data() : nullptr;
  }
  void run() override {
    batches.push_back(bound_);
    answer_.assign(static_cast<size_t>(bound_) * 2, 0.F);
    for (size_t i = 0; i < answer_.size() * 3; ++i) answer_[i / 3] += image_[i];
  }
  Output output(const std::string& name) const override {
    if (name == "found") return {fk::DType::i64, {1}};
    if (name != "answer") fk::fail("mutant", "another output");
    return {fk::DType::f32, {bound_, 2}};
  }
  void read(const std::string& name, void* host, int64_t bytes) override {
    if (name == "found") {
      if (bytes != 8) fk::fail("mutant", "a read of another size");
      std::memcpy(host, &found, 8);
      return;
    }
    if (static_cast<size_t>(bytes) != answer_.size() * 4)
      fk::fail("mutant", "a read of another size");
    std::memcpy(host, answer_.data(), answer_.size() * 4);
  }
  void set_marker(volatile int32_t*) override {}
  void set_taps(fk::TapSink) override {}
  void set_watch(fk::NodeWatch*) override {}
  const std::vector<NodeInfo>& nodes() const override { return nodes_; }
  int64_t arena_bytes() const override { return 0; }
  std::vector<int64_t> batches;
  int64_t found = 0;
  std::vector<int64_t> ids = std::vector<int64_t>(6, -1);  // [B,2]

 private:
  int64_t batch_, bound_ = 0;
  std::vector<float> image_, answer_;
  std::vector<NodeInfo> nodes_;
};

class PassExchange : public fk::Exchange {
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
  void token(uint64_t, int64_t, int64_t, bool) override { fk::fail("mutant", "a token"); }
  void logits(uint64_t, int64_t, const float*, int64_t) override { fk::fail("mutant", "logits"); }
  void tensor(uint64_t id, const std::string& name, const std::vector<int64_t>& shape,
              const float* values) override {
    if (name != "answer" || shape != std::vector<int64_t>{2}) fk::fail("mutant", "another tensor");
    got[id].assign(values, values + 2);
  }
  void failed(uint64_t id, const std::string& why) override { failures[id] = why; }
  void progress(const std::string&) override {}
};

fk::Request image(uint64_t id, std::vector<int64_t> shape) {
  fk::Request r;
  r.id = id;
  const auto v = static_cast<float>(id);
  r.tensors.push_back({"image", std::move(shape), {v, v, v, 10 * v, 10 * v, 10 * v}});
  return r;
}

}  // namespace

TEST_CASE("pass_answers_every_request_with_its_own_row") {
  PassProgram program(3);
  PassExchange exchange;
  for (uint64_t id = 1; id <= 7; ++id) exchange.requests.push_back(image(id, {2, 3}));
  fk::pass(program, exchange, {"classify", {"answer"}, {{"image", {2, 3}}}});
  CHECK(program.batches == std::vector<int64_t>{3, 3, 1});
  for (uint64_t id = 1; id <= 7; ++id) {
    const auto v = static_cast<float>(id);
    CHECK(exchange.got.at(id) == std::vector<float>{3 * v, 30 * v});
  }
}

TEST_CASE("pass_refuses_requests_that_do_not_fit") {
  PassProgram program(3);
  PassExchange exchange;
  exchange.requests = {image(1, {3, 2}), {}, image(3, {2, 3}), image(4, {2, 3})};
  exchange.requests[1].id = 2;
  exchange.requests[2].tensors[0].name = "picture";
  exchange.requests[3].tokens = {1};
  fk::pass(program, exchange, {"classify", {"answer"}, {{"image", {2, 3}}}});
  CHECK(exchange.got.empty());
  CHECK_THAT(exchange.failures.at(1), ContainsSubstring("has the shape"));
  CHECK_THAT(exchange.failures.at(2), ContainsSubstring("no tensor `image`"));
  CHECK_THAT(exchange.failures.at(3), ContainsSubstring("no tensor `image`"));
  CHECK_THAT(exchange.failures.at(4), ContainsSubstring("takes no tokens"));
}

TEST_CASE("ids reach the program as whole numbers, and ids of no row are refused") {
  PassProgram program(3);
  PassExchange exchange;
  fk::RequestTensor ids{"ids", {2}};
  ids.below = 9;
  ids.dtype = fk::DType::i64;
  const std::vector<std::vector<float>> given = {{3, 8}, {9, 0}, {-1, 0}, {0.5F, 0}, {7, 0}};
  for (size_t i = 0; i < given.size(); ++i) {
    exchange.requests.push_back(image(i + 1, {2, 3}));
    exchange.requests.back().tensors.push_back({"ids", {2}, given[i]});
  }
  fk::pass(program, exchange, {"score", {"answer"}, {{"image", {2, 3}}, ids}});
  CHECK(program.ids == std::vector<int64_t>{3, 8, 7, 0, -1, -1});
  CHECK(exchange.failures.size() == 3);
  for (uint64_t id = 2; id <= 4; ++id)
    CHECK_THAT(exchange.failures.at(id), ContainsSubstring("whole numbers from 0 to 8"));

  const fk::Request random = fk::RequestForm{.tensors = {ids}}.random(0, 5);
  for (const float v : random.tensors[0].values) CHECK((v >= 0 && v <= 8 && v == std::floor(v)));
}

TEST_CASE("a count above the room fails all requests of its batch, and says the key") {
  for (const int64_t found : {6, 7}) {
    PassProgram program(3);
    program.found = found;
    PassExchange exchange;
    exchange.requests = {image(1, {2, 3}), image(2, {2, 3})};
    fk::pass(program, exchange,
             {"render", {"answer"}, {{"image", {2, 3}}}, {{"found", 2, "most_found"}}});
    CHECK(exchange.got.size() == (found == 6 ? 2 : 0));
    CHECK(exchange.failures.size() == (found == 6 ? 0 : 2));
    if (found == 7) CHECK_THAT(exchange.failures.at(2), ContainsSubstring("`most_found`"));
  }
}
