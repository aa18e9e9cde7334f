// SPDX-License-Identifier: Apache-2.0
// Computes requests in order of arrival and in batches (denoise.hpp).
#include "core/engines/denoise/denoise.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>

#include "core/base/error.hpp"
#include "core/engines/request_tensors.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

namespace {

// The coefficients of one step, in the order of engine.hpp.
std::vector<float> coefficients_of(const DenoiseStep& step, const DenoiseOptions& options) {
  std::vector<double> all = {step.latent};
  if (options.guidance == 1) {
    all.push_back(step.prediction);
  } else {
    all.push_back(step.prediction * options.guidance);
    all.push_back(step.prediction * (1 - options.guidance));
  }
  if (options.sampler.range > 0) all.push_back(step.clipped);
  return {all.begin(), all.end()};
}

class Denoising {
 public:
  Denoising(Program& begin, Program& step, Program* end, Exchange& exchange,
            const DenoiseOptions& options)
      : begin_(begin),
        step_(step),
        end_(end),
        exchange_(exchange),
        options_(options),
        tensors_(begin, options.inputs),
        time_(input("time")),
        scale_(input("input_coefficients")),
        coefficients_(input("coefficients")) {
    for (Program* program : programs())
      if (program->axis("B") < 0) fail("denoise", "a phase has no axis `B`");
  }

  void run() {
    while (tensors_.collect(exchange_, waiting_)) run_batch();
  }

 private:
  float* input(const std::string& name) const {
    auto* memory = static_cast<float*>(step_.input(name));
    if (memory == nullptr) fail("denoise", "the phase `step` has no input `" + name + "`");
    return memory;
  }
  std::vector<Program*> programs() const {
    std::vector<Program*> all = {&begin_, &step_};
    if (end_) all.push_back(end_);
    return all;
  }

  void run_batch() {
    int64_t count = static_cast<int64_t>(waiting_.size());
    for (Program* program : programs()) count = std::min(count, program->limit("B"));
    for (int64_t b = 0; b < count; ++b) tensors_.write(b, waiting_[static_cast<size_t>(b)]);
    for (Program* program : programs()) program->bind(program->axis("B"), count);
    begin_.run();
    for (const DenoiseStep& step : options_.sampler.steps) {
      std::fill_n(time_, count, static_cast<float>(step.time));
      scale_[0] = 0;
      scale_[1] = static_cast<float>(step.scale);
      std::ranges::copy(coefficients_of(step, options_), coefficients_);
      step_.run();
    }
    if (end_) end_->run();
    for (const auto& name : options_.outputs) report(end_ ? *end_ : step_, name, count);
    waiting_.erase(waiting_.begin(), waiting_.begin() + count);
    exchange_.progress("denoise " + std::to_string(count) + " requests");
  }

  void report(Program& program, const std::string& name, int64_t count) {
    const Program::Output output = program.output(name);
    FK_CHECK(!output.shape.empty() && output.shape[0] == count, "an output without the axis B");
    const int64_t all = numel(output.shape), each = all / count;
    std::vector<std::byte> raw(static_cast<size_t>(all * bytes(output.dtype)));
    std::vector<float> values(static_cast<size_t>(all));
    program.read(name, raw.data(), static_cast<int64_t>(raw.size()));
    convert(raw.data(), output.dtype, values.data(), DType::f32, all);
    const Shape shape(output.shape.begin() + 1, output.shape.end());
    for (int64_t b = 0; b < count; ++b)
      exchange_.tensor(waiting_[static_cast<size_t>(b)].id, name, shape, values.data() + b * each);
  }

  Program &begin_, &step_;
  Program* end_;
  Exchange& exchange_;
  const DenoiseOptions& options_;
  RequestTensors tensors_;
  float *time_, *scale_, *coefficients_;
  std::deque<Request> waiting_;
};

}  // namespace

void denoise(Program& begin, Program& step, Program* end, Exchange& exchange,
             const DenoiseOptions& options) {
  Denoising(begin, step, end, exchange, options).run();
}

}  // namespace fk
