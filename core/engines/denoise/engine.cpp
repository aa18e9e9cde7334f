// SPDX-License-Identifier: Apache-2.0
#include "core/engines/denoise/engine.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/engines/denoise/denoise.hpp"
#include "core/engines/tensor_load.hpp"

namespace fk {

namespace {

class DenoiseEngine final : public Engine {
 public:
  explicit DenoiseEngine(DenoiseOptions options)
      : Engine({0, 0, options.inputs, false}), options_(std::move(options)) {
    FK_CHECK(options_.guidance == 1 || options_.sampler.range == 0,
             "guidance together with predictions that are cut");
  }

  std::string name() const override { return "denoise"; }
  std::vector<std::string> phases() const override {
    if (options_.ends) return {"begin", "step", "end"};
    return {"begin", "step"};
  }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    if (axis == "B")
      return options_.batch > 0 ? std::min(options_.batch, limits.max_batch) : limits.max_batch;
    fail_axis(phase, axis, {"B"});
  }

  void drive(Session& session) const override {
    denoise(session.phase("begin"), session.phase("step"),
            options_.ends ? &session.phase("end") : nullptr, session.exchange(), options_);
  }

 private:
  DenoiseOptions options_;
};

FK_ENGINE(denoise, TensorLoad::kind());

}  // namespace

std::unique_ptr<Engine> denoise_engine(DenoiseOptions options) {
  return std::make_unique<DenoiseEngine>(std::move(options));
}

}  // namespace fk
