// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/model_oracle.hpp"

#include <algorithm>

#include "core/device/device.hpp"
#include "core/scenario/memory_budget.hpp"

namespace fk {

namespace {

constexpr int64_t kBatch = 4;

}  // namespace

ModelOracle::ModelOracle(Setup setup) : setup_(std::move(setup)) {
  // Right answers do not depend on the division of the work.
  if (!setup_.divided) setup_.spec.limits.parallel = {};
}

Limits ModelOracle::limits_of(Limits limits, int64_t longest, bool divided) {
  if (!divided) limits.parallel = {};
  limits.weight_dtype = limits.weights();
  limits.dtype = limits.cache_dtype = DType::f32;
  limits.max_batch = std::min(limits.max_batch, kBatch);
  // Pages for the longest request only: requests wait for each other, so that float32 caches stay
  // small. The context stays, because tables of positions are weights.
  limits.pages = (longest + limits.page_size - 1) / limits.page_size;
  return limits;
}

void ModelOracle::make_weights() {
  const auto& [model, catalog, scenario, plugin_set, spec, runner, longest, progress, divided] =
      setup_;
  const std::string from = scenario.weights.string();
  if (divided)
    weights_ = make_weight_blocks(model, catalog, spec, from, scenario.seed, progress);
  else
    weights_.push_back(make_weight_block(model, catalog, spec, from, scenario.seed, progress));
}

bool ModelOracle::open() {
  Side::Setup setup{"oracle",      setup_.plugin_set.oracle_files(),
                    setup_.spec,   weights_.data(),
                    setup_.runner, false};
  setup.runner.device = setup.spec.device;
  setup.spec.policy.pins.clear();
  setup.spec.policy.baselines.clear();
  for (const auto& name : setup_.plugin_set.ranked())
    if (is_oracle(name)) setup.spec.policy.baselines.push_back(name);
  setup.spec.decode_sizes.clear();
  setup.spec.limits = limits_of(setup_.spec.limits, setup_.longest, setup_.divided);
  side_ = std::make_unique<Side>(std::move(setup));
  return side_->open();
}

bool ModelOracle::leave_room(int64_t bytes) {
  if (!is_open()) return false;
  const auto device = open_device(setup_.spec.device);
  const auto free = device->host_memory() ? std::nullopt : device->free_bytes();
  if (!free || *free - kProcessBytes >= bytes) return false;
  side_.reset();
  return true;
}

void ModelOracle::close() {
  side_.reset();
  weights_.clear();
}

bool ModelOracle::drive(const std::vector<Request>& requests, const RoundOptions& options,
                        Round& round) {
  return side_->drive(requests, options, round);
}

}  // namespace fk
