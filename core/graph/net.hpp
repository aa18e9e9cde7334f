// SPDX-License-Identifier: Apache-2.0
// The builder of models. It reads laws of contracts, so a call may leave out weights, sizes and
// states.
//
//   Value h = n("rms_norm", "model.norm", {{"x", x}, {"eps", eps}});
//
// A call finds its weights below its path by the names of the contract, and its sizes in the axes
// of its tensors. States have names too. Other arguments may be common to all calls. On one of
// several ranks, sizes and weights are this rank's part by the contract's laws. Layers are then
// recorded as their parts, and collectives add up the shares, which are the ranks' terms of a sum.
#pragma once
#include <optional>
#include <set>

#include "core/graph/builder.hpp"

namespace fk {

// Division of a model between ranks, each a process with its own device. Each degree is 1 or the
// number of ranks. tp divides attention and dense layers by heads and columns; ep divides the
// experts of a mixture. Undivided work is done by all ranks.
struct Parallel {
  int64_t tp = 1, ep = 1, rank = 0;
  // With tp: in steps of many tokens, partial sums of a product are exchanged during the product.
  bool overlap = false;
  int64_t ranks() const { return tp > ep ? tp : ep; }
};

// Limits of one session, chosen by the scenario.
struct Limits {
  int64_t max_batch = 8;       // requests that run at the same time
  int64_t max_context = 1024;  // tokens of one request: prompt and answer
  int64_t chunk_tokens = 512;  // tokens of one prefill step
  int64_t page_size = 16;
  int64_t pages = 0;         // 0: enough for max_batch requests of max_context
  DType dtype = DType::f32;  // of activations, and of weights without a weight_dtype
  DType cache_dtype = DType::f32;
  // An oracle computes in float32 with the weights that the other sides have in bfloat16.
  std::optional<DType> weight_dtype = {};
  Parallel parallel = {};
  DType weights() const { return weight_dtype.value_or(dtype); }
};

class Net : public Builder {
 public:
  Net(const Catalog& catalog, std::string phase, std::shared_ptr<WeightTable> weights,
      const Limits& limits)
      : Builder(catalog, std::move(phase), std::move(weights)), limits_(limits) {}

  const Limits& limits() const { return limits_; }
  const Parallel& parallel() const { return limits_.parallel; }
  bool divided() const { return parallel().ranks() > 1; }

  // Records a call. Sizes are the sizes of the whole model. `with` names optional weights, or
  // groups of them, that this model has. Value{} as a usual weight says that the model lacks it.
  // The word of a dtype as the value of an output gives the output this dtype.
  Outputs operator()(const std::string& op, const std::string& path, Args args,
                     const std::vector<std::string>& with = {});
  // The whole product [T,N] of x [T,C] and a weight below the path; ranks divide the weight's rows.
  // `with` may name the bias.
  Value columns(const std::string& path, Value x, int64_t out_features, DType dtype,
                const std::vector<std::string>& with = {});
  // The weight that a call would find for a field: for a model that records a block's parts itself.
  Value find(const std::string& op, const std::string& path, const std::string& field);

  // Arguments for all later calls that have fields of these names and do not give them.
  void common(const Args& args);
  // Another name of a module in checkpoints, anywhere in a path: {"self_attn.o_proj", "attn_out"}.
  // Names are replaced in the order of these calls; "" takes the module out of the path.
  using Names = std::vector<std::pair<std::string, std::string>>;
  void rename(const Names& modules) {
    renamed_.insert(renamed_.end(), modules.begin(), modules.end());
  }
  // Sees every weight that a call finds by name, before it is declared, and may change it.
  void adapt(std::function<void(WeightSpec&)> change) { changes_.push_back(std::move(change)); }

  Outputs call(const std::string& op, const std::string& path, const Args& args) override;
  void tap(const std::string& name, std::vector<Value> values) override;

 private:
  using Bound = std::map<std::string, Expr>;
  using Laws = std::map<std::string, ShardLaw>;

  // net.cpp
  void complete(const Contract& contract, Args& args, Bound& sizes) const;
  WeightSpec weight_of(const Contract& contract, const Slot& slot, const std::string& path,
                       const Bound& sizes, const Laws& laws) const;
  Value state_of(const Slot& slot, const std::string& path, const Bound& sizes);
  std::string checkpoint_name(std::string name) const;
  void add_weights(const Contract& contract, const std::string& path, const Bound& sizes,
                   const std::vector<std::string>& with, Args& args);
  void add_outputs(const Contract& contract, const Bound& sizes, Args& args);

  // net_parallel.cpp
  int64_t part_of(ShardLaw law, int64_t whole) const;  // this rank's size of an axis
  Bound parts_of(const Laws& laws, Bound sizes) const;
  void cut(WeightSpec& spec, const Slot& slot, const Bound& sizes, const Laws& laws) const;
  bool of_experts(const Slot& slot, const Laws& laws) const;
  Value spread(const WeightSpec& spec);
  bool gives_share(const Contract& contract, const Args& args) const;
  bool is_share(Value v) const { return shares_.count(graph().info(v).buffer) != 0; }
  Outputs sum_and_norm(const std::string& path, Args args);
  Value summed(const std::string& path, Value share);
  std::optional<Outputs> sum_while_computed(const std::string& op, const std::string& path,
                                            const Args& args);
  bool spread_has(const Arg& arg, const std::string& path) const;
  Value standing_for(Value v) const;
  bool takes_experts(const Args& args) const;
  Outputs spread_experts(const std::string& op, const std::string& path, Args args);

  Limits limits_;
  Args common_;
  Names renamed_;
  std::vector<std::function<void(WeightSpec&)>> changes_;
  std::set<int> shares_;          // buffers with this rank's term of a sum over ranks
  std::map<int, Value> instead_;  // values that stand for others, by their buffers
  std::map<int, Value> experts_;  // this rank's weights, by buffers that stand for all experts'
  std::vector<Tap> later_;        // taps of shares, which the next norm sums up
};

}  // namespace fk
