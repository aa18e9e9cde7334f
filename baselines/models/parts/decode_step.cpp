// SPDX-License-Identifier: Apache-2.0
// decode_step has the arguments of its parts. Arguments which differ between layers are lists.
#include "baselines/models/parts/decode_step.hpp"

#include "core/base/error.hpp"

namespace fk::parts {
namespace {

void add_outer(const Builder& b, Args& args, const std::string& op, const Region& r) {
  if (op == "embedding") {
    if (b.dtype(r["out"]) != b.dtype(r["table"])) args.emplace_back("activations", "f32");
    args.emplace_back("embed_tokens", r["table"]);
    args.emplace_back("ids", r["ids"]);
  } else if (op == "rms_norm") {
    args.emplace_back("norm", r["weight"]);
  } else if (op == "linear") {
    args.emplace_back("vocab_size", r.integer("out_features"));
    args.emplace_back("lm_head", r["weight"]);
    args.emplace_back("logits", r["out"]);
  } else if (op == "sample_tokens") {
    for (const char* name : {"temperature", "top_k", "top_p", "uniform", "tokens"})
      args.emplace_back(name, r[name]);
  } else {
    fail(r.path(), "`" + op + "` is no part of decode_step");
  }
}

// Puts a layer's arguments into the slots of the same names. A list gets an entry; other slots keep
// the first layer's argument.
class Layers {
 public:
  explicit Layers(const Contract& whole) : whole_(whole) {}

  void add(const Call& call, const Region& r) {
    for (const auto id : {SectionId::init, SectionId::weights, SectionId::forward})
      for (const auto& slot : call.contract->section(id)) add(call, slot, r);
    windows_.push_back(r.integer("window"));
  }
  Args take() {
    args_.emplace_back("num_layers", static_cast<int64_t>(windows_.size()));
    args_.emplace_back("windows", std::move(windows_));
    for (auto& [name, list] : lists_) args_.emplace_back(name, std::move(list));
    return std::move(args_);
  }

 private:
  void add(const Call& call, const Slot& slot, const Region& r) {
    const std::string& name = slot.name;
    const Slot* whole = whole_.find(slot.section, name);
    if (!whole) {
      // The hidden state stays inside of the step, and a step has one token for each request.
      const bool inner = name == "window" || name == "hidden" || name == "residual";
      if (!inner && name != "max_query_len" && used(call, slot, r))
        fail(Graph::label(call), "decode_step has no `" + name + "`");
    } else if (slot.is_tensor() && !whole->list.empty()) {
      if (r.has(name)) lists_[name].push_back(r[name]);
    } else if (!windows_.empty()) {
      return;
    } else if (slot.is_tensor()) {
      args_.emplace_back(name, r[name]);
    } else if (slot.section == SectionId::forward) {
      args_.emplace_back(name, r.scalar(name));
    } else if (slot.kind == SlotKind::number) {
      args_.emplace_back(name, r.number(name));
    } else {
      args_.emplace_back(name, r.integer(name));
    }
  }
  static bool used(const Call& call, const Slot& slot, const Region& r) {
    if (slot.is_tensor()) return r.has(slot.name);
    return slot.section != SectionId::init ||
           call.init[static_cast<size_t>(slot.index)].i != slot.default_value.i;
  }

  const Contract& whole_;
  Args args_;
  std::map<std::string, std::vector<Value>> lists_;
  std::vector<int64_t> windows_;
};

}  // namespace

void fold_decode_step(Builder& b) {
  const std::vector<Call> calls = b.take_back();
  Layers layers(b.catalog().at("decode_step"));
  Args outer;
  for (const Call& call : calls) {
    const Region r = b.region(call);
    if (call.contract->op == "decoder_layer")
      layers.add(call, r);
    else
      add_outer(b, outer, call.contract->op, r);
  }
  Args args = layers.take();
  args.insert(args.end(), outer.begin(), outer.end());
  b.call("decode_step", "model", args);
}

}  // namespace fk::parts
