// SPDX-License-Identifier: Apache-2.0
// A question put to the judge (core/referee/judge), for the verbs that do so: bench and replay.
#pragma once
#include <filesystem>
#include <string>

#include "core/store/answer.hpp"

namespace fk {

// Finds plugins and contracts and judges. Error when the question is wrong: an unknown case, a
// device that is not there.
AskJudge the_judge();

struct BenchRequest {
  Question question;
  AnswerOptions answer;
  std::string secret;   // the seeds of an earlier verdict: nothing is looked up or kept
  std::string receipt;  // a file to write the receipt to; empty: none
  bool as_json = false;
  std::string json;  // as for print_json
};

// Answers, prints, and returns the exit code.
int bench_candidate(const BenchRequest& request);

// Builds the folder and puts the library into the question; where that fails prints a verdict with
// the compiler's words and returns false.
bool build_for_bench(const std::filesystem::path& folder, BenchRequest& request);

}  // namespace fk
