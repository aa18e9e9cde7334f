// SPDX-License-Identifier: Apache-2.0
// Computes requests in order of arrival and in batches (rollout.hpp).
#include "core/engines/rollout/rollout.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>

#include "core/base/error.hpp"
#include "core/engines/request_tensors.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

namespace {

class Rollout {
 public:
  Rollout(const RolloutPrograms& programs, Exchange& exchange, const RolloutOptions& options)
      : programs_(programs),
        exchange_(exchange),
        options_(options),
        tensors_(programs.prompt, options.inputs),
        frame_time_(input(programs.frame, "frame", "time")),
        step_time_(input(programs.step, "step", "time")),
        coefficients_(input(programs.step, "step", "coefficients")) {
    for (Program* program : all())
      if (program->axis("B") < 0) fail("rollout", "a phase has no axis `B`");
  }

  void run() {
    while (tensors_.collect(exchange_, waiting_)) run_batch();
  }

 private:
  static float* input(Program& program, const std::string& phase, const std::string& name) {
    auto* memory = static_cast<float*>(program.input(name));
    if (memory == nullptr) fail("rollout", "the phase `" + phase + "` has no input `" + name + "`");
    return memory;
  }
  std::vector<Program*> all() const {
    return {&programs_.prompt, &programs_.frame, &programs_.step, &programs_.decode};
  }

  // A phase of a model need not have every axis.
  static void place(Program& program, const char* axis, int64_t value) {
    if (const int index = program.axis(axis); index >= 0) program.bind(index, value);
  }

  void run_batch() {
    count_ = static_cast<int64_t>(waiting_.size());
    for (Program* program : all()) count_ = std::min(count_, program->limit("B"));
    for (int64_t b = 0; b < count_; ++b) tensors_.write(b, waiting_[static_cast<size_t>(b)]);
    for (Program* program : all()) program->bind(program->axis("B"), count_);
    programs_.prompt.run();
    first_ = seen_ = 0;
    for (int64_t i = 0; i < options_.prompt_frames; ++i) decode(i);
    for (int64_t i = options_.prompt_frames; i < options_.frames; ++i) {
      show_frames_before(i);
      make(i);
      decode(i);
      exchange_.progress("frame " + std::to_string(i + 1) + " of " +
                         std::to_string(options_.frames) + " for " + std::to_string(count_) +
                         " requests");
    }
    report();
    waiting_.erase(waiting_.begin(), waiting_.begin() + count_);
  }

  // Frame i sees the frames from first_ on. Those from seen_ on are not visible yet.
  void show_frames_before(int64_t i) {
    const int64_t first = std::max<int64_t>(0, i + 1 - options_.window);
    if (first != first_) seen_ = first;
    first_ = first;
    for (; seen_ < i; ++seen_) {
      at(programs_.frame, seen_);
      std::fill_n(frame_time_, count_, static_cast<float>(options_.seen_time));
      programs_.frame.run();
    }
  }

  void make(int64_t i) {
    at(programs_.step, i);
    for (const DenoiseStep& step : options_.sampler.steps) {
      std::fill_n(step_time_, count_, static_cast<float>(step.time));
      coefficients_[0] = static_cast<float>(step.latent);
      coefficients_[1] = static_cast<float>(step.prediction);
      programs_.step.run();
    }
  }

  void at(Program& program, int64_t i) const {
    place(program, "E", i + 1);
    place(program, "T", i + 1 - first_);
  }

  // Keeps the results of frame i behind those of the frames before.
  void decode(int64_t i) {
    place(programs_.decode, "E", i + 1);
    programs_.decode.run();
    for (const auto& name : options_.outputs) {
      const Program::Output output = programs_.decode.output(name);
      FK_CHECK(!output.shape.empty() && output.shape[0] == count_, "an output without the axis B");
      const int64_t values = numel(output.shape), each = values / count_;
      std::vector<std::byte> raw(static_cast<size_t>(values * bytes(output.dtype)));
      programs_.decode.read(name, raw.data(), static_cast<int64_t>(raw.size()));
      Result& result = results_[name];
      result.shape = {options_.frames};
      result.shape.insert(result.shape.end(), output.shape.begin() + 1, output.shape.end());
      result.values.resize(static_cast<size_t>(options_.frames * values));
      for (int64_t b = 0; b < count_; ++b)
        convert(raw.data() + b * each * bytes(output.dtype), output.dtype,
                result.values.data() + (b * options_.frames + i) * each, DType::f32, each);
    }
  }

  void report() {
    for (const auto& name : options_.outputs) {
      const Result& result = results_.at(name);
      const int64_t each = numel(result.shape);
      for (int64_t b = 0; b < count_; ++b)
        exchange_.tensor(waiting_[static_cast<size_t>(b)].id, name, result.shape,
                         result.values.data() + b * each);
    }
  }

  struct Result {
    Shape shape;                // of a request: frames first
    std::vector<float> values;  // of all requests of the batch
  };

  const RolloutPrograms& programs_;
  Exchange& exchange_;
  const RolloutOptions& options_;
  RequestTensors tensors_;
  float *frame_time_, *step_time_, *coefficients_;
  std::deque<Request> waiting_;
  std::map<std::string, Result> results_;
  int64_t count_ = 0;             // requests of the batch
  int64_t first_ = 0, seen_ = 0;  // frames
};

}  // namespace

void rollout(const RolloutPrograms& programs, Exchange& exchange, const RolloutOptions& options) {
  Rollout(programs, exchange, options).run();
}

}  // namespace fk
