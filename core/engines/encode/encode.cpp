// SPDX-License-Identifier: Apache-2.0
// Encodes texts in batches. Batches are ragged: tokens of all texts follow each other without
// padding. Requests are added in order of arrival until the token budget (the limit of axis T) is
// used or the batch is full.
#include "core/engines/encode/encode.hpp"

#include <algorithm>
#include <deque>
#include <numeric>

#include "core/base/error.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

namespace {

class Encoder {
 public:
  Encoder(Program& program, Exchange& exchange, const EncodeSetup& setup)
      : program_(program),
        exchange_(exchange),
        setup_(setup),
        tokens_max_(program.limit("T")),
        batch_max_(program.limit("B")),
        ids_(at<int64_t>("ids")),
        positions_(at<int64_t>("positions")),
        types_(static_cast<int64_t*>(program.input("types"))),
        starts_(at<int32_t>("cu_seqlens")),
        first_rows_(static_cast<int32_t*>(program.input("first_rows"))),
        one_each_(static_cast<int32_t*>(program.input("one_each"))) {}

  void run() {
    Request request;
    for (;;) {
      while (exchange_.next(request, waiting_.empty())) {
        if (const std::string why = refusal(request); !why.empty())
          exchange_.failed(request.id, why);
        else
          waiting_.push_back(std::move(request));
        request = {};
      }
      if (waiting_.empty()) return;
      run_batch();
    }
  }

 private:
  template <class T>
  T* at(const char* name) {
    void* data = program_.input(name);
    if (data == nullptr) fail("encode", std::string("the phase has no input `") + name + "`");
    return static_cast<T*>(data);
  }

  std::string refusal(const Request& request) const {
    const auto count = static_cast<int64_t>(request.tokens.size());
    const int64_t most = std::min(setup_.max_context, tokens_max_);
    if (count == 0) return "the text is empty";
    if (count > most) {
      return "its " + std::to_string(count) + " tokens exceed the context of " +
             std::to_string(most);
    }
    for (size_t i = 0; i < request.tokens.size(); ++i) {
      const int64_t token = request.tokens[i];
      if (token < 0 || token >= setup_.vocab_size) {
        return "token " + std::to_string(i) + " is " + std::to_string(token) +
               ", outside the vocabulary of " + std::to_string(setup_.vocab_size);
      }
    }
    return "";
  }

  void append(const Request& request) {
    int64_t position = setup_.options.position_offset;
    for (const int64_t token : request.tokens) {
      const bool pad = token == setup_.options.pad_token;
      ids_[tokens_] = token;
      positions_[tokens_] = pad ? setup_.options.pad_token : position++;
      if (types_ != nullptr) types_[tokens_] = 0;
      ++tokens_;
    }
  }

  void run_batch() {
    tokens_ = 0;
    int64_t count = 0;
    for (; count < std::min(batch_max_, static_cast<int64_t>(waiting_.size())); ++count) {
      const Request& request = waiting_[static_cast<size_t>(count)];
      if (tokens_ + static_cast<int64_t>(request.tokens.size()) > tokens_max_) break;
      starts_[count] = static_cast<int32_t>(tokens_);
      append(request);
    }
    starts_[count] = static_cast<int32_t>(tokens_);
    if (first_rows_ != nullptr) std::copy_n(starts_, count, first_rows_);
    if (one_each_ != nullptr) std::iota(one_each_, one_each_ + count + 1, 0);
    program_.bind(program_.axis("T"), tokens_);
    program_.bind(program_.axis("B"), count);
    program_.run();
    const int64_t width = read_output();
    for (int64_t b = 0; b < count; ++b) {
      const Request& request = waiting_.front();
      const auto length = static_cast<int64_t>(request.tokens.size());
      const EncodeOptions& options = setup_.options;
      if (options.of_texts)
        exchange_.tensor(request.id, options.output, {width}, values_.data() + b * width);
      else
        exchange_.tensor(request.id, options.output, {length, width},
                         values_.data() + starts_[b] * width);
      waiting_.pop_front();
    }
    exchange_.progress("encode " + std::to_string(tokens_) + " tokens");
  }

  // Reads the output to the host. Returns its number of channels.
  int64_t read_output() {
    const Program::Output output = program_.output(setup_.options.output);
    const int64_t count = numel(output.shape);
    raw_.resize(static_cast<size_t>(count * bytes(output.dtype)));
    values_.resize(static_cast<size_t>(count));
    program_.read(setup_.options.output, raw_.data(), static_cast<int64_t>(raw_.size()));
    convert(raw_.data(), output.dtype, values_.data(), DType::f32, count);
    return output.shape.back();
  }

  Program& program_;
  Exchange& exchange_;
  EncodeSetup setup_;
  int64_t tokens_max_, batch_max_;
  int64_t *ids_, *positions_, *types_;
  int32_t *starts_, *first_rows_, *one_each_;
  std::deque<Request> waiting_;
  int64_t tokens_ = 0;  // of the next batch
  std::vector<std::byte> raw_;
  std::vector<float> values_;
};

}  // namespace

void encode(Program& program, Exchange& exchange, const EncodeSetup& setup) {
  Encoder(program, exchange, setup).run();
}

}  // namespace fk
