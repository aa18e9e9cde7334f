// SPDX-License-Identifier: Apache-2.0
// Real inputs: what the nodes of a running model are called with. Calls with equal constructor,
// shapes, dtypes and whole numbers are one case, which is counted. Tensors are written once by
// content. docs/capture.md has the rules and the form of what comes out.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/exec/session.hpp"

namespace fk {

struct RecordOptions {
  std::vector<std::string> ops;                   // empty: all
  bool values = false;                            // floats too, weights among them
  int64_t cases_max = 8;                          // of one op in one phase
  int64_t bytes_max = int64_t{1} << 30;           // of all tensors
  int64_t tensor_bytes_max = int64_t{256} << 20;  // of one tensor of floats
};
Json to_json(const RecordOptions& options);
RecordOptions record_options_from(const Json& json);  // Error when it is malformed

// The name of a tensor: SHA-256 of its dtype, shape and bytes.
std::string content_name(DType dtype, const Shape& shape, const void* data);

class CaseRecorder {
 public:
  // Tensors are appended to `fd`, which is not owned. Error from the watches when that fails.
  CaseRecorder(Device& device, RecordOptions options, int fd);
  ~CaseRecorder();
  CaseRecorder(const CaseRecorder&) = delete;

  // For the programs of that name; lives as long as this.
  NodeWatch& watch(const std::string& phase);
  void set_workload(const std::string& name);  // of the calls that follow
  // {"cases": [..], "left_out": [..], "tensors": {name: {dtype, shape, begin}}, "bytes": n}
  Json result() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fk
