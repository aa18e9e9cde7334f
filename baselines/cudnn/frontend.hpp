// SPDX-License-Identifier: Apache-2.0
// Shared by all graphs of cuDNN's frontend: a handle, errors as exceptions, plans. The frontend
// takes half a minute to compile, so only the few files with graphs include this header.
#pragma once
#include <cudnn_frontend.h>

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace fkd {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<Tensor_attributes>;

inline void check(fe::error_object status, const char* what) {
  if (status.is_bad())
    throw std::runtime_error(std::string("cuDNN: ") + what + ": " + status.get_message());
}
inline void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": " + cudnnGetErrorString(status));
}

// A handle of the device which was current when it was made, as a process has one device. It lives
// until the process ends.
inline cudnnHandle_t handle() {
  static cudnnHandle_t made = [] {
    cudnnHandle_t h = nullptr;
    check(cudnnCreate(&h), "cudnnCreate");
    return h;
  }();
  return made;
}

// Held while graphs are looked up, made and run: a handle has one stream at a time.
inline std::mutex& mutex() {
  static std::mutex one;
  return one;
}

struct Made {
  fe::graph::Graph graph;
  int64_t workspace = 0;
};

// The first and the last of the three steps to a plan. The step between them chooses an engine.
inline void describe(Made& made) {
  check(made.graph.validate(), "validate");
  check(made.graph.build_operation_graph(handle()), "build_operation_graph");
}
inline void build(Made& made, int64_t workspace_most) {
  check(made.graph.check_support(handle()), "check_support");
  check(made.graph.build_plans(handle(), fe::BuildPlanPolicy_t::HEURISTICS_CHOICE), "build_plans");
  check(made.graph.get_workspace_size(made.workspace), "get_workspace_size");
  if (made.workspace > workspace_most)
    throw std::runtime_error("cuDNN wants " + std::to_string(made.workspace) +
                             " bytes of workspace");
}

// The graph for a `Key`, made once per process. The caller holds the mutex.
template <class Key>
Made& made_for(const Key& key, std::unique_ptr<Made> (*make)(const Key&)) {
  static std::map<Key, std::unique_ptr<Made>> all;
  auto& made = all[key];
  if (!made) made = make(key);
  return *made;
}

inline void execute(Made& made, std::unordered_map<int64_t, void*>& pointers, void* workspace,
                    int64_t workspace_bytes, cudaStream_t stream) {
  if (made.workspace > workspace_bytes)
    throw std::runtime_error("cuDNN: the workspace is too small");
  check(cudnnSetStream(handle(), stream), "cudnnSetStream");
  check(made.graph.execute(handle(), pointers, workspace), "execute");
}

}  // namespace fkd
