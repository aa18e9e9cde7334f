// SPDX-License-Identifier: Apache-2.0
// Names and layouts which the weights of contracts have in a form's checkpoints.
#include <algorithm>
#include <cmath>

#include "baselines/models/parts/decoder_form.hpp"

namespace fk::parts {

std::string parent_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

std::string below(const std::string& path, const std::string& name) {
  return path.empty() || name.empty() ? path + name : path + "." + name;
}

Net::Names names_of(const DecoderForm& f) {
  const std::string attention = parent_of(f.o), mlp = parent_of(f.down);
  Net::Names names;
  const std::vector<std::string> qkv{"q_proj", "k_proj", "v_proj"}, up{"gate_proj", "up_proj"};
  for (size_t i = 0; i < qkv.size(); ++i)
    names.emplace_back(below(attention, qkv[i]), f.qkv[f.qkv.size() == 1 ? 0 : i]);
  for (size_t i = 0; f.gated && i < up.size(); ++i)
    names.emplace_back(below(mlp, up[i]), f.up[f.up.size() == 1 ? 0 : i]);
  if (!f.gated) names.emplace_back(below(mlp, "fc1"), f.up[0]);
  names.emplace_back(below(attention, "o_proj"), f.o);
  names.emplace_back(below(attention, "q_norm"), f.q_norm);
  names.emplace_back(below(attention, "k_norm"), f.k_norm);
  for (const char* down : {"down_proj", "fc2"}) names.emplace_back(below(mlp, down), f.down);
  if (f.latent.kv_rank > 0 && f.latent.q_rank == 0) {
    // Queries come from the hidden state itself. Only keys and values have latents.
    names.emplace_back("self_attn.q_b_proj", "self_attn.q_proj");
    names.emplace_back("self_attn.fused_qkv_a_proj", "self_attn.kv_a_proj_with_mqa");
  }
  std::erase_if(names, [](const auto& name) { return name.first == name.second; });
  return names;
}

Net::Names names_of_mixture(const DecoderForm& f, const std::string& path) {
  const DecoderForm::Mixture& m = f.mixture;
  const auto at = [&](const char* name) { return below(path, name); };
  Net::Names names;
  if (!m.correction.empty()) names.emplace_back(at("gate.e_score_correction_bias"), m.correction);
  names.emplace_back(at("gate"), m.gate);
  if (m.transposed) {
    names.emplace_back(at("experts.w13.weight"), m.up.front());
    names.emplace_back(at("experts.w2.weight"), m.down);
  }
  if (m.bias) {
    names.emplace_back(at("experts.w13.bias"), m.up.front() + "_bias");
    names.emplace_back(at("experts.w2.bias"), m.down + "_bias");
  }
  const auto add = [&](const std::string& to, std::initializer_list<const char*> words) {
    for (const char* word : words) names.emplace_back(at(word), to);
  };
  const std::string end = m.bare ? ".weight" : "";
  const auto of_experts = [&](const std::string& to, std::initializer_list<const char*> words) {
    for (const char* word : words) names.emplace_back(at("experts.*.") + word + end, to);
  };
  of_experts(m.up.front(), {"w1", "gate_proj"});
  of_experts(m.up.back(), {"w3", "up_proj"});
  of_experts(m.down, {"w2", "down_proj"});
  if (m.shared_width > 0) {
    // With a gate, the shared experts are a mixture of one expert.
    if (!m.shared_gate.empty()) add(m.shared_gate, {"shared.gate"});
    add(m.shared_up.front(), {"shared.experts.*.gate_proj", "shared_experts.gate_proj"});
    add(m.shared_up.back(), {"shared.experts.*.up_proj", "shared_experts.up_proj"});
    add(m.shared_down,
        {"shared.experts.*.down_proj", "shared_experts.down_proj", "shared_experts.fc2"});
  }
  std::erase_if(names, [](const auto& name) { return name.first == name.second; });
  return names;
}

namespace {

double plus_one(double x) { return x + 1; }
// The parameters of xielu are stored as the inverse of a softplus, alpha_n without its 1/2.
double softplus(double x) { return std::log1p(std::exp(x)); }
double softplus_and_half(double x) { return softplus(x) + 0.5; }

// A half of the rows of a fused tensor.
PartView half_view(const WeightSpec& spec, int64_t half) {
  PartView v{{2, spec.shape[0] / 2}, 0, half, 1, {0, 1}};
  if (spec.shape.size() > 1) v.shape.push_back(spec.shape[1]), v.order.push_back(2);
  return v;
}

// Adapts matrices of experts with the layout [in, out], their biases, and matrices in mxfp4. In all
// three cases one tensor has all experts.
void adapt_experts(const DecoderForm& f, WeightSpec& spec) {
  const DecoderForm::Mixture& m = f.mixture;
  const auto is_for = [&](const std::string& name, const char* end) {
    return spec.name.ends_with("." + name + end);
  };
  if (is_for(m.gate, ".bias")) spec.dtype = DType::f32;
  if (is_for(m.up.front(), "_bias") || is_for(m.down, "_bias")) {
    spec.parts.clear();
    spec.stacked = false;
  }
  if (m.transposed && (is_for(m.up.front(), "") || is_for(m.down, ""))) {
    const auto& shape = spec.shape;
    spec.view = PartView{{shape[0], shape[2], shape[1]}, 0, 0, shape[0], {0, 2, 1}};
    spec.parts.clear();
    spec.stacked = false;
  }
  if (!f.mxfp4 || !spec.name.ends_with("_scales")) return;
  // Random e2m1 codes have a root mean square of 2.9.
  const auto columns = static_cast<double>(32 * spec.shape[2]);
  spec.low = 127 - std::lround(std::log2(2.9 * std::sqrt(columns)));
  spec.high = spec.low + 1;
}

}  // namespace

std::vector<PartView> qkv_views(const DecoderForm& f, const WeightSpec& spec) {
  const DecoderConfig& c = f.base;
  const bool shards = f.qkv_rows == DecoderForm::QkvRows::quarters;
  const int64_t queries = shards ? 1 : c.heads / c.kv_heads;
  const int64_t groups = shards ? 4 : c.kv_heads;
  const auto view = [&](int64_t start, int64_t length) {
    PartView v{
        {groups, queries + 2, c.kv_heads * c.head_dim / groups}, 1, start, length, {0, 1, 2}};
    if (spec.shape.size() > 1) v.shape.push_back(spec.shape[1]), v.order.push_back(3);
    return v;
  };
  return {view(0, queries), view(shards ? 2 : queries, 1), view(shards ? 1 : queries + 1, 1)};
}

void adapt_weight(const DecoderForm& f, WeightSpec& spec) {
  if (f.mixture.experts > 0) adapt_experts(f, spec);
  for (auto& parts : spec.parts) {
    const bool fused = parts.size() > 1 && std::ranges::count(parts, parts[0]) > 1;
    if (fused && parts.size() == 3 && f.qkv_rows != DecoderForm::QkvRows::blocks)
      spec.views = qkv_views(f, spec);
    else if (fused && parts.size() == 2 && f.up_first)
      spec.views = {half_view(spec, 1), half_view(spec, 0)};
    else if (fused)
      parts.resize(1);
  }
  if (f.latent.kv_rank > 0 && f.latent.q_rank == 0 &&
      spec.name.ends_with(".kv_a_proj_with_mqa.weight"))
    spec.parts.clear();
  if (f.transposed && spec.shape.size() == 2 && spec.name.starts_with(f.base.names.layers + "."))
    spec.view = PartView{{spec.shape[1], spec.shape[0]}, 0, 0, spec.shape[1], {1, 0}};
  // A gated shared expert is the only one of its mixture. Some files have corrections as a row.
  if (spec.name.find(".shared.experts.") != std::string::npos) spec.stacked = true;
  if (!f.mixture.correction.empty() && spec.name.ends_with("." + f.mixture.correction))
    spec.view = PartView{spec.shape, 0, 0, spec.shape[0], {0}};
  if (spec.name.ends_with(".act_fn.alpha_p")) spec.map = softplus;
  if (spec.name.ends_with(".act_fn.alpha_n")) spec.map = softplus_and_half;
  // The weights are gains around one. 1 + weight has more digits than 16 bits hold, so it is
  // float32.
  if (f.plus_one && spec.mean == 1) spec.dtype = DType::f32, spec.mean = 0, spec.map = plus_one;
  if (f.learned_positions && spec.name == f.position + ".weight") {
    const int64_t rows = spec.shape[0], width = spec.shape[1], first = f.position_offset;
    spec.stddev = 0.5;
    if (f.sinusoidal)
      spec.compute = [=, zero = f.pad_token] { return sinusoidal_table(rows, width, first, zero); };
    else if (first > 0)
      spec.view = PartView{{rows + first, width}, 0, first, rows, {0, 1}};
  }
}

}  // namespace fk::parts
