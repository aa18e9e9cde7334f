// SPDX-License-Identifier: Apache-2.0
// If this fails, a request with few or many patches gets another request's rows. Or it loses its
// own rows if its prompt is computed in chunks, in a batch, or again.
#include <cmath>
#include <nlohmann/json.hpp>

#include "test/catch.hpp"
#include "test/engines/session.hpp"

namespace {

std::unique_ptr<fk::Model> seeing(int64_t multiple) {
  const fk::Json json{{"architectures", {"ToySeeing"}}, {"multiple", multiple}};
  return fk::make_model("toy_seeing", fk::Config(json, "ragged"));
}

// Prompts of 3 to 13 tokens with 1 to 6 rows, whose logits are reported.
std::vector<fk::Request> requests_of(const fk::RequestForm& form) {
  std::vector<fk::Request> list;
  for (const int64_t length : {7, 3, 13, 9, 5, 12}) {
    fk::Request r = form.random(length, static_cast<uint64_t>(100 + length));
    r.id = list.size() + 1;
    r.new_tokens = 5;
    r.logits = r.prompt_logits = true;
    list.push_back(std::move(r));
  }
  return list;
}

fk::Limits roomy() {
  fk::Limits limits;
  limits.max_batch = 1;
  limits.max_context = 20;
  limits.chunk_tokens = 20;
  limits.page_size = 2;
  return limits;
}

double difference(const fk::RequestResult& a, const fk::RequestResult& b) {
  REQUIRE(a.logits.size() == b.logits.size());
  double most = 0;
  for (const auto& [position, row] : a.logits)
    for (size_t i = 0; i < row.size(); ++i)
      most = std::max(most, std::abs(static_cast<double>(row[i]) -
                                     static_cast<double>(b.logits.at(position)[i])));
  return most;
}

int64_t prefilled(const engine_test::Kept& kept) {
  int64_t tokens = 0;
  for (const auto& step : kept.steps)
    if (step.rfind("prefill ", 0) == 0) tokens += std::stoll(step.substr(8));
  return tokens;
}

}  // namespace

TEST_CASE("requests with unequal numbers of patches get what they would get alone") {
  const int64_t multiple = GENERATE(1, 2);
  CAPTURE(multiple);
  const auto model = seeing(multiple);
  const auto requests = requests_of(model->engine()->form());
  std::vector<int64_t> rows;
  int64_t tokens = 0;
  for (const auto& r : requests) {
    rows.push_back(r.tensors.at(0).shape[0]);
    CHECK(rows.back() % multiple == 0);
    CHECK(std::count(r.tokens.begin(), r.tokens.end(), 7) == rows.back() / multiple);
    tokens += static_cast<int64_t>(r.tokens.size());
  }
  CHECK(*std::max_element(rows.begin(), rows.end()) > *std::min_element(rows.begin(), rows.end()));

  engine_test::OnCpu cpu;
  fk::Answers alone;
  for (const auto& r : requests) alone.merge(cpu.drive(*model, roomy(), {r}).answers);
  fk::Limits tight = roomy();
  tight.max_batch = 4;
  tight.chunk_tokens = 3;  // less than the rows of some requests
  tight.pages = 14;  // 28 tokens: three requests begin, and not all of them end
  const auto kept = cpu.drive(*model, tight, requests);
  CHECK(prefilled(kept) > tokens);  // a request was preempted and computed again
  for (const auto& [id, want] : alone) {
    const auto& got = kept.answers.at(id);
    INFO("request " << id << " " << got.failed);
    CHECK(want.tokens.size() == 5);
    CHECK(got.tokens == want.tokens);
    CHECK(difference(got, want) < 1e-5);
  }
}

TEST_CASE("a patch changes its own request from its place on") {
  const auto model = seeing(1);
  auto requests = requests_of(model->engine()->form());
  requests.resize(3);
  fk::Limits limits = roomy();
  limits.max_batch = 3;
  engine_test::OnCpu cpu;
  const auto before = cpu.drive(*model, limits, requests).answers;
  auto& patches = requests[2].tensors[0];
  patches.values.back() += 2;
  const int64_t place = patches.shape[0];  // behind the first token, so the last row is here
  const auto after = cpu.drive(*model, limits, requests).answers;
  CHECK(difference(before.at(1), after.at(1)) == 0);
  CHECK(difference(before.at(2), after.at(2)) == 0);
  for (const auto& [position, row] : before.at(3).logits) {
    INFO("position " << position);
    if (position < static_cast<int64_t>(requests[2].tokens.size()))
      CHECK((row == after.at(3).logits.at(position)) == (position < place));
  }
}

TEST_CASE("requests whose patches do not fit are refused with the reason") {
  const auto model = seeing(2);
  const auto form = model->engine()->form();
  auto requests = requests_of(form);
  requests.resize(4);
  requests[0].tensors[0].shape[0] -= 1;
  requests[0].tensors[0].values.resize(static_cast<size_t>(requests[0].tensors[0].shape[0] * 3));
  requests[1].tensors[0] = {"patches", {14, 3}, std::vector<float>(42)};
  requests[2].tokens[1] = 0;
  requests[3].tensors[0].shape[1] = 2;
  engine_test::OnCpu cpu;
  const auto answers = cpu.drive(*model, roomy(), requests).answers;
  CHECK_THAT(answers.at(1).failed, ContainsSubstring("a multiple of 2"));
  CHECK_THAT(answers.at(2).failed, ContainsSubstring("14 rows where 1 to 12 are possible"));
  CHECK_THAT(answers.at(3).failed, ContainsSubstring("placeholders for"));
  CHECK_THAT(answers.at(4).failed, ContainsSubstring("has the shape"));
}
