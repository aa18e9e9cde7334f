// SPDX-License-Identifier: Apache-2.0
// Records the real inputs of a running model's nodes. Calls with equal constructor, shapes, dtypes
// and integers are one case with a count. Tensors are stored once per content. docs/record.md has
// the rules and the output format.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/exec/recording.hpp"
#include "core/exec/session.hpp"

namespace fk {

struct RecordOptions {
  std::vector<std::string> ops;                   // empty: all
  bool values = false;                            // floats too, weights included
  int64_t cases_max = 8;                          // per op and phase
  int64_t bytes_max = int64_t{1} << 30;           // of all tensors
  int64_t tensor_bytes_max = int64_t{256} << 20;  // of one float tensor
  // Above 0: keeps no case, but the times of all nodes, in this number of steps of each workload.
  int64_t timed_steps = 0;
};

// Name of a tensor: SHA-256 of its dtype, shape and bytes.
std::string content_name(DType dtype, const Shape& shape, const void* data);

class CaseRecorder {
 public:
  // Appends tensors to `fd`, which is not owned. The watches throw Error when that fails.
  CaseRecorder(Device& device, RecordOptions options, int fd);
  ~CaseRecorder();
  CaseRecorder(const CaseRecorder&) = delete;

  // For the programs of this name. Lives as long as this.
  NodeWatch& watch(const std::string& phase);
  void set_workload(const std::string& name);  // of later calls
  Recording result() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fk
