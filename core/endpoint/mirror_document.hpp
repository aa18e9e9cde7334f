// SPDX-License-Identifier: Apache-2.0
// The report of a mirror (mirror.hpp), as a document.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.hpp"
#include "core/judge/verdict/fields.hpp"
#include "core/report/document.hpp"

namespace fk {

// The first token of an answer which the candidate chose differently.
struct MirrorDifference {
  int64_t request = 0, prompt_tokens = 0, index = 0;
  int64_t baseline = 0, candidate = 0;
  bool sampled = false;
  std::optional<double> apart;
};
template <class Visitor>
void fields(Visitor& v, MirrorDifference& d) {
  v("request", d.request, "number of the request, from 1");
  v("prompt_tokens", d.prompt_tokens, "length of its prompt");
  v("index", d.index, "the first different token of the answer, from 0");
  v("baseline", d.baseline, "the baseline's token");
  v("candidate", d.candidate, "the candidate's token");
  v("sampled", d.sampled, "chance chose; else the token with the largest logit was asked for");
  v("apart", d.apart,
    "the baseline's logit of its own token less that of the candidate's; small: nearly a tie; "
    "null: not asked");
}

struct MirrorReport {
  static constexpr const char* kSchema = "fk-host.mirror/1";
  static constexpr const char* kTitle =
      "A candidate beside the baseline under traffic (serve-model --mirror)";
  std::string model, device;
  std::vector<std::string> candidates;
  int64_t requests = 0, equal = 0, different = 0, failed = 0, left_out = 0, open = 0;
  int64_t tokens = 0, equal_tokens = 0, restarts = 0;
  std::optional<double> vectors_apart;
  std::optional<Ratio> first_token, next_token, whole;
  std::vector<MirrorDifference> differences;
  std::vector<std::string> failures;
};
template <class Visitor>
void fields(Visitor& v, MirrorReport& r) {
  v("model", r.model, "the model's name for clients");
  v("device", r.device, "the device, which both sides share");
  v("candidates", r.candidates, "candidates in the second model");
  v("requests", r.requests, "requests that both sides ended");
  v("equal", r.equal, "those with the same tokens, or vectors up to 1e-3");
  v("different", r.different, "the others");
  v("failed", r.failed, "requests that the baseline answered and the candidate did not");
  v("left_out", r.left_out, "requests of the baseline alone: the candidate had too many open");
  v("open", r.open, "requests that one side has not ended");
  v("tokens", r.tokens, "tokens of compared answers");
  v("equal_tokens", r.equal_tokens, "tokens before the first difference");
  v("restarts", r.restarts, "times that the candidate's process was started again");
  v("vectors_apart", r.vectors_apart,
    "largest distance of two embeddings over the baseline's length; null: none");
  v("first_token", r.first_token,
    "the baseline's time to the first token over the candidate's; null: none");
  v("next_token", r.next_token, "the same of the time between two tokens of equal answers");
  v("whole", r.whole, "the same of the time of a whole equal answer, or of an embedding");
  v("differences", r.differences, "the first 64 of them");
  v("failures", r.failures, "the first eight different reasons");
}

}  // namespace fk
