// SPDX-License-Identifier: Apache-2.0
#include "test/engines/toy/engine.hpp"

#include <algorithm>
#include <vector>

#include "core/engines/load.hpp"
#include "core/exec/session.hpp"

namespace toy {

namespace {

using fk::Request;
using fk::RequestForm;

Request with_steps(Request request, int64_t steps) {
  request.tensors.push_back({"steps", {1}, {static_cast<float>(steps)}});
  return request;
}

// A workload with the key `steps`: request i makes 1 to `steps` steps, in turn.
class ToyLoad final : public fk::Load {
 public:
  ToyLoad(int64_t requests, int64_t steps) : requests_(requests), steps_(steps) {}
  int64_t requests() const override { return requests_; }
  Request request(const RequestForm& form, int64_t index, uint64_t seed) const override {
    return with_steps(form.random(0, seed), 1 + index % steps_);
  }

 private:
  int64_t requests_, steps_;
};

std::shared_ptr<const fk::Load> read_toy(const fk::WorkloadKeys& keys, const fk::LoadSize& size) {
  return std::make_shared<ToyLoad>(size.requests, keys.get("steps", 1, 1000));
}

struct Rollout {
  uint64_t id = 0;
  int64_t steps = 0;
  std::vector<float> x, path;
};

class ToyEngine final : public fk::Engine {
 public:
  explicit ToyEngine(int64_t width) : Engine({.tensors = {{"start", {width}}}}), width_(width) {}

  std::string name() const override { return "toy_rollout"; }
  std::vector<std::string> phases() const override { return {"step"}; }
  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const fk::Limits& limits) const override {
    if (axis == "B") return limits.max_batch;
    fk::fail_axis(phase, axis, {"B"});
  }
  std::vector<Request> correctness_requests(const fk::Limits&, uint64_t seed) const override {
    std::vector<Request> list;
    for (const int64_t steps : {1, 4, 2}) {
      list.push_back(with_steps(form().random(0, seed + static_cast<uint64_t>(steps)), steps));
      list.back().id = list.size();
    }
    return list;
  }

  void drive(fk::Session& session) const override {
    fk::Program& program = session.phase("step");
    fk::Exchange& exchange = session.exchange();
    std::vector<Rollout> all;
    Request request;
    for (;;) {
      while (exchange.next(request, all.empty())) take(request, all, exchange);
      if (all.empty()) return;
      step(program, all);
      std::erase_if(all, [&](const Rollout& r) {
        if (static_cast<int64_t>(r.path.size()) < r.steps * width_) return false;
        exchange.tensor(r.id, "path", {r.steps, width_}, r.path.data());
        return true;
      });
    }
  }

 private:
  void take(const Request& request, std::vector<Rollout>& all, fk::Exchange& exchange) const {
    Rollout r{request.id, 0, {}, {}};
    for (const auto& tensor : request.tensors) {
      if (tensor.name == "start") r.x = tensor.values;
      if (tensor.name == "steps") r.steps = static_cast<int64_t>(tensor.values.at(0));
    }
    if (r.steps < 1 || static_cast<int64_t>(r.x.size()) != width_)
      return exchange.failed(request.id, "it has no start of this width, or no steps");
    all.push_back(std::move(r));
  }

  void step(fk::Program& program, std::vector<Rollout>& all) const {
    const auto count = std::min(program.limit("B"), static_cast<int64_t>(all.size()));
    const auto width = static_cast<size_t>(width_);
    auto* x = static_cast<float*>(program.input("x"));
    for (size_t b = 0; b < static_cast<size_t>(count); ++b)
      std::ranges::copy(all[b].x, x + b * width);
    program.bind(program.axis("B"), count);
    program.run();
    std::vector<float> next(static_cast<size_t>(count) * width);
    program.read("next", next.data(), static_cast<int64_t>(next.size() * sizeof(float)));
    for (size_t b = 0; b < static_cast<size_t>(count); ++b) {
      all[b].x.assign(next.begin() + static_cast<std::ptrdiff_t>(b * width),
                      next.begin() + static_cast<std::ptrdiff_t>((b + 1) * width));
      all[b].path.insert(all[b].path.end(), all[b].x.begin(), all[b].x.end());
    }
  }

  int64_t width_;
};

FK_ENGINE(toy_rollout, {{}, {"steps"}, read_toy});

}  // namespace

std::unique_ptr<fk::Engine> toy_engine(int64_t width) { return std::make_unique<ToyEngine>(width); }

}  // namespace toy
