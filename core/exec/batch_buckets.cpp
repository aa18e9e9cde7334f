// SPDX-License-Identifier: Apache-2.0
// Chooses the program of a step (batch_buckets.hpp): the smallest one whose limits hold the bound
// axes.
#include "core/exec/batch_buckets.hpp"

#include <algorithm>
#include <utility>

namespace fk {

LadderProgram::LadderProgram(std::vector<PhaseProgram*> rungs)
    : rungs_(std::move(rungs)), active_(rungs_.back()) {
  values_.assign(rungs_.back()->axes().size(), -1);
}

void LadderProgram::bind(int axis, int64_t value) {
  rungs_.back()->bind(axis, value);  // Error above the phase's limit
  values_[static_cast<size_t>(axis)] = value;
}

void LadderProgram::run() {
  const auto& axes = rungs_.back()->axes();
  const auto fits = [&](const PhaseProgram* rung) {
    for (size_t i = 0; i < axes.size(); ++i)
      if (values_[i] > rung->limit(axes[i])) return false;
    return true;
  };
  active_ = *std::find_if(rungs_.begin(), rungs_.end(), fits);
  for (size_t i = 0; i < axes.size(); ++i)
    if (values_[i] >= 0) active_->bind(static_cast<int>(i), values_[i]);
  if (const auto feed = std::exchange(feed_, nullptr)) feed();
  active_->run();
}

int64_t LadderProgram::fetch(const std::string& output, int64_t bytes) {
  fetched_[++fetches_ % 2] = {active_, active_->fetch(output, bytes)};
  return fetches_;
}

const void* LadderProgram::fetched(int64_t which) {
  const Fetched& kept = fetched_[which % 2];
  return kept.rung->fetched(kept.which);
}

void LadderProgram::feed_tokens(const std::string& input, const std::string& output, int64_t count,
                                int64_t vocab_size) {
  feed_ = [=, this, from = active_->output_data(output)] {
    active_->feed_tokens(input, from, count, vocab_size);
  };
}

void LadderProgram::set_marker(volatile int32_t* node) {
  for (auto* rung : rungs_) rung->set_marker(node);
}
void LadderProgram::set_taps(TapSink sink) {
  for (auto* rung : rungs_) rung->set_taps(sink);
}
void LadderProgram::set_watch(NodeWatch* watch) {
  for (auto* rung : rungs_) rung->set_watch(watch);
}

}  // namespace fk
