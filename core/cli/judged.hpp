// SPDX-License-Identifier: Apache-2.0
// Questions to the judge (core/judge), for the verbs bench and replay.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "core/cli/output.hpp"
#include "core/contract/contract.hpp"
#include "core/store/answer.hpp"

namespace fk {

class JudgePool;
struct FoundPlugin;
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
// Seeds::any, the server may choose a secret with ready contents; the verdict names it. Processes
// that judge here stay ready for the next question until the function is destroyed.
enum class Seeds { these, any };
AskJudge the_judge(Seeds seeds, JudgeProgress progress = {});

// The verdict with this plugin as the only opponent, judged here. The opponent's process is sealed
// like the candidate's, unless it is a baseline.
Verdict judge_against(const FoundPlugin& rival, const Question& question, const Secret& secret,
                      const JudgeProgress& progress);

struct BenchRequest {
  Question question;
  AnswerOptions answer;
  std::string secret;    // seeds of an earlier verdict; nothing is looked up or stored
  std::string receipt;   // file for the receipt; empty: none
  std::string trace;     // file for a trace; empty: none
  bool verbose = false;  // the report explains every failed case
  bool archived = true;  // puts the verdict into an archive
  std::string archive;   // its file; empty: the default one
  bool profile = false;  // runs Nsight Compute afterwards, if installed
  const JsonOutput* json = nullptr;

  Seeds seeds() const { return secret.empty() ? Seeds::any : Seeds::these; }
};

// The verdict that is asked for, with notes for standard error. Writes the receipt's file.
Answer answer_of(const BenchRequest& request, const AskJudge& judge);

// The verdict on a folder that does not compile. `words`: the compiler's output.
Verdict not_compiled(const std::filesystem::path& folder, const BenchRequest& request,
                     const std::string& words);

}  // namespace fk
