// SPDX-License-Identifier: Apache-2.0
#include "core/engines/masked_diffusion/engine.hpp"

#include <algorithm>

#include "core/engines/generate/engine.hpp"
#include "core/engines/masked_diffusion/masked_diffusion.hpp"
#include "core/engines/text_engine.hpp"
#include "core/engines/text_load.hpp"

namespace fk {

namespace {

class MaskedDiffusionEngine final : public TextEngine {
 public:
  explicit MaskedDiffusionEngine(const MaskedDiffusionOptions& options)
      : TextEngine(text_form(options.vocabulary, options.positions), Logits::of_own),
        options_(options) {}

  std::string name() const override { return "masked_diffusion"; }
  std::vector<std::string> phases() const override { return {"denoise"}; }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    const int64_t tokens = std::max(limits.chunk_tokens, limits.max_context);
    const int64_t block = options_.block_length;
    if (axis == "T") return tokens;
    if (axis == "B") return limits.max_batch;
    if (axis == "Q")
      return std::max(block, std::min(tokens, std::max(kPrefillRows, limits.max_batch * block)));
    fail_axis(phase, axis, {"T", "B", "Q"});
  }

  void drive(Session& session) const override {
    diffuse(session.phase("denoise"), session.exchange(),
            {options_, form().context(session.limits()), form().vocabulary});
  }

 private:
  MaskedDiffusionOptions options_;
};

FK_ENGINE(masked_diffusion, TextLoad::writes());

}  // namespace

std::unique_ptr<Engine> masked_diffusion_engine(const MaskedDiffusionOptions& options) {
  return std::make_unique<MaskedDiffusionEngine>(options);
}

}  // namespace fk
