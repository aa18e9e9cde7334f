// SPDX-License-Identifier: Apache-2.0
// A question and its answer: from the store where it was asked before, else from the judge, with a
// receipt.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/judge/verdict/secret.hpp"
#include "core/store/key.hpp"
#include "core/store/receipt.hpp"

namespace fk {

// Judges the candidate with the seeds of this secret, or of another that it puts into the verdict.
// What is left empty of the verdict's candidate hash, host, secret, time and seconds is filled in
// for it, and conclude() is called.
using AskJudge = std::function<Verdict(const Question& question, const Secret& secret)>;

struct AnswerOptions {
  bool store = true;   // look for the answer, and keep it
  bool fresh = false;  // keep it, but do not look
  std::string host_version;
};

struct Answer {
  Verdict verdict;
  Json receipt;
  std::vector<std::string> notes;  // about the store and the receipt, for the standard error
};

// A verdict in which the host failed is kept, but never an answer to a later question; one on a
// file that changed meanwhile is such a one.
Answer answer(const Question& question, const AskJudge& judge, const AnswerOptions& options);

// What the judge says, completed.
Verdict ask(const Question& question, const AskJudge& judge, const Secret& secret,
            const std::string& host_version);

}  // namespace fk
