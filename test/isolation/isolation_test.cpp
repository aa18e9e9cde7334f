// SPDX-License-Identifier: Apache-2.0
// Whatever a candidate does, the run ends with a row that says why, within the time, with nothing
// of the others lost and no process left behind.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/json.hpp"
#include "test/shell.hpp"

namespace {

using fk::Json;

// Runs a scenario with the candidate of one folder; checks the exit code.
Json run(const std::string& candidates, int code, const std::string& patience = "2",
         const std::string& options = "", const std::string& scenario = "smoke") {
  const Shell out = shell(
      "FK_CANDIDATES=" FK_ISOLATION "/" + candidates + " timeout 60 " FK_HOST " run " + scenario +
      " --profile tiny --device cpu --json - --patience " + patience + " " + options);
  CAPTURE(candidates, out.text);
  REQUIRE(out.code == code);
  const Json report = fk::parse_json(out.text, "report");
  REQUIRE(report.at("exit_code") == code);
  REQUIRE(report.at("baseline").at("verdict") == "correct");
  REQUIRE(report.at("candidates").size() == 1);
  return report.at("candidates").at(0);
}

void failed_with(const std::string& mode, const std::string& verdict, const std::string& why,
                 const std::string& patience = "2") {
  const Json row = run(mode, 1, patience);
  CAPTURE(row.dump());
  CHECK(row.at("verdict") == verdict);
  CHECK_THAT(row.at("why").get<std::string>(), ContainsSubstring(why));
}

size_t stopped_children(pid_t of) {
  size_t count = 0;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", code)) {
    std::ifstream file(entry.path() / "stat");
    std::string id, name, state;
    pid_t parent = 0;
    if (file >> id >> name >> state >> parent) count += parent == of && state == "T";
  }
  return count;
}

}  // namespace

TEST_CASE("isolation_right_candidate_is_correct") {
  const Json row = run("right", 0);
  CHECK(row.at("verdict") == "correct");
  CHECK(row.at("correctness").at("ok") == true);
  CHECK(row.at("workloads").at(0).at("done") == true);
  CHECK(row.at("workloads").at(0).at("same_tokens") == 1.0);
}

TEST_CASE("isolation_wrong_values_are_found") {
  const Json row = run("wrong", 1);
  CHECK(row.at("verdict") == "wrong");
  CHECK(row.at("workloads").empty());  // what is wrong is not timed
}

// Both sides have the same caches in turns, on every rank.
TEST_CASE("isolation_what_the_baseline_left_in_the_cache_is_gone") {
  for (const char* options : {"", "--tp 2"}) {
    const Json row = run("finds_answers", 0, "2", options);
    CAPTURE(row.dump());
    CHECK(row.at("verdict") == "correct");
  }
}

TEST_CASE("isolation_answers_of_timed_runs_are_audited") {
  failed_with("zero_later", "wrong", "do not follow from the model");
  failed_with("zero_first", "wrong", "do not follow from the model");  // and right in the last one
}

// Who is judged could bring the answers to questions that are always the same along.
TEST_CASE("isolation_questions_are_not_known_beforehand") {
  const auto seed = [](const char* candidates, const std::string& options = "") {
    const Shell out =
        shell(std::string("FK_CANDIDATES=" FK_ISOLATION "/") + candidates +
              " timeout 60 " FK_HOST " run smoke --profile tiny --device cpu --json - " + options);
    CAPTURE(out.text);
    REQUIRE(out.code == 0);
    return fk::parse_json(out.text, "report").at("requests_seed").get<uint64_t>();
  };
  CHECK(seed("right") != seed("right"));
  CHECK(seed("right", "--requests-seed 7") == 7);
  CHECK(seed("right", "--seed 5") == 5);
  CHECK(seed("nobody") == seed("nobody"));
}

