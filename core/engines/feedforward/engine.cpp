// SPDX-License-Identifier: Apache-2.0
#include "core/engines/feedforward/engine.hpp"

#include "core/engines/feedforward/feedforward.hpp"
#include "core/engines/tensor_load.hpp"

namespace fk {

namespace {

class FeedforwardEngine final : public Engine {
 public:
  explicit FeedforwardEngine(FeedforwardOptions options)
      : Engine({0, 0, options.inputs, false}), options_(std::move(options)) {}

  std::string name() const override { return "feedforward"; }
  std::vector<std::string> phases() const override { return {options_.phase}; }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    if (axis == "B") return limits.max_batch;
    fail_axis(phase, axis, {"B"});
  }

  void drive(Session& session) const override {
    pass(session.phase(options_.phase), session.exchange(), options_);
  }

 private:
  FeedforwardOptions options_;
};

FK_ENGINE(feedforward, TensorLoad::kind());

}  // namespace

std::unique_ptr<Engine> feedforward_engine(FeedforwardOptions options) {
  return std::make_unique<FeedforwardEngine>(std::move(options));
}

}  // namespace fk
