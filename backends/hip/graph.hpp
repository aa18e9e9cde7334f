// SPDX-License-Identifier: Apache-2.0
// Reads captured work back from HIP.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backends/hip/api.hpp"
#include "fk/device.h"

namespace fk_hip {

class GraphReader {
 public:
  // Forgets the previous capture.
  void begin() { marks_.clear(), nodes_.clear(), handles_.clear(); }
  // Nodes that this stream captures from now on belong to the next mark.
  void mark(hipStream_t stream);
  // Fills the list. HIP does not tell the sizes of a kernel's parameters, so kernels have no spans.
  void read(hipGraph_t graph, fk_nodes& out);

 private:
  void take_new(hipGraph_t graph);
  fk_node node_of(size_t at);
  int64_t place_of(hipGraphNode_t handle) const;

  std::vector<hipGraphNode_t> handles_;  // in the order of their capture
  std::vector<size_t> marks_;            // number of nodes at each mark
  std::vector<fk_node> nodes_;
  std::vector<std::vector<fk_span>> spans_;
  std::vector<std::vector<int64_t>> after_;
};

}  // namespace fk_hip
