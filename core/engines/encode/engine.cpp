// SPDX-License-Identifier: Apache-2.0
#include "core/engines/encode/engine.hpp"

#include <algorithm>

#include "core/engines/encode/encode.hpp"
#include "core/engines/text_load.hpp"

namespace fk {

namespace {

class EncodeEngine final : public Engine {
 public:
  explicit EncodeEngine(EncodeOptions options)
      : Engine({options.vocabulary, options.positions, {}, false}), options_(std::move(options)) {}

  std::string name() const override { return "encode"; }
  std::vector<std::string> phases() const override { return {"encode"}; }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    if (axis == "T") return std::max(limits.chunk_tokens, limits.max_context);
    if (axis == "B") return limits.max_batch;
    fail_axis(phase, axis, {"T", "B"});
  }

  void drive(Session& session) const override {
    encode(session.phase("encode"), session.exchange(),
           {options_, form().context(session.limits()), form().vocabulary});
  }

 private:
  EncodeOptions options_;
};

FK_ENGINE(encode, TextLoad::reads());

}  // namespace

std::unique_ptr<Engine> encode_engine(EncodeOptions options) {
  return std::make_unique<EncodeEngine>(std::move(options));
}

}  // namespace fk
