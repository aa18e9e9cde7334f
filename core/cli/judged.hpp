// SPDX-License-Identifier: Apache-2.0
// A question put to the judge (core/judge), for the verbs that do so: bench and replay.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "core/contract/contract.hpp"
#include "core/store/answer.hpp"

namespace fk {

class JudgePool;
struct PluginSet;

// Callbacks that report progress while a question is judged. Either may be empty.
struct JudgeProgress {
  std::function<void(const std::string& what)> step;   // that begins
  std::function<void(const std::string& what)> ended;  // a case, with what came of it
};

// Error when the question is wrong: an unknown case. Seeds come from `secret`; null: from the
// room's.
Verdict judge_question(const Question& question, const Secret* secret, const Catalog& catalog,
                       const PluginSet& plugin_set, JudgePool& room, const JudgeProgress& progress);

// Asks the server of the device (server.hpp) where there is one; else finds plugins and contracts
// and judges here. With Seeds::any the server may take a secret for which contents are ready; the
// verdict tells which.
enum class Seeds { these, any };
AskJudge the_judge(Seeds seeds, JudgeProgress progress = {});

struct BenchRequest {
  Question question;
  AnswerOptions answer;
  std::string secret;    // the seeds of an earlier verdict: nothing is looked up or kept
  std::string receipt;   // a file to write the receipt to; empty: none
  bool profile = false;  // Nsight Compute afterwards, where it is
  bool as_json = false;
  std::string json;  // as for print_json
};

// Answers, prints, and returns the exit code.
int bench_candidate(const BenchRequest& request);

// Builds the folder and puts the library into the question; where that fails prints a verdict with
// the compiler's words and returns false.
bool build_for_bench(const std::filesystem::path& folder, BenchRequest& request);

}  // namespace fk
