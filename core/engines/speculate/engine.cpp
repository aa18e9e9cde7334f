// SPDX-License-Identifier: Apache-2.0
#include "core/engines/speculate/engine.hpp"

#include <algorithm>

#include "core/engines/generate/engine.hpp"
#include "core/engines/speculate/speculate.hpp"
#include "core/engines/text_engine.hpp"
#include "core/engines/text_load.hpp"

namespace fk {

namespace {

class SpeculateEngine final : public TextEngine {
 public:
  explicit SpeculateEngine(const SpeculateOptions& options)
      : TextEngine(text_form(options.vocabulary, options.positions), Logits::of_next),
        options_(options) {}

  std::string name() const override { return "speculate"; }
  std::vector<std::string> phases() const override {
    return {"prefill", "verify", "accept", "extend", "draft"};
  }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    const SpeculateOptions& o = options_;
    const int64_t batch = limits.max_batch, tree = batch * o.tokens;
    const int64_t width =
        (limits.max_context + o.slots() + limits.page_size - 1) / limits.page_size;
    if (axis == "B") return batch;
    if (axis == "W") return width;
    if (axis == "P") return limits.pages > 0 ? limits.pages : batch * width;
    if (axis == "N") return batch * (1 + o.expansions());
    if (axis == "M") return batch * o.depth;
    if (axis == "A") return std::max(limits.chunk_tokens, tree);
    if (axis == "TW") return phase == "draft" ? std::max<int64_t>(1, o.expansions()) : o.tokens;
    if (axis == "Q" && phase == "extend") return batch;
    if (axis == "T" && phase == "draft") return batch * o.top_k;
    if (axis == "T" && phase == "extend")
      return std::max(limits.chunk_tokens, batch * (o.depth + 1));
    if (phase == "verify" && (axis == "T" || axis == "Q")) return tree;
    return generate_axis_limit(phase, axis, limits);
  }

  void drive(Session& session) const override {
    SpeculateSetup setup{options_, generate_setup(session, form(), options_.eos)};
    setup.generate.pages = session.phase("prefill").limit("P");
    speculate({session.phase("prefill"), session.phase("verify"), session.phase("accept"),
               session.phase("extend"), session.phase("draft")},
              session.exchange(), setup);
  }

 private:
  SpeculateOptions options_;
};

FK_ENGINE(speculate, TextLoad::writes());

}  // namespace

std::unique_ptr<Engine> speculate_engine(const SpeculateOptions& options) {
  return std::make_unique<SpeculateEngine>(options);
}

}  // namespace fk
