// SPDX-License-Identifier: Apache-2.0
// Captured work of a backend: its nodes, judged by the rules of graph_audit.hpp.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/device/graph_audit.hpp"
#include "core/device/launch_facts.hpp"
#include "fk/device.h"

namespace fk {

class BackendCapture {
 public:
  // Forgets the previous capture.
  void begin();
  // Nodes with the next mark belong to it; `first` is found later.
  void mark(GraphMark mark) { marks_.push_back(std::move(mark)); }
  // audit_graph() of the nodes; a sentence also where the list is garbled.
  std::string audit(const fk_nodes& nodes, const std::vector<MemoryRange>& known);
  // Facts of the last audited capture; empty when it has no nodes.
  const std::optional<LaunchFacts>& facts() const { return facts_; }

 private:
  std::vector<GraphMark> marks_;
  std::optional<LaunchFacts> facts_;
};

}  // namespace fk
