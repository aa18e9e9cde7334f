// SPDX-License-Identifier: Apache-2.0
// decode_step as embedding, one decoder_layer after the other, rms_norm, linear and sample_tokens:
// a step as models of dense decoders record it.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

// Layer i's arguments: every slot of decoder_layer which decode_step has under the same name, as a
// list or for all layers.
Args layer_args(const Builder& b, const Region& r, int64_t i) {
  const Contract &layer = b.catalog().at("decoder_layer"), &whole = b.catalog().at("decode_step");
  Args args;
  for (const auto id : {SectionId::init, SectionId::weights, SectionId::forward}) {
    for (const auto& slot : layer.section(id)) {
      const Slot* mine = whole.find(id, slot.name);
      if (!mine) continue;
      if (mine->is_tensor())
        args.emplace_back(slot.name, mine->list.empty() ? r[slot.name] : r.at(slot.name, i));
      else if (id == SectionId::forward)
        args.emplace_back(slot.name, r.scalar(slot.name));
      else if (slot.kind == SlotKind::number)
        args.emplace_back(slot.name, r.number(slot.name));
      else
        args.emplace_back(slot.name, r.integer(slot.name));
    }
  }
  return args;
}

void expand_decode_step(Builder& b, const Region& r) {
  const DType dtype = r.choice("activations") == "f32" ? DType::f32 : b.dtype(r["embed_tokens"]);
  const Dims shape{b.shape(r["ids"])[0], r.integer("hidden_size")};
  const Value hidden = r.call(b, "embedding", ".embed_tokens",
                              {{"table", r["embed_tokens"]}, {"out", b.empty(dtype, shape)}});
  const Value residual = b.zeros(b.dtype(hidden), b.shape(hidden));
  const std::vector<int64_t> windows = r.integers("windows");
  for (int64_t i = 0; i < r.integer("num_layers"); ++i) {
    b.tap("hidden." + std::to_string(i), {hidden, residual});
    Args args = layer_args(b, r, i);
    args.emplace_back("window", windows[static_cast<size_t>(i)]);
    args.emplace_back("max_query_len", 1);
    args.emplace_back("hidden", hidden);
    args.emplace_back("residual", residual);
    b.call("decoder_layer", r.path() + ".layers." + std::to_string(i), args);
  }
  const Value x = r.call(b, "rms_norm", ".norm",
                         {{"weight", r["norm"]}, {"x", hidden}, {"residual", residual}});
  b.tap("hidden." + std::to_string(r.integer("num_layers")), {x});
  b.call("linear", "lm_head", {{"weight", r["lm_head"]}, {"x", x}, {"out", r["logits"]}});
  b.call("sample_tokens", "sampler",
         {{"logits", r["logits"]},
          {"temperature", r["temperature"]},
          {"top_k", r["top_k"]},
          {"top_p", r["top_p"]},
          {"uniform", r["uniform"]},
          {"tokens", r["tokens"]}});
}

FK_BLOCK(decode_step, expand_decode_step);

}  // namespace
}  // namespace fk
