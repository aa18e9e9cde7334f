// SPDX-License-Identifier: Apache-2.0
// If this fails, an engine with a model cannot live in a folder of its own. Another file of the
// host then knows its requests, its workloads or its answers.
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/engines/workload.hpp"
#include "core/exec/metric.hpp"
#include "test/catch.hpp"
#include "test/engines/session.hpp"
#include "test/folder.hpp"

namespace {

constexpr int64_t kWidth = 6;

std::unique_ptr<fk::Model> toy_model() {
  const fk::Json json{{"architectures", {"ToyRollout"}}, {"width", kWidth}};
  return fk::make_model("toy_rollout", fk::Config(json, "toy"));
}

struct ToyWorkloads : Folder {
  std::filesystem::path file = path / "toy.yaml";
  fk::Workload load(const std::string& keys, const std::string& engine = "toy_rollout") const {
    std::ofstream(file) << "workloads:\n  few: {kind: throughput, requests: 5, " << keys << "}\n";
    return fk::load_workload(file, "few", engine, false, 1);
  }
};

const std::vector<float>& path_of(const fk::RequestResult& result) {
  REQUIRE(result.failed.empty());
  REQUIRE(result.tensors.size() == 1);
  return result.tensors[0].values;
}

}  // namespace

TEST_CASE("a workload has the keys of its engine and no other") {
  const ToyWorkloads folder;
  CHECK(folder.load("steps: 3").load->requests() == 5);
  CHECK(folder.load("steps: 3", "").load->requests() == 5);  // found by its key
  CHECK_THAT(message_of<fk::Error>([&] { folder.load("stesp: 3"); }),
             ContainsSubstring("did you mean `steps`"));
  CHECK_THAT(message_of<fk::Error>([&] { folder.load("steps: 3", "feedforward"); }),
             ContainsSubstring("steps"));
  CHECK_THAT(message_of<fk::Error>([&] { folder.load("steps: 0"); }), ContainsSubstring("least 1"));
}

TEST_CASE("a session serves an engine that no other file names") {
  const auto model = toy_model();
  const auto engine = model->engine();
  const ToyWorkloads folder;
  const auto requests = fk::make_requests(folder.load("steps: 3"), engine->form(), 1, 0);
  REQUIRE(requests.size() == 5);
  fk::Limits limits;
  limits.max_batch = 2;  // so that requests wait for others
  engine_test::OnCpu cpu;
  const auto together = cpu.drive(*model, limits, requests).answers;
  for (const auto& request : requests) {
    const auto alone = cpu.drive(*model, limits, {request}).answers;
    CHECK(path_of(alone.at(request.id)) == path_of(together.at(request.id)));
  }
  // The second step begins where the first ended.
  const std::vector<float>& path = path_of(together.at(2));
  REQUIRE(path.size() == 2 * kWidth);
  fk::Request next = requests[0];
  next.tensors[0].values.assign(path.begin(), path.begin() + kWidth);
  const auto one = cpu.drive(*model, limits, {next}).answers;
  CHECK(path_of(one.at(1)) == std::vector<float>(path.begin() + kWidth, path.end()));
  CHECK(path_of(one.at(1)) != path_of(together.at(1)));
}

TEST_CASE("answers of an engine are compared by a metric of a description") {
  const auto model = toy_model();
  const auto requests = model->engine()->correctness_requests({}, 3);
  engine_test::OnCpu cpu;
  const auto want = cpu.drive(*model, {}, requests).answers;
  const fk::Metric* metric = fk::find_metric("embeddings");
  REQUIRE(metric != nullptr);
  CHECK(metric->compare(want, want, false).rms == 0);
  fk::Answers got = want;
  got.at(2).tensors[0].values[3] += 1;
  CHECK(metric->compare(got, want, false).rms > 0);
  got.erase(3);
  CHECK(metric->compare(got, want, false).wrong == "a request is missing");
}
