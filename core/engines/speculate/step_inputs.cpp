// SPDX-License-Identifier: Apache-2.0
// Collects inputs in lists. run() copies them into the program's inputs, as far as the phase has
// them.
#include "core/engines/speculate/step_inputs.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/engines/generate/generate.hpp"

namespace fk {

void StepInputs::clear() {
  for (auto* list : {&ids_, &positions_, &slots_}) list->clear();
  for (auto* list : {&starts_, &lengths_, &trees_, &mask_, &top_k_}) list->clear();
  for (auto* list : {&temperature_, &top_p_, &uniform_}) list->clear();
  for (auto& [name, values] : more_) values.clear();
  sequences_.clear();
  token_request_.clear();
}

void StepInputs::begin(const Sequence& sequence, int64_t context, int64_t tree) {
  starts_.push_back(static_cast<int32_t>(tokens()));
  lengths_.push_back(static_cast<int32_t>(context));
  trees_.push_back(static_cast<int32_t>(tree));
  sequences_.push_back(&sequence);
}

void StepInputs::token(int64_t id, int64_t position, int64_t place) {
  const auto& pages = sequences_.back()->pages;
  ids_.push_back(id);
  positions_.push_back(position);
  slots_.push_back(pages[static_cast<size_t>(place / page_size_)] * page_size_ +
                   place % page_size_);
  token_request_.push_back(sequences_.size() - 1);
}

void StepInputs::row(const Sequence& sequence, int64_t index) {
  const Sampling& sampling = sequence.request.sampling;
  const bool samples = index >= 0;
  add("rows", static_cast<int32_t>(tokens() - 1));
  temperature_.push_back(samples ? sampling.temperature : 0);
  top_k_.push_back(samples ? sampling.top_k : 0);
  top_p_.push_back(samples ? sampling.top_p : 1);
  uniform_.push_back(samples && sampling.temperature > 0 ? sampling_uniform(sampling.seed, index)
                                                         : 0);
}

template <class T>
void StepInputs::copy(const char* input, const std::vector<T>& values) {
  auto* data = static_cast<T*>(program_.input(input));
  if (data) std::copy(values.begin(), values.end(), data);
}

int64_t StepInputs::width() const {
  int64_t width = 1;
  for (const int32_t length : lengths_)
    width = std::max(width, (length + page_size_ - 1) / page_size_);
  return width;
}

void StepInputs::bind(const char* axis, int64_t value) {
  if (const int index = program_.axis(axis); index >= 0) program_.bind(index, value);
}

void StepInputs::run() {
  const int64_t pages = width();
  const auto nodes =
      static_cast<int64_t>(trees_.empty() ? 0 : *std::max_element(trees_.begin(), trees_.end()));
  starts_.push_back(static_cast<int32_t>(tokens()));
  copy("ids", ids_);
  copy("positions", positions_);
  copy("slot_mapping", slots_);
  copy("cu_seqlens", starts_);
  copy("seq_lens", lengths_);
  copy("tree_lens", trees_);
  copy("temperature", temperature_);
  copy("top_k", top_k_);
  copy("top_p", top_p_);
  copy("uniform", uniform_);
  for (const auto& [name, values] : more_) copy(name.c_str(), values);
  auto* tables = static_cast<int32_t*>(program_.input("block_tables"));
  for (size_t b = 0; b < sequences_.size(); ++b) {
    const auto& own = sequences_[b]->pages;
    const auto used = std::min(static_cast<int64_t>(own.size()), pages);
    int32_t* table = tables + static_cast<int64_t>(b) * pages;
    std::fill(std::copy_n(own.begin(), used, table), table + pages, 0);
  }
  if (auto* mask = static_cast<int32_t*>(program_.input("tree_mask"))) {
    size_t at = 0;
    for (const size_t request : token_request_) {
      const int32_t own = trees_[request];
      std::fill(std::copy_n(mask_.begin() + static_cast<int64_t>(at), own, mask), mask + nodes, 0);
      at += static_cast<size_t>(own);
      mask += nodes;
    }
  }
  bind("T", tokens());
  bind("B", requests());
  bind("W", pages);
  bind("TW", nodes);
  program_.run();
}

}  // namespace fk
