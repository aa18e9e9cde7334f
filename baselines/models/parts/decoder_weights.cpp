// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/decoder_weights.hpp"

#include <algorithm>

namespace fk::parts {

WeightSpec rope_weight(const DecoderForm& f, size_t rope, int64_t positions) {
  WeightSpec table;
  table.name =
      f.base.names.rotary + ".cos_sin_cache" + (rope == 0 ? "" : "." + std::to_string(rope));
  table.shape = {positions, f.ropes[rope].rotary_dim};
  table.compute = [rope = f.ropes[rope], positions] { return rope_table(rope, positions); };
  return table;
}

WeightSpec query_scale_weight(const DecoderForm& f, int64_t positions) {
  WeightSpec table;
  table.name = f.base.names.rotary + ".query_scale";
  table.shape = {positions, f.base.head_dim};
  table.compute = [rope = f.base.rope, positions, width = f.base.head_dim] {
    return query_scale_table(rope, positions, width);
  };
  return table;
}

WeightSpec ones_weight(const DecoderForm& f, DType dtype) {
  WeightSpec spec;
  spec.name = f.base.names.rotary + ".ones";
  spec.dtype = dtype;
  spec.shape = {f.base.head_dim};
  spec.compute = [width = f.base.head_dim] {
    return std::vector<double>(static_cast<size_t>(width), 1.0);
  };
  return spec;
}

WeightSpec alibi_weight(const DecoderForm& f, const Parallel& p) {
  const int64_t heads = f.base.heads, part = heads / p.tp;
  WeightSpec spec;
  spec.name = f.base.names.rotary + ".alibi_slopes";
  spec.shape = {heads};
  spec.compute = [heads, scale = f.alibi_scale] {
    std::vector<double> slopes = alibi_slopes(heads);
    for (double& slope : slopes) slope *= scale;
    return slopes;
  };
  if (p.tp > 1) spec.cuts = {{0, {{p.rank * part, part, heads}}}};
  return spec;
}

WeightSpec qkv_weight(const DecoderForm& f, const std::string& layer, size_t which, bool bias,
                      const Limits& limits) {
  const int64_t heads = which == 0 ? f.base.heads : f.base.kv_heads, width = f.base.head_dim;
  const bool fused = f.qkv.size() == 1;
  const std::string end = bias ? ".bias" : ".weight", whole = below(layer, f.qkv.front()) + end;
  WeightSpec spec;
  spec.name = fused ? whole + "." + "qkv"[which] : below(layer, f.qkv[which]) + end;
  spec.dtype = limits.weights();
  spec.shape = {heads * width};
  if (bias) spec.stddev = 0.1;
  if (!bias) spec.shape.push_back(f.base.hidden_size);
  if (fused) {
    spec.parts = {{whole}};
    spec.views = {qkv_views(f, spec)[which]};
  }
  const Parallel& p = limits.parallel;
  const int64_t local = std::max<int64_t>(1, heads / p.tp), first = p.rank * heads / p.tp;
  if (p.tp > 1) spec.cuts = {{0, {{first * width, local * width, heads * width}}}};
  return spec;
}

WeightSpec output_gate_weight(const DecoderForm& f, const std::string& path, const Limits& limits) {
  const Parallel& p = limits.parallel;
  const int64_t rows = f.base.heads * f.base.head_dim, part = rows / p.tp;
  WeightSpec spec;
  spec.name = path + ".weight";
  spec.dtype = limits.weights();
  spec.shape = {rows, f.base.hidden_size};
  if (p.tp > 1) spec.cuts = {{0, {{p.rank * part, part, rows}}}};
  return spec;
}

WeightSpec gate_up_bias(const std::string& at, const std::vector<std::string>& names, int64_t size,
                        const Limits& limits) {
  const Parallel& p = limits.parallel;
  WeightSpec spec;
  spec.name = below(at, "gate_up_proj.bias");
  spec.dtype = limits.weights();
  spec.shape = {2 * size};
  spec.stddev = 0.1;
  spec.parts.emplace_back();
  for (const auto& name : names) spec.parts[0].push_back(name + ".bias");
  const int64_t part = (size + p.tp - 1) / p.tp, first = p.rank * part;
  if (p.tp > 1) spec.cuts = {{0, {{first, part, size}, {size + first, part, 2 * size}}}};
  return spec;
}

}  // namespace fk::parts
