// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/memory_budget.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "core/exec/session.hpp"
#include "core/graph/builder.hpp"

namespace fk {

int64_t weights_bytes(const Model& model, const Catalog& catalog, const Limits& limits) {
  return WeightLayout(*weight_table(model, catalog, limits)).bytes;
}

int64_t states_bytes(const Model& model, const Catalog& catalog, const Limits& limits) {
  const auto weights = std::make_shared<WeightTable>();
  std::map<std::string, int64_t> states;
  const auto engine = model.engine();
  for (const auto& phase : engine->phases()) {
    const Graph graph = record(model, catalog, phase, limits, weights);
    Axes axes;
    for (const auto& axis : graph.axes) axes[axis] = engine->axis_limit(phase, axis, limits);
    for (const auto& buffer : graph.buffers) {
      if (buffer.kind != BufferKind::state) continue;
      int64_t size = bytes(buffer.dtype);
      for (const auto& dim : buffer.shape) size *= dim.eval(axes);
      states[buffer.name] = std::max(states[buffer.name], size);
    }
  }
  int64_t all = 0;
  for (const auto& [state, size] : states) all += size;
  return all;
}

uint64_t result_bytes(const Model& model, const Catalog& catalog, const Limits& limits) {
  const auto weights = std::make_shared<WeightTable>();
  const auto engine = model.engine();
  int64_t most = 0;
  for (const auto& phase : engine->phases()) {
    const Graph graph = record(model, catalog, phase, limits, weights);
    Axes axes;
    for (const auto& axis : graph.axes) axes[axis] = engine->axis_limit(phase, axis, limits);
    for (const auto& [name, value] : graph.outputs) {
      int64_t size = bytes(DType::f32);
      for (const auto& dim : graph.info(value).shape) size *= dim.eval(axes);
      most = std::max(most, size);
    }
  }
  return static_cast<uint64_t>(most);
}

CacheRoom::CacheRoom(const Model& model, const Catalog& catalog, const Limits& limits) {
  Limits other = limits;
  const auto with = [&](int64_t pages) {
    other.pages = pages;
    return states_bytes(model, catalog, other);
  };
  page_ = with(2) - with(1);
  none_ = with(1) - page_;
  if (has_pages())
    wanted_ = limits.pages ? limits.pages : (states_bytes(model, catalog, limits) - none_) / page_;
}

int64_t CacheRoom::pages_in(int64_t bytes) const {
  if (!has_pages() || bytes < none_) return 0;
  return std::min(wanted_, (bytes - none_) / page_);
}

}  // namespace fk
