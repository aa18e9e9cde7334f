// SPDX-License-Identifier: Apache-2.0
// If this fails, a recording of real traffic is replayed with other requests, or a mistake in its
// file is not explained.
#include "core/engines/recorded_load.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/engines/workload.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

namespace {

namespace fs = std::filesystem;

struct RecordedFolder : Folder {
  RecordedFolder() { workload("kind: replay"); }
  void workload(const std::string& keys, const std::string& more = "") const {
    std::ofstream(path / "w.yaml")
        << "workloads:\n  w: {" << keys << ", recorded: r.jsonl" << more << "}\n";
  }
  void lines(const std::string& text) const { std::ofstream(path / "r.jsonl") << text; }
  fk::Workload load(int64_t context = 100) const {
    return fk::load_workload(path / "w.yaml", "w", "generate", false, context);
  }
  std::string why() const {
    return message_of<fk::Error>([&] { load(); });
  }
};

std::string line(double at_s, const std::vector<int64_t>& prompt,
                 const std::vector<int64_t>& answer) {
  fk::RecordedRequest r;
  r.at_s = at_s;
  r.prompt = prompt;
  r.answer = answer;
  r.end = "length";
  r.max_tokens = 9;
  r.sampling.temperature = 0.7F;
  r.sampling.top_p = 0.9F;
  r.sampling.seed = UINT64_MAX - 3;
  return fk::to_fields(r).dump() + "\n";
}

bool mentions(const std::string& text, const std::vector<std::string>& parts) {
  INFO(text);
  return std::ranges::all_of(
      parts, [&](const auto& part) { return text.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("a_recording_is_never_measured_with_its_own_prompts") {
  const RecordedFolder dir;
  dir.lines(line(0, {4, 5, 6}, {1, 2}));
  dir.workload("kind: throughput, requests: 1");
  CHECK(dir.load().warmup == 1);
  dir.workload("kind: latency, batch: 1, warmup: 0, iterations: 2");
  CHECK(dir.load().warmup == 1);
  dir.workload("kind: latency, batch: 1, warmup: 3, iterations: 2");
  CHECK(dir.load().warmup == 3);
}

TEST_CASE("a_recording_is_read_in_the_order_of_arrival") {
  const RecordedFolder dir;
  // The third has no answer, and the fourth does not fit. The last line has no end.
  dir.lines(line(7, {4, 5, 6}, {1, 2}) + line(5, {8}, {3}) + line(4, {1}, {}) +
            line(3, std::vector<int64_t>(90, 1), std::vector<int64_t>(11, 1)) +
            line(6, {1}, {2}).substr(0, 30));
  const fk::Workload w = dir.load();
  CHECK(w.at_their_times);
  CHECK(w.warmup == 1);
  REQUIRE(w.load->requests() == 2);
  CHECK(w.load->left_out() == 2);
  CHECK(w.load->prompt_tokens() == 4);
  CHECK(w.load->output_tokens() == 3);
  CHECK(w.load->longest() == 5);
  CHECK(w.load->arrives_s(0) == 0);
  CHECK(w.load->arrives_s(1) == 2);
  CHECK(*w.load->answer(1) == std::vector<int64_t>{1, 2});
  const auto requests = fk::make_requests(w, {.vocabulary = 50}, 1, 0);
  CHECK(requests[0].tokens == std::vector<int64_t>{8});
  CHECK(requests[1].tokens == std::vector<int64_t>{4, 5, 6});
  CHECK(requests[1].new_tokens == 2);
  CHECK(requests[1].ignore_eos);
  CHECK(requests[1].sampling.temperature == 0.7F);
  CHECK(requests[1].sampling.top_p == 0.9F);
  CHECK(requests[1].sampling.seed == UINT64_MAX - 3);
  CHECK_FALSE(requests[1].shares_prefix);
}

TEST_CASE("later_rounds_of_a_recording_have_other_tokens") {
  const RecordedFolder dir;
  dir.lines(line(0, std::vector<int64_t>(40, 7), {1}));
  const fk::Workload w = dir.load();
  const fk::RequestForm form{.vocabulary = 1'000'000};
  const auto first = fk::make_requests(w, form, 1, 0)[0].tokens;
  const auto second = fk::make_requests(w, form, 1, 1)[0].tokens;
  REQUIRE(second.size() == 40);
  for (size_t i = 0; i < first.size(); ++i) CHECK((first[i] == second[i]) == (i % 16 != 0));
  CHECK(second == fk::make_requests(w, form, 1, 1)[0].tokens);
  CHECK(second != fk::make_requests(w, form, 1, 2)[0].tokens);
  CHECK(second != fk::make_requests(w, form, 2, 1)[0].tokens);
}

TEST_CASE("answers_with_penalties_are_not_compared") {
  const RecordedFolder dir;
  fk::RecordedRequest r;
  r.prompt = r.answer = {1};
  r.sampling.min_p = 0.1F;
  dir.lines(fk::to_fields(r).dump() + "\n");
  const fk::Workload w = dir.load();
  CHECK(w.load->answer(0) == nullptr);
  CHECK_FALSE(fk::make_requests(w, {.vocabulary = 50}, 1, 0)[0].sampling.on_host());
}

TEST_CASE("mistakes_in_a_recording_are_explained") {
  const RecordedFolder dir;
  const std::string good = line(0, {1}, {2});
  dir.lines(good + "{\"prompt\": 5}\n");
  CHECK(mentions(dir.why(), {"r.jsonl:2", "prompt", "list"}));
  dir.lines(good + "{\"prompt\": []}\n");
  CHECK(mentions(dir.why(), {"r.jsonl:2", "empty"}));
  dir.lines("{\"prompt\": [1], \"answer\": [-1]}\n");
  CHECK(mentions(dir.why(), {"r.jsonl:1", "negative"}));
  dir.lines("{\"prompt\": [1], \"answer\": [1], \"top_p\": 0}\n");
  CHECK(mentions(dir.why(), {"top_p"}));
  dir.lines("{\"prompt\": [1]}\n");
  CHECK(mentions(dir.why(), {"none of its 1 requests", "100 tokens"}));
  dir.lines(good);
  CHECK(message_of<fk::Error>([&] {
          fk::make_requests(dir.load(), {.vocabulary = 1}, 1, 0);
        }).find("vocabulary of 1") != std::string::npos);
  dir.workload("kind: replay", ", prompt: 5");
  CHECK(mentions(dir.why(), {"prompt", "already"}));
  std::ofstream(dir.path / "w.yaml") << "workloads:\n  w: {kind: replay, prompt: 5, output: 2}\n";
  CHECK(mentions(dir.why(), {"times of arrival", "recorded"}));
}

TEST_CASE("a_recording_may_arrive_at_once_or_in_part") {
  const RecordedFolder dir;
  dir.lines(line(0, {1}, {2}) + line(1, {3}, {4}) + line(2, {5}, {6}));
  dir.workload("kind: throughput, requests: 2");
  CHECK(dir.load().load->requests() == 2);
  CHECK_FALSE(dir.load().at_their_times);
  dir.workload("kind: replay, requests: 1");
  CHECK(dir.load().load->requests() == 1);
}
