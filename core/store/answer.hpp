// SPDX-License-Identifier: Apache-2.0
// A question and its answer: from the store if it was asked before, else from the judge, with a
// receipt.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/judge/verdict/secret.hpp"
#include "core/store/key.hpp"
#include "core/store/receipt.hpp"

namespace fk {

// Judges the candidate with the seeds of this secret, or of another secret that it puts into the
// verdict. ask() fills in empty fields (candidate hash, host, secret, time, seconds) and calls
// conclude().
using AskJudge = std::function<Verdict(const Question& question, const Secret& secret)>;

struct AnswerOptions {
  bool store = true;   // look for the answer, and keep a new one
  bool fresh = false;  // do not look, but keep the answer
  std::string host_version;
};

struct Answer {
  Verdict verdict;
  Json receipt;
  std::vector<std::string> notes;  // on the store and the receipt, for standard error
};

// A verdict is kept, but never answers a later question, in three situations. The host failed; the
// file changed meanwhile; or the times do not tell (`cannot_tell`).
Answer answer(const Question& question, const AskJudge& judge, const AnswerOptions& options);

// The judge's verdict, completed.
Verdict ask(const Question& question, const AskJudge& judge, const Secret& secret,
            const std::string& host_version);

}  // namespace fk
