// SPDX-License-Identifier: Apache-2.0
// A recorded phase of a model: axes, buffers, views of buffers, and calls of ops in order. Nothing
// in it has been sized, chosen or allocated yet.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/contract/contract.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

using Dims = std::vector<Expr>;

// A handle to a tensor in the graph that is being recorded; a default one means "absent".
struct Value {
  int id = -1;
  explicit operator bool() const { return id >= 0; }
  bool operator==(const Value&) const = default;
};

// A view of a checkpoint's tensor as a part of a weight. The tensor is reshaped to `shape`, then
// cut along `axis` to [start, start + length). Then its axes are put in `order`: axis i is the
// cut's axis order[i].
struct PartView {
  std::vector<int64_t> shape;
  int axis = 0;
  int64_t start = 0, length = 0;
  std::vector<int> order;
};

// A rank's part of a weight along one axis: pieces, one after the other. A piece has `length`
// indices of the whole from `start` on; indices from `end` on are zeros.
struct WeightCut {
  struct Piece {
    int64_t start = 0, length = 0, end = 0;
  };
  int axis = 0;
  std::vector<Piece> pieces;
};

// The origin of a weight. `parts[s][c]` are checkpoint names. They are concatenated along axis 0
// over c. Then they are stacked along a new first axis over s (experts) when there is more than one
// s, or with `stacked`. One name of a concatenation may be empty: zeros, as many rows as the others
// leave (a bias of only some fused projections).
struct WeightSpec {
  std::string name;  // unique in the model: where it would stand in a checkpoint
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<std::vector<std::string>> parts;  // empty: {{name}}
  bool stacked = false;
  std::optional<PartView> view;  // of every part
  // Instead of `view`, one for each part of a concatenation: rows of one tensor in another order.
  std::vector<PartView> views;
  // Without a checkpoint: normal(mean, stddev) from the seed and each part's name. stddev 0: unit
  // gain, 1/sqrt(last axis).
  double mean = 0, stddev = 0;
  int64_t low = 0, high = 256;  // of whole numbers: uniform below `high`
  // Applied to every element from the checkpoint or the seed: -exp for an A_log.
  double (*map)(double) = nullptr;
  // Tables that no checkpoint has (cos and sin): computed, in double, then rounded to dtype.
  std::function<std::vector<double>()> compute;
  bool in_checkpoint = false;  // computed only where there is no checkpoint
  // The members above describe the whole weight; this rank has a part of it.
  std::vector<WeightCut> cuts;  // of different axes
  std::vector<int64_t> local_shape() const;
};

// The weights of a model, shared by its phases. Stable indices.
class WeightTable {
 public:
  int add(WeightSpec spec);  // the same name again must have the same shape and dtype
  const std::vector<WeightSpec>& all() const { return specs_; }
  int64_t bytes() const;

 private:
  std::vector<WeightSpec> specs_;
  std::map<std::string, int> by_name_;
};

enum class BufferKind {
  input,   // bound by the engine before each run
  weight,  // index into the WeightTable
  state,   // lives across runs and phases, by name (KV caches, recurrent states)
  temp     // lives in the arena
};
struct Buffer {
  BufferKind kind = BufferKind::temp;
  std::string name;
  DType dtype = DType::f32;
  Dims shape;
  int weight = -1;
  bool zeroed = false;  // temp: filled with zeros before every run
};

struct ValueInfo {
  int buffer = -1;
  Dims shape, strides;  // strides in elements
  Expr offset = 0;      // in elements
};

// One call of an op. `init` has every slot of the contract. Tensors are by slot, invalid where they
// are absent.
struct Call {
  const Contract* contract = nullptr;
  std::string path;  // checkpoint path of the module, "model.layers.3.mlp.gate_up_proj"
  std::vector<fk_slot> init;
  std::vector<std::vector<int64_t>> init_lists;      // storage behind `ints` slots, by init slot
  std::vector<std::vector<Value>> weights, forward;  // by slot; a list field has several
  std::vector<Expr> scalars;                         // forward scalars by slot
  std::map<std::string, Expr> axes;                  // the contract's letters in this graph
};

// A point at which a run can read tensors: the sum of `values` just before call number `before`.
struct Tap {
  std::string name;
  std::vector<Value> values;
  size_t before = 0;
};

struct Graph {
  std::string phase;
  std::vector<std::string> axes;
  std::vector<Buffer> buffers;
  std::vector<ValueInfo> values;
  std::vector<Call> calls;
  std::map<std::string, Value> inputs, outputs;
  std::vector<Tap> taps;
  std::shared_ptr<WeightTable> weights;

  DType dtype(Value v) const { return buffers[static_cast<size_t>(info(v).buffer)].dtype; }
  const ValueInfo& info(Value v) const { return values[static_cast<size_t>(v.id)]; }
  // "model.layers.0.mlp (gated_mlp)" for messages.
  static std::string label(const Call& call) { return call.path + " (" + call.contract->op + ")"; }
};

}  // namespace fk
