// SPDX-License-Identifier: Apache-2.0
// Asks for a provider of each call. If none takes the call whole, the call is expanded and its
// parts are asked. Makes the frames of all nodes and the views in them, still without data.
#include "core/exec/lower.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/graph/builder.hpp"

namespace fk {

class Lowering {
 public:
  Lowering(const Catalog& catalog, const Plugins& plugins, const ProviderPolicy& policy,
           int32_t device_type, int32_t device_id, const Axes& limits, const fk_comm* comm_or_null)
      : catalog_(catalog),
        plugins_(plugins),
        policy_(policy),
        device_type_(device_type),
        device_id_(device_id),
        limits_(limits),
        comm_(comm_or_null),
        out_(std::make_unique<Lowered>()) {}

  std::unique_ptr<Lowered> run(Graph graph) {
    std::vector<Call> calls = std::move(graph.calls);
    std::vector<Tap> taps = std::move(graph.taps);
    out_->graph = std::move(graph);
    lower_calls(std::move(calls), taps, 0);
    make_views();  // for taps and outputs without a node
    note_handed();
    return std::move(out_);
  }

 private:
  // Marks the values whose views an op or the caller gets.
  void note_handed() {
    out_->handed.resize(out_->graph.values.size());
    const auto note = [&](Value v) {
      if (v) out_->handed[static_cast<size_t>(v.id)] = true;
    };
    for (const auto& [name, value] : out_->graph.outputs) note(value);
    for (const Node& node : out_->nodes)
      for (const auto* slots : {&node.call.weights, &node.call.forward})
        for (const auto& slot : *slots) std::ranges::for_each(slot, note);
  }

  void lower_calls(std::vector<Call> calls, const std::vector<Tap>& taps, int depth) {
    size_t tap = 0;
    for (size_t i = 0; i <= calls.size(); ++i) {
      for (; tap < taps.size() && taps[tap].before == i; ++tap)
        out_->taps.push_back({taps[tap].name, taps[tap].values, out_->nodes.size()});
      if (i < calls.size()) lower_call(std::move(calls[i]), depth);
    }
  }

  void lower_call(Call call, int depth) {
    if (depth > 8) fail(Graph::label(call), "decompositions are nested too deeply");
    make_views();
    Node node;
    node.call = std::move(call);
    make_frames(node);
    const std::string& op = node.call.contract->op;
    const Expansion expansion = find_expansion(op);
    Chosen chosen = choose(policy_, plugins_, *node.call.contract, node.frames,
                           expansion != nullptr, node.call.path);
    node.refusals = std::move(chosen.refusals);
    if (chosen.provider && expansion && yields_to_candidate(*chosen.provider, node.call)) {
      node.refusals.push_back(chosen.provider->plugin + ": the candidate takes an op inside");
      chosen.provider = nullptr;
    }
    if (chosen.provider) {
      node.provider = chosen.provider;
      node.need = chosen.need;
      push_sizes(node, chosen);
      out_->nodes.push_back(std::move(node));
      return;
    }
    out_->graph = expand(catalog_, std::move(out_->graph), node.call);
    std::vector<Call> inner = std::move(out_->graph.calls);
    for (const auto& next : inner) {
      if (next.contract->level > node.call.contract->level || next.contract == node.call.contract) {
        fail(Graph::label(next), "a decomposition may not use itself or ops of higher levels");
      }
    }
    const std::vector<Tap> taps = std::exchange(out_->graph.taps, {});
    lower_calls(std::move(inner), taps, depth + 1);
  }

  // Adds nodes for sizes with other providers, before the call's last node. Their frames point to
  // the data of the last node.
  void push_sizes(const Node& last, Chosen& chosen) {
    // A step of decode is captured whole, or not at all.
    if (out_->graph.phase == "decode" && is_captured(*last.provider))
      std::erase_if(chosen.sizes, [](const auto& size) { return !is_captured(*size.provider); });
    // Sizes at the end that have the last node's provider need no node.
    while (!chosen.sizes.empty() && chosen.sizes.back().provider == last.provider)
      chosen.sizes.pop_back();
    const size_t first = out_->nodes.size();
    for (const SizeChoice& size : chosen.sizes) {
      std::vector<StepBound> when;
      for (const SizeBound& bound : size.where) when.push_back(in_step(bound, last.call));
      if (std::ranges::any_of(when, [&](const StepBound& w) { return never_holds(w); })) continue;
      Node& node = out_->nodes.emplace_back(last);
      node.provider = size.provider;
      node.need = size.need;
      node.when = std::move(when);
    }
    if (out_->nodes.size() > first) out_->nodes[first].others = out_->nodes.size() - first;
  }
  static bool is_captured(const Provider& provider) {
    return provider.op->claims->graph >= FK_GRAPH_UNIFORM_DECODE;
  }
  // True if no step within the limits has such a size.
  bool never_holds(const StepBound& w) const {
    if (w.of.is_constant()) return !w.bound.holds(w.of.value());
    return w.of.is_symbol() && w.of.eval(limits_) < w.bound.at_least;
  }

