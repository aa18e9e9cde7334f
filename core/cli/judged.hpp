// SPDX-License-Identifier: Apache-2.0
// Questions to the judge (core/judge), for the verbs bench and replay.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "core/contract/contract.hpp"
#include "core/store/answer.hpp"

namespace fk {

class JudgePool;
struct PluginSet;

// Progress callbacks of a judgement. Each may be empty.
struct JudgeProgress {
  std::function<void(const std::string& what)> step;   // the step that begins
  std::function<void(const std::string& what)> ended;  // a case that ended, with its result
};

// Judges in this process. Error when the question is wrong (an unknown case). Seeds come from
// `secret`; null: from the pool's.
Verdict judge_question(const Question& question, const Secret* secret, const Catalog& catalog,
                       const PluginSet& plugin_set, JudgePool& room, const JudgeProgress& progress);

// A function that asks the device's server (server.hpp), or judges here without a server. With
// Seeds::any, the server may choose a secret with ready contents; the verdict names it.
enum class Seeds { these, any };
AskJudge the_judge(Seeds seeds, JudgeProgress progress = {});

struct BenchRequest {
  Question question;
  AnswerOptions answer;
  std::string secret;    // seeds of an earlier verdict; nothing is looked up or stored
  std::string receipt;   // file for the receipt; empty: none
  bool profile = false;  // runs Nsight Compute afterwards, if installed
  bool as_json = false;
  std::string json;  // file, as for print_json()
};

// Answers and prints. Returns the exit code.
int bench_candidate(const BenchRequest& request);

// Builds the folder and puts the library into the question. After a failure, prints a verdict with
// the compiler's output and returns false.
bool build_for_bench(const std::filesystem::path& folder, BenchRequest& request);

}  // namespace fk
