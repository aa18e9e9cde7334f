// SPDX-License-Identifier: Apache-2.0
// Whatever a candidate does, the run ends in time with a row that says why. Nothing of the others
// is lost, and no process is left behind.
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
#include <utility>
#include <vector>

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

// The states of a process's threads, by their names.
std::vector<std::pair<std::string, char>> threads_of(const std::string& pid) {
  std::vector<std::pair<std::string, char>> out;
  std::error_code code;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task", code)) {
    std::string text;
    std::getline(std::ifstream(task.path() / "stat"), text);
    const size_t open = text.find('('), close = text.rfind(')');
    if (open == text.npos || close == text.npos || close + 2 >= text.size()) continue;
    out.emplace_back(text.substr(open + 1, close - open - 1), text[close + 2]);
  }
  return out;
}

struct Together {
  int burnt = 0, stopped = 0, beside = 0;  // looks at the thread; `beside`: another process worked
};

// Watches until the first of these processes has ended. Says if their workers run while one of them
// has a running thread of this name.
Together watch_threads(const std::vector<pid_t>& family, const std::string& burner) {
  Together out;
  const auto burns = [&](const std::string& pid) {
    for (const auto& [name, state] : threads_of(pid))
      if (name == burner) return state;
    return '-';
  };
  const auto works = [](const std::string& pid) {
    for (const auto& [name, state] : threads_of(pid))
      if (state == 'R') return true;
    return false;
  };
  std::vector<std::string> burning, others;
  siginfo_t ended{};
  for (int turn = 0; ended.si_pid == 0; ++turn, ::usleep(100)) {
    ::waitid(P_PID, static_cast<id_t>(family[0]), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (turn % 50 == 0) {
      burning.clear();
      others.clear();
      std::error_code code;
      for (const auto& entry : std::filesystem::directory_iterator("/proc", code)) {
        std::ifstream file(entry.path() / "stat");
        std::string id, name, state;
        pid_t parent = 0;
        const bool ours = file >> id >> name >> state >> parent &&
                          std::find(family.begin(), family.end(), parent) != family.end();
        if (ours) (burns(id) == '-' ? others : burning).push_back(id);
      }
    }
    for (const auto& one : burning) {
      const char before = burns(one);
      const bool beside = std::any_of(others.begin(), others.end(), works);
      out.burnt += before == 'R';
      out.stopped += before == 'T' && beside;
      out.beside += before == 'R' && beside && burns(one) == 'R';
    }
  }
  return out;
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
    // It reads through all its memory, which takes long where others use the cores.
    const Json row = run("finds_answers", 0, "20", options);
    CAPTURE(row.dump());
    CHECK(row.at("verdict") == "correct");
  }
}

TEST_CASE("isolation_answers_of_timed_runs_are_audited") {
  failed_with("zero_later", "wrong", "do not follow from the model");
  failed_with("zero_first", "wrong", "do not follow from the model");  // and right in the last one
}

// Whose time a candidate's is beside has to be right as well, beside every one of them.
TEST_CASE("isolation_answers_of_the_baseline_are_audited_beside_candidates") {
  const auto dir =
      std::filesystem::temp_directory_path() / ("fk_isolation" + std::to_string(::getpid()));
  std::filesystem::create_directories(dir);
  const auto add = [&](const std::string& name) {
    const std::string file = "isolation_" + name + ".so";
    std::filesystem::create_symlink(FK_ISOLATION "/" + name + "/" + file, dir / file);
  };
  add("right");
  const auto run_beside = [&](const std::string& baseline) {
    std::filesystem::create_directories(dir / "registry/devices");
    std::ofstream(dir / "registry/devices/first.yaml")
        << "device: first\nname: cpu\nranking:\n  rms_norm: [" << baseline << "]\n";
    const Shell out =
        shell("FK_PLUGIN_PATH=" FK_ISOLATION "/" + baseline + " FK_REGISTRY_PATH=" + dir.string() +
              "/registry FK_CANDIDATES=" + dir.string() +
              " timeout 60 " FK_HOST " run smoke --profile tiny --device cpu --json -");
    CAPTURE(baseline, out.text);
    const Json report = fk::parse_json(out.text, "report");
    CHECK(report.at("exit_code") == out.code);
    return report;
  };
  const auto is_told = [](const Json& report, size_t candidates) {
    CHECK(report.at("exit_code") == 3);
    CHECK(report.at("candidates").size() == candidates);
    CHECK_THAT(report.at("error").get<std::string>(),
               ContainsSubstring("the baseline in smoke: tokens of the timed run do not follow"));
    CHECK(report.at("baseline").at("verdict") == "wrong");
  };
  is_told(run_beside("zero_later"), 1);
  CHECK(run_beside("zero_second").at("exit_code") == 0);
  add("noisy");
  is_told(run_beside("zero_second"), 2);
  std::filesystem::remove_all(dir);
}

// A candidate could bring along the answers to questions that are always the same.
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

// The judge looks at a few of 32 requests, in each of few rounds.
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

// Threads that a candidate leaves working would slow the baseline in its turn. The same where the
// processes are children of others, as a launcher starts them.
TEST_CASE("isolation_nobody_works_in_the_turn_of_the_other_side") {
  const std::string run =
      "exec env FK_CANDIDATES=" FK_ISOLATION "/burns " FK_HOST
      " run llama3.1 --profile tiny --device cpu --workload single_request --patience 20"
      " >/dev/null 2>&1";
  for (const bool launched : {false, true}) {
    CAPTURE(launched);
    std::vector<pid_t> family;
    const std::string job = std::to_string(::getpid());
    for (int rank = 0; rank < (launched ? 2 : 1); ++rank) {
      const std::string words =
          launched ? "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_RANK=" +
                         std::to_string(rank) + " PMIX_NAMESPACE=isolation." + job + " " + run +
                         " --tp 2"
                   : run;
      family.push_back(::fork());
      if (family.back() == 0) ::execl("/bin/sh", "sh", "-c", words.c_str(), nullptr);
    }
    const Together seen = watch_threads(family, "fk_burns");
    CHECK(seen.burnt > 10);    // looks at which it was there and worked
    CHECK(seen.stopped > 10);  // or stood still, while somebody else worked
    // The watcher itself may be kept waiting for two turns to change.
    CHECK(5 * seen.beside <= seen.stopped);
    for (const pid_t one : family) {
      int status = 0;
      ::waitpid(one, &status, 0);
      CHECK(status == 0);
    }
  }
}

TEST_CASE("isolation_crash_names_signal_and_place") {
  failed_with("segfault", "failed", "SIGSEGV");
  failed_with("segfault", "failed", "rms_norm (model.layers.0");
  failed_with("segfault", "failed", "misbehave()");
  failed_with("aborts", "failed", "SIGABRT");
  failed_with("aborts", "failed", ": out of handles");
  failed_with("at_once", "failed", "in the check of its ops");
  failed_with("segfault_at_end", "failed", "SIGSEGV");
  failed_with("segfault_at_end", "failed", "when its session ended");
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
  // The controller is killed while a candidate hangs; its number is in its workers' arguments.
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
