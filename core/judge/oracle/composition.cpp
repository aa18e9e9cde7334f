// SPDX-License-Identifier: Apache-2.0
#include "core/judge/oracle/composition.hpp"

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/cases/exact_call.hpp"
#include "core/exec/program.hpp"
#include "core/graph/builder.hpp"

namespace fk {

namespace {

std::string name_of(const CaseField& field, int64_t entry) {
  return field.slot->name + "." + std::to_string(entry);
}

// A field that is read and never written is an input: plan() reads it on the host.
bool is_input(const CaseField& field) { return field.slot->role == Role::in; }
bool is_weight(const CaseField& field) { return field.slot->section == SectionId::weights; }

// The axes that come from the constructor.
std::map<std::string, Expr> axes_of_init(const ResolvedCase& call) {
  std::map<std::string, Expr> out;
  const auto put = [&](const std::string& axis) {
    const auto it = call.axes.find(axis);
    if (it != call.axes.end()) out.insert_or_assign(axis, Expr(it->second));
  };
  for (const auto& slot : call.contract->section(SectionId::init)) {
    if (slot.kind == SlotKind::integer) put(slot.name);
    if (slot.kind == SlotKind::integer) put(slot.axis);
    if (slot.kind == SlotKind::ints && slot.list.empty())
      for (const auto& axis : slot.axis_names()) put(axis);
  }
  return out;
}

// Other axes stay symbols, as in a model: a size of 4 does not show that it is B+1.
Dims dims_of(Builder& builder, const ResolvedCase& call, const CaseField& field, int64_t entry) {
  const Shape& shape = field.shape_of(entry);
  if (!field.entry_shapes.empty()) return {shape.begin(), shape.end()};
  const auto constants = axes_of_init(call);
  Dims dims;
  for (const Expr& dim : field.slot->shape) {
    dims.push_back(dim.substitute(constants));
    for (const auto& axis : dims.back().symbols()) builder.axis(axis);
  }
  return dims;
}

// Records one call of the op as a phase.
Graph record(const Catalog& catalog, const ResolvedCase& call) {
  const Contract& contract = *call.contract;
  Builder builder(catalog, "oracle", std::make_shared<WeightTable>());
  Call node;
  node.contract = &contract;
  node.path = contract.op;
  node.init = call.init;
  node.init_lists.resize(call.init.size());
  for (const auto& slot : contract.section(SectionId::init)) {
    const auto at = static_cast<size_t>(slot.index);
    FK_CHECK(slot.kind != SlotKind::comm, "an op with a communicator is not composed");
    if (slot.kind != SlotKind::ints) continue;
    const auto* list = static_cast<const fk_ints*>(call.init[at].p);
    if (list) node.init_lists[at].assign(list->at, list->at + list->n);
  }
  node.weights.resize(contract.section(SectionId::weights).size());
  node.forward.resize(contract.section(SectionId::forward).size());
  for (size_t i = 0; i < node.forward.size(); ++i) node.scalars.emplace_back(call.scalars.at(i).i);
  for (const CaseField& f : call.fields) {
    auto& into = (is_weight(f) ? node.weights : node.forward)[static_cast<size_t>(f.slot->index)];
    for (int64_t i = 0; f.present && i < f.entries; ++i) {
      const Shape& shape = f.shape_of(i);
      const Dims dims = dims_of(builder, call, f, i);
      if (is_weight(f)) {
        WeightSpec spec;
        spec.name = name_of(f, i);
        spec.dtype = f.dtype;
        spec.shape = shape;
        into.push_back(builder.weight(std::move(spec)));
      } else if (is_input(f)) {
        into.push_back(builder.input(name_of(f, i), f.dtype, dims));
      } else {
        into.push_back(builder.state(name_of(f, i), f.dtype, dims));
      }
    }
  }
  Graph graph = builder.finish();
  graph.calls.push_back(std::move(node));
  return graph;
}

std::unique_ptr<Lowered> lower_call(const Plugins& plugins, const std::string& plugin,
                                    const ResolvedCase& call, int32_t device_type, int32_t id) {
  const std::string& op = call.contract->op;
  if (!find_expansion(op)) fail(op, "it has no expansion");
  ProviderPolicy policy;
  policy.baselines = {plugin};
  policy.oracles.clear();  // its own ops come before decompositions
  policy.device_type = device_type;
  return lower(plugins.catalog(), record(plugins.catalog(), call), plugins, policy, device_type, id,
               call.axes, nullptr);
}

std::unique_ptr<Lowered> lower_wide(const Plugins& plugins, const std::string& plugin,
                                    const ResolvedCase& call, int32_t device_type, int32_t id) {
  auto lowered = lower_call(plugins, plugin, call, device_type, id);
  for (const Buffer& buffer : lowered->graph.buffers)
    if (buffer.kind == BufferKind::temp && is_float(buffer.dtype) && bytes(buffer.dtype) < 4)
      fail(call.contract->op,
           "what one part writes for another is " + std::string(name(buffer.dtype)));
  return lowered;
}

// Keeps large weights in their dtype, unless the dtypes of the parts follow from it.
std::unique_ptr<Lowered> lower_exact(const Plugins& plugins, const std::string& plugin,
                                     const ResolvedCase& resolved, const Case& source,
                                     const Variant& variant, int32_t device_type, int32_t id,
                                     ResolvedCase& call) {
  call = exact_call(resolved, source, variant, Exact::forward);
  try {
    return lower_wide(plugins, plugin, call, device_type, id);
  } catch (const Error&) {
    call = exact_call(resolved, source, variant, Exact::wide);
    return lower_wide(plugins, plugin, call, device_type, id);
  }
}

// The memory of a program, with its contents.
class Composition {
 public:
  Composition(std::unique_ptr<Lowered> lowered, const ResolvedCase& call, const CaseValues& values,
              Device& device)
      : call_(call),
        values_(values),
        device_(device),
        weights_(lowered->graph.weights),
        program_(std::move(lowered), call.axes, device) {
    fill();
    program_.set_weights(blocks_);
    program_.make_instances({device_, packed_, nullptr, [](int severity, const std::string& text) {
                               if (severity >= FK_LOG_WARNING) log_warn("the oracle: " + text);
                             }});
    blocks_.arena = take(program_.arena_bytes(), "what the oracle's parts write");
    blocks_.scratch_bytes = program_.scratch_bytes();
    blocks_.scratch = take(blocks_.scratch_bytes, "scratch of the oracle");
    program_.set_memory(blocks_);
    program_.set_graphs(false);
    for_tensors([&](const CaseField& f, int64_t i) {
      if (is_weight(f) || !is_input(f)) return;
      Tensor made;
      const Tensor& contents = initial(f, i, made);
      if (void* const to = program_.input(name_of(f, i)); to && contents.bytes())
        std::memcpy(to, contents.data(), static_cast<size_t>(contents.bytes()));
    });
  }

