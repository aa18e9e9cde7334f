// SPDX-License-Identifier: Apache-2.0
// Computes requests in order of arrival and in batches (denoise.hpp).
#include "core/engines/denoise/denoise.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>

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
    if (options_.noisy) {
      number_ = static_cast<int32_t*>(step_.input("step"));
      if (number_ == nullptr) fail("denoise", "the phase `step` has no input `step`");
      noise_ = input("noise_coefficients");
    }
    for (Program* program : programs())
      if (program != &begin_) more_tensors_.emplace_back(*program, of_phase(*program));
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
  // The request's tensors which a phase has as inputs.
  std::vector<RequestTensor> of_phase(Program& program) const {
    std::vector<RequestTensor> all;
    std::ranges::copy_if(options_.inputs, std::back_inserter(all),
                         [&](const RequestTensor& t) { return program.input(t.name) != nullptr; });
    return all;
  }
  std::vector<Program*> programs() const {
    std::vector<Program*> all = {&begin_, &step_};
    if (end_) all.push_back(end_);
    return all;
  }

  void run_batch() {
    int64_t count = static_cast<int64_t>(waiting_.size());
    for (Program* program : programs()) count = std::min(count, program->limit("B"));
    for (int64_t b = 0; b < count; ++b) {
      const Request& request = waiting_[static_cast<size_t>(b)];
      tensors_.write(b, request);
      for (RequestTensors& more : more_tensors_) more.write(b, request);
    }
    for (Program* program : programs()) program->bind(program->axis("B"), count);
    begin_.run();
    for (size_t i = 0; i < options_.sampler.steps.size(); ++i) {
      const DenoiseStep& step = options_.sampler.steps[i];
      std::fill_n(time_, count, static_cast<float>(step.time));
      scale_[0] = 0;
      scale_[1] = static_cast<float>(step.scale);
      std::ranges::copy(coefficients_of(step, options_), coefficients_);
      if (options_.noisy) {
        *number_ = static_cast<int32_t>(i);
        noise_[0] = 1;
        noise_[1] = static_cast<float>(step.noise);
      }
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
  std::vector<RequestTensors> more_tensors_;  // of the phases step and end
  float *time_, *scale_, *coefficients_;
  int32_t* number_ = nullptr;  // of a step; with noise_, only where steps add noise
  float* noise_ = nullptr;
  std::deque<Request> waiting_;
};

}  // namespace

void denoise(Program& begin, Program& step, Program* end, Exchange& exchange,
             const DenoiseOptions& options) {
  Denoising(begin, step, end, exchange, options).run();
}

}  // namespace fk
