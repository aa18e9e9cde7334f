// SPDX-License-Identifier: Apache-2.0
// Reads texts one after the other, chunk by chunk (engine.hpp).
#include "core/engines/adapt/adapt.hpp"

#include <algorithm>

#include "core/base/error.hpp"

namespace fk {

namespace {

// The inputs of a phase which computes a chunk.
class ChunkInputs {
 public:
  ChunkInputs(Program& program, const std::string& phase, bool learns)
      : program_(program),
        rows_(axis(phase, "T")),
        past_(axis(phase, "A")),
        ids_(at<int64_t>(phase, "ids")),
        targets_(at<int64_t>(phase, "targets")),
        positions_(at<int64_t>(phase, "positions")),
        queries_(at<int32_t>(phase, "cu_seqlens_q")),
        keys_(at<int32_t>(phase, "cu_seqlens_k")),
        loss_grad_(learns ? at<float>(phase, "loss_grad") : nullptr) {}

  // Tokens [first, first + count) of a text, which see `past` tokens before them.
  void run(const std::vector<int64_t>& tokens, int64_t first, int64_t count, int64_t past) {
    const auto last = static_cast<int64_t>(tokens.size()) - 1;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = first + i;
      ids_[i] = tokens[static_cast<size_t>(place)];
      targets_[i] = tokens[static_cast<size_t>(std::min(place + 1, last))];
      positions_[i] = place;
      if (loss_grad_ != nullptr) loss_grad_[i] = 1 / static_cast<float>(count);
    }
    queries_[0] = keys_[0] = 0;
    queries_[1] = static_cast<int32_t>(count);
    keys_[1] = static_cast<int32_t>(past + count);
    program_.bind(rows_, count);
    program_.bind(past_, past);
    program_.run();
  }

  // Appends the first `count` rows of the output.
  void read(int64_t count, std::vector<float>& values) {
    const Program::Output output = program_.output("logprobs");
    FK_CHECK(output.dtype == DType::f32, "logprobs in float32");
    rest_.resize(static_cast<size_t>(numel(output.shape)));
    program_.read("logprobs", rest_.data(), static_cast<int64_t>(rest_.size() * sizeof(float)));
    values.insert(values.end(), rest_.begin(), rest_.begin() + count);
  }

 private:
  int axis(const std::string& phase, const char* name) const {
    const int index = program_.axis(name);
    if (index < 0) fail("adapt", "the phase `" + phase + "` has no axis `" + name + "`");
    return index;
  }
  template <class T>
  T* at(const std::string& phase, const char* name) const {
    void* data = program_.input(name);
    if (data == nullptr) fail("adapt", "the phase `" + phase + "` has no input `" + name + "`");
    return static_cast<T*>(data);
  }

  Program& program_;
  int rows_, past_;
  int64_t *ids_, *targets_, *positions_;
  int32_t *queries_, *keys_;
  float* loss_grad_;
  std::vector<float> rest_;
};

class Reader {
 public:
  Reader(const AdaptPrograms& programs, Exchange& exchange, const AdaptOptions& options,
         int64_t context)
      : begin_(programs.begin),
        learn_(programs.learn, "learn", true),
        score_(programs.score, "score", false),
        exchange_(exchange),
        options_(options),
        context_(context) {}

  void run() {
    for (Request request; exchange_.next(request, true); request = {}) {
      if (const std::string why = refusal(request); !why.empty())
        exchange_.failed(request.id, why);
      else
        read(request);
    }
  }

 private:
  std::string refusal(const Request& request) const {
    const auto count = static_cast<int64_t>(request.tokens.size());
    if (!request.tensors.empty()) return "the model takes tokens, and no tensors";
    if (request.new_tokens > 0) return "the model scores texts, and makes no tokens";
    if (count < 2) return "a text has at least two tokens";
    if (count > context_)
      return "its " + std::to_string(count) + " tokens exceed the context of " +
             std::to_string(context_);
    for (size_t i = 0; i < request.tokens.size(); ++i)
      if (const int64_t token = request.tokens[i]; token < 0 || token >= options_.vocabulary)
        return "token " + std::to_string(i) + " is " + std::to_string(token) +
               ", outside the vocabulary of " + std::to_string(options_.vocabulary);
    return "";
  }

  void read(const Request& request) {
    const auto count = static_cast<int64_t>(request.tokens.size());
    const int64_t chunks = (count + options_.chunk - 1) / options_.chunk;
    std::vector<float> logprobs;
    begin_.run();
    for (int64_t c = 0; c < chunks; ++c) {
      const int64_t first = c * options_.chunk, rows = std::min(options_.chunk, count - first);
      const bool last = c + 1 == chunks;
      ChunkInputs& phase = last ? score_ : learn_;
      phase.run(request.tokens, first, rows, std::min(first, options_.window));
      phase.read(last ? rows - 1 : rows, logprobs);
      exchange_.progress("chunk " + std::to_string(c + 1) + " of " + std::to_string(chunks));
    }
    exchange_.tensor(request.id, "logprobs", {count - 1, 1}, logprobs.data());
  }

  Program& begin_;
  ChunkInputs learn_, score_;
  Exchange& exchange_;
  const AdaptOptions& options_;
  const int64_t context_;
};

}  // namespace

void adapt(const AdaptPrograms& programs, Exchange& exchange, const AdaptOptions& options,
           int64_t context) {
  Reader(programs, exchange, options, context).run();
}

}  // namespace fk