  CaseValues run() {
    program_.run();
    device_.synchronize();
    CaseValues out;
    for (const CaseField* f : call_.written())
      for (int64_t i = 0; i < f->entries; ++i) {
        Tensor got(f->dtype, f->shape_of(i));
        if (got.bytes()) device_.download(got.data(), state(*f, i), got.bytes());
        out[f->slot->name].push_back(std::move(got));
      }
    return out;
  }

 private:
  template <class Visit>
  void for_tensors(const Visit& visit) const {
    for (const CaseField& f : call_.fields)
      for (int64_t i = 0; f.present && i < f.entries; ++i) visit(f, i);
  }

  std::byte* take(int64_t bytes, const std::string& purpose) {
    return memory_.emplace_back(device_, bytes, purpose).data();
  }

  // The field's value, or zeros for one that is only written. `keep` owns a tensor made here.
  const Tensor& initial(const CaseField& f, int64_t entry, Tensor& keep) const {
    const auto it = values_.find(f.slot->name);
    if (it == values_.end()) return keep = Tensor(f.dtype, f.shape_of(entry));
    const Tensor& given = it->second.at(static_cast<size_t>(entry));
    return given.dtype == f.dtype ? given : keep = given.to(f.dtype);
  }

  void fill() {
    std::map<std::string, std::byte*> weights;
    for_tensors([&](const CaseField& f, int64_t i) {
      if (!is_weight(f) && is_input(f)) return;
      Tensor made;
      const Tensor& contents = initial(f, i, made);
      const std::string name = name_of(f, i);
      std::byte* const to = take(contents.bytes(), "the oracle's " + name);
      if (contents.bytes()) device_.upload(to, contents.data(), contents.bytes());
      (is_weight(f) ? weights : blocks_.states)[name] = to;
    });
    for (const WeightSpec& spec : weights_->all()) blocks_.weights.push_back(weights.at(spec.name));
  }

  const std::byte* state(const CaseField& f, int64_t entry) const {
    return blocks_.states.at(name_of(f, entry));
  }

  const ResolvedCase& call_;
  const CaseValues& values_;
  Device& device_;
  PackedCache packed_;
  std::vector<DeviceMemory> memory_;
  SharedBlocks blocks_;
  std::shared_ptr<WeightTable> weights_;
  PhaseProgram program_;  // destroyed before the memory that it uses
};

}  // namespace

const Provider& composed_oracle() {
  static const fk_claims claims = [] {
    fk_claims out{};
    out.device_type = FK_CUDA;
    return out;
  }();
  static const fk_op op = [] {
    fk_op out{};
    out.claims = &claims;
    return out;
  }();
  static const Provider provider = [] {
    Provider out;
    out.plugin = "cuda_reference";
    out.op = &op;
    return out;
  }();
  return provider;
}

CaseValues composed_outputs(const Plugins& plugins, const std::string& plugin,
                            const ResolvedCase& resolved, const Case& source,
                            const Variant& variant, const CaseValues& values, Device& device) {
  ResolvedCase call;
  auto lowered =
      lower_exact(plugins, plugin, resolved, source, variant, device.type(), device.id(), call);
  return Composition(std::move(lowered), call, values, device).run();
}

CaseValues chained_outputs(const Plugins& plugins, const std::string& plugin,
                           const ResolvedCase& call, const CaseValues& values, Device& device) {
  return Composition(lower_call(plugins, plugin, call, device.type(), device.id()), call, values,
                     device)
      .run();
}

std::string why_not_composed(const Plugins& plugins, const std::string& plugin,
                             const ResolvedCase& resolved, const Case& source,
                             const Variant& variant, int32_t device_type) {
  try {
    ResolvedCase call;
    lower_exact(plugins, plugin, resolved, source, variant, device_type, 0, call);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace fk
