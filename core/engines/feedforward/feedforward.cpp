// SPDX-License-Identifier: Apache-2.0
// Computes requests of models without tokens, in order of arrival and in batches.
#include "core/engines/feedforward/feedforward.hpp"

#include <algorithm>
#include <deque>

#include "core/base/error.hpp"
#include "core/engines/request_tensors.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

namespace {

class Pass {
 public:
  Pass(Program& program, Exchange& exchange, const FeedforwardOptions& options)
      : program_(program),
        exchange_(exchange),
        tensors_(program, options.inputs),
        options_(options),
        batch_(program.axis("B")) {
    if (batch_ < 0) fail("pass", "the phase has no axis `B`");
  }

  void run() {
    while (tensors_.collect(exchange_, waiting_)) run_batch();
  }

 private:
  void run_batch() {
    const int64_t count = std::min(program_.limit("B"), static_cast<int64_t>(waiting_.size()));
    for (int64_t b = 0; b < count; ++b) tensors_.write(b, waiting_[static_cast<size_t>(b)]);
    program_.bind(batch_, count);
    program_.run();
    if (const std::string why = overflow(); !why.empty()) {
      for (int64_t b = 0; b < count; ++b)
        exchange_.failed(waiting_[static_cast<size_t>(b)].id, why);
    } else {
      for (const auto& name : options_.outputs) report(name, count);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + count);
    exchange_.progress("pass " + std::to_string(count) + " requests");
  }

  // Why the outputs hold nothing valid; empty: they do.
  std::string overflow() {
    for (const auto& wanted : options_.counts) {
      int64_t found = 0;
      const Program::Output output = program_.output(wanted.output);
      FK_CHECK(output.dtype == DType::i64 && numel(output.shape) == 1, "a count of one number");
      program_.read(wanted.output, &found, sizeof found);
      const int64_t room = wanted.room_of_request * program_.limit("B");
      if (found > room)
        return "the batch has " + std::to_string(found) + " " + wanted.output + ", and room for " +
               std::to_string(room) + ": raise `" + wanted.key + "` of the configuration";
    }
    return "";
  }

  void report(const std::string& name, int64_t count) {
    const Program::Output output = program_.output(name);
    FK_CHECK(!output.shape.empty() && output.shape[0] == count, "an output without the axis B");
    const int64_t all = numel(output.shape), each = all / count;
    raw_.resize(static_cast<size_t>(all * bytes(output.dtype)));
    values_.resize(static_cast<size_t>(all));
    program_.read(name, raw_.data(), static_cast<int64_t>(raw_.size()));
    convert(raw_.data(), output.dtype, values_.data(), DType::f32, all);
    const Shape shape(output.shape.begin() + 1, output.shape.end());
    for (int64_t b = 0; b < count; ++b)
      exchange_.tensor(waiting_[static_cast<size_t>(b)].id, name, shape, values_.data() + b * each);
  }

  Program& program_;
  Exchange& exchange_;
  RequestTensors tensors_;
  FeedforwardOptions options_;
  int batch_;
  std::deque<Request> waiting_;
  std::vector<std::byte> raw_;
  std::vector<float> values_;
};

}  // namespace

void pass(Program& program, Exchange& exchange, const FeedforwardOptions& options) {
  Pass(program, exchange, options).run();
}

}  // namespace fk
