// SPDX-License-Identifier: Apache-2.0
// Requests of real traffic with their answers, as `serve-model --record` writes them: one line of
// JSON for each request (docs/serving.md).
#pragma once
#include <string>
#include <vector>

#include "core/base/fields.hpp"
#include "core/engines/load.hpp"

namespace fk {

struct RecordedRequest {
  double at_s = 0;  // of its arrival, since the server began
  std::vector<int64_t> prompt, answer;
  std::string end;
  int64_t max_tokens = 0;
  Sampling sampling;
  double first_token_s = 0, done_s = 0;
};
inline constexpr const char* kEndOfEmbedding = "embedding";

template <class Visitor>
void fields(Visitor& v, RecordedRequest& r) {
  const auto number = [&v](const char* key, float& member, float off, const char* meaning) {
    double value = static_cast<double>(member);
    v.optional(key, value, member != off, meaning);
    member = static_cast<float>(value);
  };
  v("at_s", r.at_s, "seconds from the start of the server to the request");
  v("prompt", r.prompt, "its tokens");
  v("answer", r.answer, "tokens of the answer");
  v("end", r.end, "stop, length, abort (the client went away), error, or embedding");
  v("max_tokens", r.max_tokens, "tokens that the client allowed");
  number("temperature", r.sampling.temperature, 0, "0, or absent: greedy");
  v.optional("top_k", r.sampling.top_k, r.sampling.top_k != 0, "absent: off");
  number("top_p", r.sampling.top_p, 1, "absent: off");
  number("min_p", r.sampling.min_p, 0, "absent: off");
  number("frequency_penalty", r.sampling.frequency_penalty, 0, "absent: off");
  number("presence_penalty", r.sampling.presence_penalty, 0, "absent: off");
  number("repetition_penalty", r.sampling.repetition_penalty, 1, "absent: off");
  v("seed", r.sampling.seed, "of the choice of tokens");
  v("first_token_s", r.first_token_s, "seconds from the request to its first token");
  v("done_s", r.done_s, "seconds from the request to its end");
}

class RecordedLoad final : public Load {
 public:
  int64_t requests() const override { return static_cast<int64_t>(requests_.size()); }
  // As it was recorded; `seed` has no effect. Without min_p and penalties, because the audit of a
  // judged run does not know them.
  Request request(const RequestForm& form, int64_t index, uint64_t seed) const override;
  bool is_recorded() const override { return true; }
  double arrives_s(int64_t index) const override;
  const std::vector<int64_t>* answer(int64_t index) const override;
  int64_t left_out() const override { return left_out_; }
  int64_t prompt_tokens() const override;
  int64_t output_tokens() const override;
  int64_t longest() const override;

  // Reads the file of the key `recorded`. Requests without an answer, and those that do not fit the
  // context, are left out. So is a last line without an end, which a killed server leaves. Error
  // with file and line.
  static std::shared_ptr<const Load> read(const WorkloadKeys& keys, const LoadSize& size);

 private:
  std::vector<RecordedRequest> requests_;  // in the order of arrival
  int64_t left_out_ = 0;
};

}  // namespace fk
