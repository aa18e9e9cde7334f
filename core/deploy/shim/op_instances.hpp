// SPDX-License-Identifier: Apache-2.0
// Instances of an op inside a torch process, and their memory.
//
// An instance belongs to constructor values, weights, dtypes, strides and present fields. A larger
// call makes another instance; older ones stay, because a CUDA graph may hold their addresses. So a
// call of one size always finds the same instance. Weights are kept alive: their addresses are part
// of the key.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/deploy/shim/op_call.hpp"

namespace fk::shim {

// Zeroed memory of a device, aligned to 256 bytes. CUDA memory comes from the driver and not from
// torch's pools, which a graph may own.
class InstanceMemory {
 public:
  InstanceMemory(int32_t device_type, int64_t bytes);
  ~InstanceMemory();
  InstanceMemory(const InstanceMemory&) = delete;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  int32_t device_type_;
  int64_t bytes_;
  void* data_ = nullptr;
};

class OpInstance {
 public:
  // Runs supports(), create() and prepare(). Takes init and weights from the call. `scale` rounds
  // free axes up to powers of two. Error with the plugin's sentence.
  OpInstance(OpCall& call, bool round_up, std::shared_ptr<InstanceMemory> packed);
  ~OpInstance();
  OpInstance(const OpInstance&) = delete;

  bool fits(const OpCall& call) const;
  void plan(const OpCall& call, void* stream);
  void forward(const OpCall& call, void* stream);
  bool is_planned() const { return planned_ >= 0; }
  const std::shared_ptr<InstanceMemory>& packed() const { return packed_; }

 private:
  void make_max(const OpCall& call, bool round_up);
  void need_ok(int32_t status) const;
  const OpSchema& schema_;
  fk_host host_{};
  std::vector<Field> init_, weights_, max_;  // max_: forward, with null data
  std::unique_ptr<FrameStorage> init_frame_, weights_frame_;
  fk_need need_{};
  mutable fk_error error_{};
  std::shared_ptr<InstanceMemory> packed_;
  std::unique_ptr<InstanceMemory> persistent_, plan_;
  int64_t planned_ = -1;  // bytes of the last plan
  void* self_ = nullptr;
};

// All instances of one op.
class OpInstances {
 public:
  explicit OpInstances(OpSchema schema) : schema_(std::move(schema)) {}

  // The boxed kernels: read the stack, run, and write the results.
  void run(Value* stack, uint64_t inputs, uint64_t outputs);
  void run_update(Value* stack, uint64_t inputs, uint64_t outputs);
  void run_out(Value* stack, uint64_t inputs, uint64_t outputs);
  void run_plan(Value* stack, uint64_t inputs, uint64_t outputs);
  // Destroys the instances. The caller has dropped all graphs that use them.
  void forget();
  const OpSchema& schema() const { return schema_; }

 private:
  OpInstance& instance_of(OpCall& call, bool capturing);
  void execute(OpCall& call);
  void run_allocating(Value* stack, const std::vector<Argument>& arguments);
  OpSchema schema_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::vector<std::unique_ptr<OpInstance>>> instances_;
  std::unordered_map<std::string, std::shared_ptr<InstanceMemory>> packed_;  // by weights
};

}  // namespace fk::shim
