// SPDX-License-Identifier: Apache-2.0
// If this fails, the adapt engine learns from the wrong chunks, or loses the tokens before a chunk.
// Or a text begins with the weights of the one before it.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/json.hpp"
#include "core/engines/adapt/engine.hpp"
#include "test/catch.hpp"
#include "test/engines/session.hpp"

namespace {

std::unique_ptr<fk::Model> toy_reader(int64_t chunk) {
  const fk::Json json{{"architectures", {"ToyReader"}}, {"chunk", chunk}};
  return fk::make_model("toy_reader", fk::Config(json, "toy"));
}

fk::Request text(uint64_t id, std::vector<int64_t> tokens) {
  fk::Request request;
  request.id = id;
  request.tokens = std::move(tokens);
  return request;
}

}  // namespace

TEST_CASE("each chunk of a text meets the steps of the chunks before it, and no other text's") {
  const int64_t chunk = GENERATE(1, 3, 4, 100);
  const auto model = toy_reader(chunk);
  auto requests = model->engine()->correctness_requests({}, 5);
  for (auto& request : requests)
    if (request.tokens.size() > 40) request.tokens.resize(40);
  requests.push_back(text(99, {7, 9}));
  engine_test::OnCpu cpu;
  fk::Limits limits;
  limits.max_context = 40;
  const auto answers = cpu.drive(*model, limits, requests).answers;
  for (const auto& request : requests) {
    const auto& answer = answers.at(request.id);
    INFO("chunks of " << chunk << ", a text of " << request.tokens.size() << " tokens");
    REQUIRE(answer.failed.empty());
    REQUIRE(answer.tensors.size() == 1);
    const auto& logprobs = answer.tensors[0];
    CHECK(logprobs.name == "logprobs");
    REQUIRE(logprobs.values.size() == request.tokens.size() - 1);
    for (size_t i = 0; i < logprobs.values.size(); ++i) {
      const auto own = static_cast<double>(request.tokens[i]);
      const double before = i > 0 ? static_cast<double>(request.tokens[i - 1]) : own;
      const double steps = static_cast<double>(static_cast<int64_t>(i) / chunk);
      CHECK(std::fabs(static_cast<double>(logprobs.values[i]) -
                      (100 + steps + (own + before) / 2)) < 1e-3);
    }
  }
}

TEST_CASE("texts which cannot be scored fail with the reason, and others go on") {
  const auto model = toy_reader(4);
  engine_test::OnCpu cpu;
  fk::Limits limits;
  limits.max_context = 6;
  fk::Request asks = text(5, {1, 2});
  asks.new_tokens = 1;
  const auto answers = cpu.drive(*model, limits,
                                 {text(1, {3}), text(2, {1, 2, 3, 4, 5, 6, 7}), text(3, {1, 50}),
                                  text(4, {1, 2}), asks})
                           .answers;
  CHECK(answers.at(1).failed == "a text has at least two tokens");
  CHECK(answers.at(2).failed == "its 7 tokens exceed the context of 6");
  CHECK(answers.at(3).failed == "token 1 is 50, outside the vocabulary of 50");
  CHECK(answers.at(5).failed == "the model scores texts, and makes no tokens");
  REQUIRE(answers.at(4).failed.empty());
  CHECK(answers.at(4).tensors.at(0).shape == std::vector<int64_t>{1, 1});
}
