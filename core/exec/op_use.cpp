// SPDX-License-Identifier: Apache-2.0
#include "core/exec/op_use.hpp"

#include <memory>

#include "core/exec/session.hpp"
#include "core/graph/graph.hpp"

namespace fk {

namespace {

void count_calls(const Catalog& catalog, const Graph& graph, const std::vector<Call>& calls,
                 std::map<std::string, int>& counts) {
  for (const auto& call : calls) {
    ++counts[call.contract->op];
    if (!find_expansion(call.contract->op)) continue;
    Graph scratch = graph;
    scratch.calls.clear();
    Graph inner = expand(catalog, std::move(scratch), call);
    const std::vector<Call> next = std::move(inner.calls);
    count_calls(catalog, inner, next, counts);
  }
}

}  // namespace

std::map<std::string, int> op_use(const Model& model, const Catalog& catalog,
                                  const std::string& phase, const Limits& limits) {
  const Graph graph = record(model, catalog, phase, limits, std::make_shared<WeightTable>());
  std::map<std::string, int> counts;
  count_calls(catalog, graph, graph.calls, counts);
  return counts;
}

}  // namespace fk