// Of 32 requests in each of few rounds, a few are looked at.
TEST_CASE("isolation_one_wrong_answer_of_many_is_found") {
  const Json row = run("zero_one", 1, "2", "--workload fixed_batch_32", "llama3.1");
  CAPTURE(row.dump());
  CHECK(row.at("correctness").at("ok") == true);
  CHECK(row.at("verdict") == "wrong");
  CHECK_THAT(row.at("why").get<std::string>(), ContainsSubstring("do not follow from the model"));
}

// Where the oracle is on the ranks' device, which it leaves to them in between.
TEST_CASE("isolation_answers_of_divided_models_are_audited") {
  const Json row = run("zero_later", 1, "2", "--tp 2");
  CAPTURE(row.dump());
  CHECK(row.at("verdict") == "wrong");
  CHECK_THAT(row.at("why").get<std::string>(), ContainsSubstring("do not follow from the model"));
}

// Until the candidate's patience is over, nobody but the candidate has anything to do.
TEST_CASE("isolation_who_is_not_asked_stands_still") {
  const pid_t run = ::fork();
  if (run == 0) {
    ::setenv("FK_CANDIDATES", FK_ISOLATION "/hang_in_create", 1);
    if (!std::freopen("/dev/null", "w", stdout) || !std::freopen("/dev/null", "w", stderr))
      ::_exit(1);
    ::execl(FK_HOST, "fk-host", "run", "smoke", "--profile", "tiny", "--device", "cpu",
            "--patience", "4", nullptr);
    ::_exit(1);
  }
  size_t most = 0;
  int status = 0;
  for (int turn = 0; most < 2 && turn < 1000 && ::waitpid(run, &status, WNOHANG) == 0; ++turn) {
    ::usleep(50'000);
    most = std::max(most, stopped_children(run));
  }
  CHECK(most == 2);  // the oracle and the baseline
  ::kill(run, SIGKILL);
  ::waitpid(run, &status, 0);
}

TEST_CASE("isolation_crash_names_signal_and_place") {
  failed_with("segfault", "failed", "SIGSEGV");
  failed_with("segfault", "failed", "rms_norm (model.layers.0");
  failed_with("segfault", "failed", "misbehave()");
  failed_with("aborts", "failed", "SIGABRT");
  failed_with("aborts", "failed", ": out of handles");
  failed_with("at_once", "failed", "in the check of its ops");
}

TEST_CASE("isolation_hang_is_stopped") {
  failed_with("hang", "failed", "gave no sign of life");
  failed_with("hang", "failed", "rms_norm (model.layers.0");
  failed_with("hang_in_create", "failed", "gave no sign of life");
}

TEST_CASE("isolation_exit_is_seen") { failed_with("exits", "failed", "called exit(0)"); }

TEST_CASE("isolation_exceptions_are_reported") {
  failed_with("fails", "failed", "out of tune");
  failed_with("raises", "failed", "threw std::runtime_error: across the boundary");
}

TEST_CASE("isolation_memory_without_end_is_stopped") {
  failed_with("eats", "failed", "ran into its limit of", "30");
}

TEST_CASE("isolation_output_is_kept_out_of_the_report") {
  const Json row = run("noisy", 0);  // the report is still JSON
  CHECK(row.at("verdict") == "correct");
}

TEST_CASE("isolation_no_process_is_left_behind") {
  // The broker is killed while a candidate hangs; its number is in its runners' arguments.
  const Shell broker =
      shell("FK_CANDIDATES=" FK_ISOLATION "/hang timeout -s KILL 2 sh -c 'echo $$; exec " FK_HOST
            " run smoke --profile tiny --device cpu --patience 50' 2>&1");
  const std::string pid = std::to_string(std::stoi(broker.text));
  ::usleep(300'000);
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(process.path() / "cmdline");
    std::string words{std::istreambuf_iterator<char>(file), {}};
    CHECK(words.find(std::string("__runner\0", 9) + pid) == std::string::npos);
  }
}
