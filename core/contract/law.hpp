// SPDX-License-Identifier: Apache-2.0
// Laws of a contract for models: the place of a weight in checkpoints, its random values, its
// division between ranks. Plugins see none of it, and no hash covers it.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/yaml.hpp"
#include "core/contract/expr.hpp"

namespace fk {

// The view that a weight has of each of its tensors: reshaped, cut along an axis, with its axes in
// another order.
struct ViewLaw {
  std::vector<Expr> shape;
  int axis = 0;
  Expr start = 0;
  std::optional<Expr> length;  // absent: all of the axis
  std::vector<int> order;      // empty: as it is
};

// `checkpoint:` of a weight. Names stand below the path of the call.
struct WeightLaw {
  std::string name;
  // Tensors that are concatenated to the weight; empty: the one of its name. A `*` counts the
  // entries of the first axis, which are stacked.
  std::vector<std::string> parts;
  std::vector<Expr> rows;  // rows of each part, where ranks or blocks of scales must not mix parts
  std::optional<ViewLaw> view;
  // Without a checkpoint: normal(mean, stddev); with `gain` the deviation is 1/sqrt of it. Else
  // unit gain over the last axis.
  double mean = 0, stddev = 0;
  std::optional<Expr> gain;
  bool negative_exp = false;  // the weight is -exp of the checkpoint's tensor
  bool usual = false;         // optional, but there unless the model leaves it out
};

// `checkpoint: o_proj.weight`, or {name: ..., parts: "{q,k,v}_proj.weight", rows: [...],
// random: "normal(1,0.2)", view: {shape: [H, "D+E"], axis: 1, start: D, length: E, order: [1, 0]},
// map: -exp, usual: true}. An empty name among `parts` stands for zeros.
WeightLaw read_weight_law(const Yaml& node);

// The way in which ranks divide an axis, or their use of a field.
enum class ShardLaw {
  heads,           // whole heads, as many on every rank
  kv_heads,        // the same; fewer than ranks: several ranks have the same one
  columns,         // parts of equal size, the last ones padded with zeros
  expert_columns,  // the same of every expert, unless experts are divided
  experts,         // whole experts; the call still says how many there are
  whole,           // a weight that no rank has a part of, whatever its axes
  first,           // a weight that only the first rank adds; the others have zeros
  sum              // an output: each rank has a share, and the sum of all stands for it
};

// `shard: {H: heads, out: sum}`, by axis letter or field. `known` are the letters and fields.
std::map<std::string, ShardLaw> read_shard_laws(const Yaml& node,
                                                const std::vector<std::string>& known);

}  // namespace fk