  // Translates a bound from the contract's letters to this graph's axes.
  static StepBound in_step(const SizeBound& bound, const Call& call) {
    const Expr of = Expr::parse(bound.of, "the ranking of " + call.contract->op);
    for (const auto& symbol : of.symbols())
      if (!call.axes.count(symbol))
        fail("the ranking of " + call.contract->op,
             "`" + bound.of + "`: the op has no axis `" + symbol + "`");
    return {of.substitute(call.axes), bound};
  }

  // A baseline must not take a region whole when the candidate has an op inside it.
  bool yields_to_candidate(const Provider& chosen, const Call& call) {
    if (policy_.candidates.empty() || contains(policy_.candidates, chosen.plugin)) return false;
    if (policy_.pins.count(call.contract->op)) return false;
    const auto [it, fresh] = candidate_inside_.try_emplace(call.contract->op, false);
    if (fresh) it->second = candidate_inside(out_->graph, call);
    return it->second;
  }
  bool candidate_inside(Graph graph, const Call& call) {
    graph = expand(catalog_, std::move(graph), call);
    const std::vector<Call> inner = std::move(graph.calls);
    graph.calls.clear();
    return std::any_of(inner.begin(), inner.end(), [&](const Call& next) {
      for (const Provider* provider : plugins_.of(next.contract->op))
        if (contains(policy_.candidates, provider->plugin)) return true;
      return find_expansion(next.contract->op) && candidate_inside(graph, next);
    });
  }

  // Makes views, at the limits, for values without one.
  void make_views() {
    for (size_t i = out_->views.size(); i < out_->graph.values.size(); ++i) {
      set_view(out_->views.emplace_back(), Value{static_cast<int>(i)}, device_type_);
    }
  }

  void set_view(ViewStore& store, Value value, int32_t device_type) {
    const ValueInfo& info = out_->graph.info(value);
    const DType type = out_->graph.dtype(value);
    FK_CHECK(info.shape.size() <= 8, "a tensor has at most 8 axes");
    // reach: elements from the first to the last one in memory, gaps included.
    int64_t reach = 1, count = 1;
    for (size_t d = 0; d < info.shape.size(); ++d) {
      store.dims[d] = info.shape[d].eval(limits_);
      store.dims[8 + d] = info.strides[d].eval(limits_);
      reach += (store.dims[d] - 1) * store.dims[8 + d];
      count *= store.dims[d];
    }
    fk_out& v = store.view;
    v.device_type = device_type;
    v.device_id = device_type == FK_CPU ? 0 : device_id_;
    v.ndim = static_cast<int32_t>(info.shape.size());
    v.dtype = {to_dlpack(type).code, to_dlpack(type).bits, 1};
    v.shape = store.dims;
    v.strides = store.dims + 8;
    v.nbytes = count ? reach * bytes(type) : 0;
  }

  fk_slot tensor_slot(const Slot& slot, const std::vector<Value>& values) {
    fk_slot out{};
    if (slot.list.empty()) {
      if (!values.empty()) out.p = &out_->views[static_cast<size_t>(values[0].id)].view;
      return out;
    }
    if (values.empty() && slot.optional) return out;
    auto& items = out_->list_items.emplace_back();
    for (const Value v : values)
      items.push_back(fk_as_in(&out_->views[static_cast<size_t>(v.id)].view));
    out.p = &out_->lists.emplace_back(fk_in_list{static_cast<int64_t>(items.size()), items.data()});
    return out;
  }

