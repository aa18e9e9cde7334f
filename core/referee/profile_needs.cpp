// SPDX-License-Identifier: Apache-2.0
// What a profile would need, from its recorded graph alone: nothing is allocated.
#include <map>

#include "core/base/text.hpp"
#include "core/graph/builder.hpp"
#include "core/referee/run.hpp"

namespace fk {

std::string full_profile_needs(const Scenario& full, const Catalog& catalog) {
  const auto model = full.make();
  auto weights = std::make_shared<WeightTable>();
  std::map<std::string, int64_t> states;
  for (const auto& phase : model->phases()) {
    Builder builder(catalog, phase, weights);
    model->forward(builder, phase, full.limits);
    const Graph graph = builder.finish();
    Axes axes;
    for (const auto& axis : graph.axes) axes[axis] = model->axis_limit(phase, axis, full.limits);
    for (const auto& buffer : graph.buffers) {
      if (buffer.kind != BufferKind::state) continue;
      int64_t size = bytes(buffer.dtype);
      for (const auto& dim : buffer.shape) size *= dim.eval(axes);
      states[buffer.name] = size;
    }
  }
  int64_t cache = 0;
  for (const auto& [state, size] : states) cache += size;
  return human_bytes(weights->bytes()) + " for weights" +
         (cache > 0 ? " and " + human_bytes(cache) + " for caches" : "") + " in " +
         std::string(name(full.limits.dtype));
}

}  // namespace fk
