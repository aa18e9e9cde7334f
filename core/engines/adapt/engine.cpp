// SPDX-License-Identifier: Apache-2.0
#include "core/engines/adapt/engine.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/engines/adapt/adapt.hpp"
#include "core/engines/text_load.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

class AdaptEngine final : public Engine {
 public:
  explicit AdaptEngine(AdaptOptions options)
      : Engine({options.vocabulary, options.positions, {}, false}), options_(options) {
    FK_CHECK(options_.chunk >= 1 && options_.window >= 1, "a chunk or a window without tokens");
  }

  std::string name() const override { return "adapt"; }
  std::vector<std::string> phases() const override { return {"begin", "learn", "score"}; }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    const int64_t context = form().context(limits);
    if (phase == "begin") fail_axis(phase, axis, {});
    if (axis == "T") return std::min(options_.chunk, context);
    if (axis == "A") return std::min(options_.window, context);
    fail_axis(phase, axis, {"T", "A"});
  }

  void drive(Session& session) const override {
    adapt({session.phase("begin"), session.phase("learn"), session.phase("score")},
          session.exchange(), options_, form().context(session.limits()));
  }

  // Texts which end inside of a chunk, with its end and one token behind it.
  std::vector<Request> correctness_requests(const Limits& limits, uint64_t seed) const override {
    const int64_t context = form().context(limits), chunk = options_.chunk;
    std::vector<Request> list;
    for (const int64_t wanted : {2 * chunk + chunk / 3 + 1, 2 * chunk, chunk + 1, int64_t{5}}) {
      const uint64_t own = seed_of("correctness " + std::to_string(list.size()), seed);
      list.push_back(form().random(std::clamp<int64_t>(wanted, 2, context), own));
      list.back().id = list.size();
    }
    return list;
  }

 private:
  AdaptOptions options_;
};

// Files of lengths may have answers, which `output: 0` leaves out.
EngineKind scored_texts() {
  EngineKind kind = TextLoad::reads();
  kind.numbers.emplace_back("output");
  return kind;
}

FK_ENGINE(adapt, scored_texts());

}  // namespace

std::unique_ptr<Engine> adapt_engine(AdaptOptions options) {
  return std::make_unique<AdaptEngine>(options);
}

}  // namespace fk
