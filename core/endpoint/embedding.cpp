// SPDX-License-Identifier: Apache-2.0
// Embeddings: one vector for each input, from an encoder.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/base64.hpp"
#include "core/base/clock.hpp"
#include "core/endpoint/completion.hpp"
#include "core/service/request.hpp"

namespace fk {

namespace {

// The vector of a text: the output of its kind, or the mean of the rows of its tokens.
std::vector<float> pooled(const NamedTensor& tensor, Pooling pooling) {
  if (tensor.shape.size() < 2) return tensor.values;
  const auto rows = static_cast<size_t>(tensor.shape[0]);
  const auto width = static_cast<size_t>(tensor.shape[1]);
  const auto row = [&](size_t r) {
    const auto begin = tensor.values.begin() + static_cast<ptrdiff_t>(r * width);
    return std::vector<float>(begin, begin + static_cast<ptrdiff_t>(width));
  };
  if (pooling == Pooling::first) return row(0);
  if (pooling == Pooling::last) return row(rows - 1);
  std::vector<double> sum(width);
  for (size_t r = 0; r < rows; ++r)
    for (size_t i = 0; i < width; ++i) sum[i] += static_cast<double>(tensor.values[r * width + i]);
  std::vector<float> out;
  for (const double each : sum) out.push_back(static_cast<float>(each / static_cast<double>(rows)));
  return out;
}

// To length 1.
void normalize(std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
  if (sum == 0) return;
  for (float& v : values) v = static_cast<float>(static_cast<double>(v) / std::sqrt(sum));
}

class Embedding : public std::enable_shared_from_this<Embedding> {
 public:
  Embedding(const EndpointParts& parts, EmbeddingRequest request)
      : parts_(parts), request_(std::move(request)) {}

  void begin() {
    const std::lock_guard lock(mutex_);
    begin_s_ = now_seconds();
    vectors_.resize(request_.inputs.size());
    for (const Prompt& input : request_.inputs) tokens_ += input.tokens.size();
    parts_.metrics.begin(static_cast<int64_t>(tokens_));
    for (size_t i = 0; i < request_.inputs.size(); ++i) {
      Request request;
      request.tokens = request_.inputs[i].tokens;
      ids_.push_back(
          parts_.submit(std::move(request),
                        [me = shared_from_this(), i](RunnerEvent& event) { me->hear(i, event); }));
    }
  }

  void abandon() {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
    if (over()) return;
    failed_ = "the client has gone";
    for (size_t i = 0; i < ids_.size(); ++i)
      if (vectors_[i].empty()) parts_.cancel(ids_[i]);
    parts_.metrics.end("abort", now_seconds() - begin_s_);
  }

  void when_news(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
  }

  LaterBody::Part take() {
    const std::lock_guard lock(mutex_);
    if (!failed_.empty()) {
      const ApiAnswer error = openai_error(500, failed_);
      return {error.body, true, error.status};
    }
    if (!over()) return {};
    Json out = {{"object", "list"}, {"data", Json::array()}, {"model", parts_.limits.model}};
    for (size_t i = 0; i < vectors_.size(); ++i)
      out["data"].push_back(
          {{"object", "embedding"}, {"index", i}, {"embedding", vector_json(vectors_[i])}});
    out["usage"] = {{"prompt_tokens", tokens_}, {"total_tokens", tokens_}};
    return {out.dump() + "\n", true};
  }

 private:
  bool over() const { return ended_ == vectors_.size() || !failed_.empty(); }

  Json vector_json(const std::vector<float>& values) const {
    if (!request_.base64) return values;
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return base64_of(bytes);
  }

  void hear(size_t i, RunnerEvent& event) {
    const std::lock_guard lock(mutex_);
    if (over()) return;
    if (event.kind == RunnerEvent::Kind::tensor) {
      vectors_[i] = pooled(event.tensor, parts_.limits.pooling);
      if (parts_.limits.normalizes) normalize(vectors_[i]);
      ++ended_;
      record(i);
    } else if (event.kind == RunnerEvent::Kind::failed) {
      failed_ = event.text;
    }
    if (!over()) return;
    parts_.metrics.end(failed_.empty() ? "stop" : "error", now_seconds() - begin_s_);
    if (wake_) wake_();
  }

  void record(size_t i) const {
    if (!parts_.recorder) return;
    RecordedRequest out;
    out.at_s = begin_s_ - parts_.recorder->begun_s();
    out.prompt = request_.inputs[i].tokens;
    out.end = kEndOfEmbedding;
    out.first_token_s = out.done_s = now_seconds() - begin_s_;
    parts_.recorder->add(out);
  }

  const EndpointParts parts_;
  const EmbeddingRequest request_;
  std::mutex mutex_;  // of all below
  double begin_s_ = 0;
  size_t tokens_ = 0, ended_ = 0;
  std::vector<uint64_t> ids_;
  std::vector<std::vector<float>> vectors_;
  std::string failed_;
  std::function<void()> wake_;
};

class EmbeddingBody final : public LaterBody {
 public:
  explicit EmbeddingBody(std::shared_ptr<Embedding> embedding) : embedding_(std::move(embedding)) {}
  ~EmbeddingBody() override { embedding_->abandon(); }
  Part take() override { return embedding_->take(); }
  void when_news(std::function<void()> wake) override { embedding_->when_news(std::move(wake)); }

 private:
  std::shared_ptr<Embedding> embedding_;
};

}  // namespace

ApiAnswer begin_embedding(const EndpointParts& parts, EmbeddingRequest request) {
  for (const Prompt& input : request.inputs)
    if (static_cast<int64_t>(input.tokens.size()) > parts.limits.context)
      throw BadRequest("input", std::to_string(input.tokens.size()) +
                                    " tokens exceed the context of " +
                                    std::to_string(parts.limits.context));
  auto embedding = std::make_shared<Embedding>(parts, std::move(request));
  embedding->begin();
  ApiAnswer out;
  out.later = std::make_shared<EmbeddingBody>(std::move(embedding));
  return out;
}

}  // namespace fk
