// SPDX-License-Identifier: Apache-2.0
// The part that engines of writing models share: a request is a prompt, and its answer is tokens
// with logits.
#pragma once
#include "core/exec/engine.hpp"

namespace fk {

class TextEngine : public Engine {
 public:
  // The logits of a position choose the next token, or (false) the token of that position.
  enum class Logits { of_next, of_own };

  Request scored(Request request) const override;
  // A row of "logits" for each token of prompt and forced answer, in place of the single positions.
  std::vector<NamedTensor> results(const RequestResult& result) const override;
  bool repeats_inputs() const override { return logits_ == Logits::of_own; }
  // Small chunks, and pages for only 1.5 of the longest requests.
  Limits stressed(const Limits& limits, int64_t longest) const override;
  // If logits choose the next token, prompt and answer form one prompt, which scores all tokens at
  // once. Otherwise the model is teacher-forced to the tokens in their order of arrival.
  Request audit_request(const RequestResult& timed) const override;
  AuditedTokens audit(const RequestResult& timed, const RequestResult& oracle,
                      double tolerance) const override;

 protected:
  TextEngine(RequestForm form, Logits logits) : Engine(std::move(form)), logits_(logits) {}

 private:
  Logits logits_;
};

// The form of a request with a prompt and an answer.
RequestForm text_form(int64_t vocabulary, int64_t positions);

}  // namespace fk
