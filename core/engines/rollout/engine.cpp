// SPDX-License-Identifier: Apache-2.0
#include "core/engines/rollout/engine.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/engines/rollout/rollout.hpp"
#include "core/engines/tensor_load.hpp"

namespace fk {

namespace {

class RolloutEngine final : public Engine {
 public:
  explicit RolloutEngine(RolloutOptions options)
      : Engine({0, 0, options.inputs, false}), options_(std::move(options)) {
    FK_CHECK(options_.prompt_frames >= 1 && options_.prompt_frames < options_.frames,
             "a rollout without first frames, or without later ones");
    FK_CHECK(options_.window >= 1, "frames which see no frame");
    FK_CHECK(options_.sampler.range == 0, "a rollout with predictions that are cut");
  }

  std::string name() const override { return "rollout"; }
  std::vector<std::string> phases() const override { return {"prompt", "frame", "step", "decode"}; }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    if (axis == "B") return limits.max_batch;
    if (phase == "prompt") fail_axis(phase, axis, {"B"});
    if (axis == "E") return options_.frames;
    if (phase == "decode") fail_axis(phase, axis, {"B", "E"});
    if (axis == "T") return std::min(options_.window, options_.frames);
    fail_axis(phase, axis, {"B", "E", "T"});
  }

  void drive(Session& session) const override {
    rollout({session.phase("prompt"), session.phase("frame"), session.phase("step"),
             session.phase("decode")},
            session.exchange(), options_);
  }

 private:
  RolloutOptions options_;
};

FK_ENGINE(rollout, TensorLoad::kind());

}  // namespace

std::unique_ptr<Engine> rollout_engine(RolloutOptions options) {
  return std::make_unique<RolloutEngine>(std::move(options));
}

}  // namespace fk
