// SPDX-License-Identifier: Apache-2.0
// A session on the CPU with the baselines of the build, and an exchange that keeps the results.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/paths.hpp"
#include "core/exec/session.hpp"

namespace engine_test {

// Gives requests at once and keeps the results.
class Kept final : public fk::Exchange {
 public:
  explicit Kept(const std::vector<fk::Request>& requests)
      : requests_(requests.begin(), requests.end()) {
    for (const auto& request : requests) answers[request.id].request = request;
  }
  bool next(fk::Request& request, bool) override {
    if (requests_.empty()) return false;
    request = requests_.front();
    requests_.pop_front();
    return true;
  }
  void token(uint64_t id, int64_t, int64_t token, bool) override {
    answers.at(id).tokens.push_back(token);
  }
  void logits(uint64_t id, int64_t position, const float* values, int64_t count) override {
    answers.at(id).logits[position].assign(values, values + count);
  }
  void tensor(uint64_t id, const std::string& name, const std::vector<int64_t>& shape,
              const float* values) override {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    answers.at(id).tensors.push_back({name, shape, {values, values + count}});
  }
  void failed(uint64_t id, const std::string& why) override { answers.at(id).failed = why; }
  void progress(const std::string& what) override { steps.push_back(what); }

  fk::Answers answers;
  std::vector<std::string> steps;

 private:
  std::deque<fk::Request> requests_;
};

// Everything that a session needs, which outlives it.
struct OnCpu {
  fk::Catalog catalog{fk::paths::registry_dirs()};
  fk::Plugins plugins{catalog};
  std::unique_ptr<fk::Device> device = fk::open_device("cpu");

  OnCpu() {
    for (const auto* name : {"reference", "cpu"})
      plugins.load(std::string(PLUGINS "/") + name + ".so", fk::Trust::baseline);
  }

  Kept drive(const fk::Model& model, const fk::Limits& limits,
             const std::vector<fk::Request>& requests) {
    const auto weights = fk::private_weights(nullptr, 7, 1);
    fk::Session::Options options;
    options.limits = limits;
    options.policy.baselines = {"cpu", "reference"};
    fk::Session session(model, plugins, *device, *weights, options);
    Kept kept(requests);
    session.attach(kept);
    session.drive();
    return kept;
  }
};

}  // namespace engine_test