  void make_frames(Node& node) {
    const Contract& contract = *node.call.contract;
    node.frames.init = node.call.init;
    for (const auto& slot : contract.section(SectionId::init)) {
      if (slot.kind == SlotKind::comm) put_communicator(node, slot);
      if (slot.kind != SlotKind::ints) continue;
      auto& list = node.call.init_lists[static_cast<size_t>(slot.index)];
      node.frames.init[static_cast<size_t>(slot.index)].p =
          &out_->ints.emplace_back(fk_ints{static_cast<int64_t>(list.size()), list.data()});
    }
    for (const auto& slot : contract.section(SectionId::weights)) {
      node.frames.weights.push_back(
          tensor_slot(slot, node.call.weights[static_cast<size_t>(slot.index)]));
    }
    for (const auto& slot : contract.section(SectionId::forward)) {
      const auto at = static_cast<size_t>(slot.index);
      fk_slot out{};
      if (slot.is_tensor())
        out = tensor_slot(slot, node.call.forward[at]);
      else
        out.i = node.call.scalars[at].eval(limits_);
      node.frames.forward.push_back(out);
    }
    for (const auto& slot : contract.section(SectionId::plan))
      node.frames.plan.push_back(plan_slot(node, slot));
  }

  void put_communicator(Node& node, const Slot& slot) {
    fk_slot& value = node.frames.init[static_cast<size_t>(slot.index)];
    const int64_t ranks = value.i, here = comm_ ? comm_->size : 1;
    value.p = nullptr;
    if (ranks == 0) return;
    if (!comm_ || ranks != here)
      fail(Graph::label(node.call), "it is recorded for " + std::to_string(ranks) +
                                        " ranks, and here are " + std::to_string(here));
    value.p = comm_;
  }

  // A plan field is the host copy of a forward field. That field must be an input, which the engine
  // writes.
  fk_slot plan_slot(const Node& node, const Slot& slot) {
    const Slot& mirrored = node.call.contract->at(slot.mirror.empty() ? slot.name : slot.mirror);
    const auto& values = node.call.forward[static_cast<size_t>(mirrored.index)];
    fk_slot out{};
    if (values.empty()) return out;
    const ValueInfo& info = out_->graph.info(values[0]);
    if (out_->graph.buffers[static_cast<size_t>(info.buffer)].kind != BufferKind::input) {
      fail(Graph::label(node.call),
           "plan needs `" + mirrored.name + "` on the host, but it is computed on the device");
    }
    for (size_t i = 0; i < out_->host_views.size(); ++i) {
      if (out_->host_view_values[i] == values[0].id) {
        out.p = &out_->host_views[i].view;
        return out;
      }
    }
    set_view(out_->host_views.emplace_back(), values[0], FK_CPU);
    out_->host_view_values.push_back(values[0].id);
    out.p = &out_->host_views.back().view;
    return out;
  }

  const Catalog& catalog_;
  const Plugins& plugins_;
  const ProviderPolicy& policy_;
  int32_t device_type_, device_id_;
  const Axes& limits_;
  const fk_comm* comm_;
  std::unique_ptr<Lowered> out_;
  std::map<std::string, bool> candidate_inside_;  // by a region's op
};

void need_alignment(const Lowered& lowered, size_t value) {
  if (!lowered.handed[value]) return;
  const fk_out& view = lowered.views[value].view;
  const Graph& g = lowered.graph;
  const Buffer& buffer = g.buffers[static_cast<size_t>(g.values[value].buffer)];
  const int64_t promised =
      buffer.kind == BufferKind::weight ? FK_ALIGNMENT : fk_alignment(fk_as_in(&view));
  const auto behind = reinterpret_cast<intptr_t>(view.data) % promised;
  if (behind == 0) return;
  const std::string of = buffer.name.empty() ? "a result" : "`" + buffer.name + "`";
  const std::string bytes = std::to_string(promised);
  fail(g.phase,
       "a view of " + of + " begins " + std::to_string(behind) + " bytes behind a multiple of " +
           bytes + ", which its strides promise",
       "slices that begin at multiples of " + bytes + " bytes");
}

std::unique_ptr<Lowered> lower(const Catalog& catalog, Graph graph, const Plugins& plugins,
                               const ProviderPolicy& policy, int32_t device_type, int32_t device_id,
                               const Axes& limits, const fk_comm* comm_or_null) {
  return Lowering(catalog, plugins, policy, device_type, device_id, limits, comm_or_null)
      .run(std::move(graph));
}

}  // namespace fk
