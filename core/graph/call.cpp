// SPDX-License-Identifier: Apache-2.0
// Records a call (Builder::call): compares the arguments with the contract, finds the sizes of its
// axes, and makes missing outputs.
#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/graph/builder.hpp"

namespace fk {

namespace {

using Bound = std::map<std::string, Expr>;

std::string dims_text(const Dims& shape) {
  std::vector<std::string> dims;
  for (const auto& d : shape) dims.push_back(d.text());
  return "[" + join(dims, ", ") + "]";
}

// Binds the axis letters of a field to the dimensions of its tensor.
void unify(const std::string& where, const Slot& slot, const Dims& given, Bound& axes) {
  const auto wrong = [&](const std::string& why) {
    fail(where, "`" + slot.name + "` is " + dims_text(given) + " but the contract says " +
                    dims_text(slot.shape) + why);
  };
  if (given.size() != slot.shape.size()) wrong("");
  for (size_t i = 0; i < given.size(); ++i) {
    const Expr& want = slot.shape[i];
    if (want.is_symbol() && !axes.count(want.text())) {
      axes[want.text()] = given[i];
      continue;
    }
    // One more than an axis: the axis is one less.
    if (const auto left = want.symbols(); left.size() == 1) {
      const std::string& axis = *left.begin();
      const Expr least = want.substitute({{axis, Expr(0)}});
      const Expr size = given[i] - (least.is_constant() ? least : Expr(0));
      const bool possible = !size.is_constant() || size.value() >= 0;
      if (possible && !axes.count(axis) && want.substitute({{axis, size}}) == given[i])
        axes[axis] = size;
    }
    const Expr have = want.substitute(axes);
    if (!(have == given[i])) wrong(", and " + want.text() + " is " + have.text() + " here");
  }
}

bool allowed(const Slot& slot, DType dtype) {
  return std::find(slot.dtypes.begin(), slot.dtypes.end(), dtype) != slot.dtypes.end();
}

fk_slot init_value(const std::string& where, const Slot& slot, const Arg& arg,
                   std::vector<int64_t>& list) {
  fk_slot out{};
  if (const auto* i = std::get_if<int64_t>(&arg.value)) {
    if (slot.kind == SlotKind::number)
      out.f = static_cast<double>(*i);
    else
      out.i = *i;
  } else if (const auto* f = std::get_if<double>(&arg.value); f && slot.kind == SlotKind::number) {
    out.f = *f;
  } else if (const auto* word = std::get_if<std::string>(&arg.value);
             word && slot.kind == SlotKind::choice) {
    const auto it = std::find(slot.choices.begin(), slot.choices.end(), *word);
    if (it == slot.choices.end())
      fail(where, "`" + slot.name + "` cannot be `" + *word + "`",
           did_you_mean(*word, slot.choices));
    out.i = it - slot.choices.begin();
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&arg.value);
             ints && slot.kind == SlotKind::ints) {
    list = *ints;
    if (const auto names = slot.axis_names();
        slot.list.empty() && !names.empty() && list.size() != names.size())
      fail(where, "`" + slot.name + "` has " + std::to_string(list.size()) + " values instead of " +
                      std::to_string(names.size()));
  } else {
    fail(where, "the value of `" + slot.name + "` is of the wrong type");
  }
  std::vector<double> values(list.begin(), list.end());
  if (slot.kind != SlotKind::ints)
    values = {slot.kind == SlotKind::number ? out.f : static_cast<double>(out.i)};
  for (const double v : values) {
    if ((slot.min && v < *slot.min) || (slot.max && v > *slot.max))
      fail(where, "`" + slot.name + "` is " + std::to_string(v) + ", outside the contract's range");
  }
  return out;
}

bool dense(const ValueInfo& info) {
  Expr step = 1;
  for (size_t i = info.shape.size(); i-- > 0;) {
    if (!(info.strides[i] == step)) return false;
    step = step * info.shape[i];
  }
  return true;
}

// By the expression that counts the entries of a list: the axes of each entry.
using Entries = std::map<std::string, std::vector<Bound>>;

std::vector<Bound>& entries_of(const std::string& where, const Slot& slot, size_t given,
                               const Bound& axes, Entries& all) {
  const Expr count = Expr::parse(slot.list, where).substitute(axes);
  if (!count.is_constant() || count.value() != static_cast<int64_t>(given)) {
    fail(where, "`" + slot.name + "` has " + std::to_string(given) + " entries, " + slot.list +
                    " is " + count.text());
  }
  return all.try_emplace(slot.list, given, axes).first->second;
}

// The size that the given tensors show for an init slot that is an axis; null: none.
const Expr* size_of(const Slot& slot, const Bound& sizes) {
  const auto it = sizes.find(slot.axis);
  return slot.kind == SlotKind::integer && it != sizes.end() && it->second.is_constant()
             ? &it->second
             : nullptr;
}

void read_init(const std::string& where, const Args& args, const Bound& sizes, Call& call,
               Bound& axes) {
  const auto& slots = call.contract->section(SectionId::init);
  call.init.resize(slots.size());
  call.init_lists.resize(slots.size());
  for (const auto& slot : slots) {
    const auto at = static_cast<size_t>(slot.index);
    const Arg* arg = find_arg(args, slot.name);
    if (arg)
      call.init[at] = init_value(where, slot, *arg, call.init_lists[at]);
    else if (!slot.required())
      call.init[at] = slot.default_value;
    else if (const Expr* size = size_of(slot, sizes))
      call.init[at].i = size->value();
    else
      fail(where, "no value for `" + slot.name + "`");
    if (slot.kind == SlotKind::comm) {
      // Recorded as the number of ranks; 0 is none. Lowering puts the table in its place.
      if (!slot.axis.empty()) axes[slot.axis] = call.init[at].i;
    } else if (slot.kind == SlotKind::integer || slot.kind == SlotKind::boolean) {
      axes[slot.name] = call.init[at].i;
      if (!slot.axis.empty()) axes[slot.axis] = call.init[at].i;
    } else if (slot.kind == SlotKind::ints && slot.list.empty()) {
      const auto names = slot.axis_names();
      for (size_t i = 0; i < names.size(); ++i) axes[names[i]] = call.init_lists[at][i];
    }
  }
}

}  // namespace

const Arg* find_arg(const Args& args, const std::string& name) {
  for (const auto& arg : args)
    if (arg.name == name) return &arg;
  return nullptr;
}

Bound axes_of(const Builder& b, const Contract& contract, const Args& args) {
  Bound axes;
  for (const auto& arg : args) {
    const auto* value = std::get_if<Value>(&arg.value);
    const Slot* slot = contract.find(arg.name);
    if (!value || !*value || !slot || !slot->list.empty()) continue;
    const Dims& given = b.shape(*value);
    for (size_t i = 0; i < slot->shape.size() && i < given.size(); ++i)
      if (slot->shape[i].is_symbol()) axes.try_emplace(slot->shape[i].text(), given[i]);
  }
  return axes;
}

Outputs Region::call(Builder& b, const std::string& op, const std::string& path, Args args) const {
  const Contract& part = b.catalog().at(op);
  const Bound sizes = axes_of(b, part, args);
  for (const auto id : {SectionId::init, SectionId::weights, SectionId::forward}) {
    for (const auto& slot : part.section(id)) {
      const Slot* mine = call_->contract->find(id, slot.name);
      if (!mine || mine->kind != slot.kind || find_arg(args, slot.name)) continue;
      if (slot.required() && size_of(slot, sizes)) continue;
      if (slot.is_tensor() && slot.role != Role::out && mine->list.empty()) {
        args.emplace_back(slot.name, (*this)[slot.name]);
      } else if (id == SectionId::forward && !slot.is_tensor()) {
        args.emplace_back(slot.name, scalar(slot.name));
      } else if (slot.kind == SlotKind::number) {
        args.emplace_back(slot.name, number(slot.name));
      } else if (slot.kind == SlotKind::choice) {
        args.emplace_back(slot.name, choice(slot.name));
      } else if (slot.kind != SlotKind::ints && !slot.is_tensor()) {
        args.emplace_back(slot.name, integer(slot.name));
      }
    }
  }
  return b.call(op, call_->path + path, args);
}

namespace {

// Records one call: arguments first, then lists, outputs and dtypes.
class Recorder {
 public:
  Recorder(Builder& builder, const Graph& graph, const Contract& contract, const std::string& path,
           const Args& args)
      : builder_(builder),
        graph_(graph),
        contract_(contract),
        args_(args),
        where_(path + " (" + contract.op + ")") {
    for (const auto& arg : args) {
      if (!contract.find(arg.name))
        fail(where_, contract.op + " has no field `" + arg.name + "`",
             did_you_mean(arg.name, contract.field_names()));
    }
    call_.contract = &contract;
    call_.path = path;
    read_init(where_, args, axes_of(builder, contract, args), call_, axes_);
    call_.scalars.resize(contract.section(SectionId::forward).size(), Expr(0));
    for (const auto id : {SectionId::weights, SectionId::forward}) {
      section(id).resize(contract.section(id).size());
      for (const auto& slot : contract.section(id))
        slot.is_tensor() ? read_tensors(slot) : read_bound(slot);
    }
    read_lists();
    make_outputs();
    compare_dtypes();
    call_.axes = std::move(axes_);
  }

  Call call_;
  Outputs outputs_;

 private:
  std::vector<std::vector<Value>>& section(SectionId id) {
    return id == SectionId::weights ? call_.weights : call_.forward;
  }
  std::vector<Value>& values_of(const Slot& slot) {
    return section(slot.section)[static_cast<size_t>(slot.index)];
  }

  void check(const Slot& slot, Value v, Bound& bound) const {
    const ValueInfo& info = graph_.info(v);
    unify(where_, slot, info.shape, bound);
    const DType type = graph_.dtype(v);
    if (!slot.dtypes.empty() && !allowed(slot, type))
      fail(where_, "`" + slot.name + "` cannot be " + std::string(name(type)));
    const bool last = info.shape.empty() || info.strides.back() == Expr(1);
    if (slot.strided ? !last : !dense(info))
      fail(where_, "`" + slot.name + "` is not dense" + (slot.strided ? " in its last axis" : ""));
  }

  std::vector<Value> given(const Slot& slot) const {
    const Arg* arg = find_arg(args_, slot.name);
    if (!arg) return {};
    if (const auto* v = std::get_if<Value>(&arg->value))
      return *v ? std::vector<Value>{*v} : std::vector<Value>{};
    if (const auto* list = std::get_if<std::vector<Value>>(&arg->value); list && !slot.list.empty())
      return *list;
    fail(where_, "`" + slot.name + "` is a tensor");
  }

  void read_bound(const Slot& slot) {
    const Arg* arg = find_arg(args_, slot.name);
    if (!arg) fail(where_, "no bound for `" + slot.name + "`");
    Expr& out = call_.scalars[static_cast<size_t>(slot.index)];
    if (const auto* e = std::get_if<Expr>(&arg->value))
      out = *e;
    else if (const auto* i = std::get_if<int64_t>(&arg->value))
      out = *i;
    else
      fail(where_, "the bound `" + slot.name + "` is an integer or an expression");
  }

  void read_tensors(const Slot& slot) {
    auto& values = values_of(slot) = given(slot);
    if (values.empty() && slot.required() && slot.role != Role::out)
      fail(where_, "no tensor for `" + slot.name + "`");
    if (slot.list.empty())
      for (const Value v : values) check(slot, v, axes_);
    if (slot.section == SectionId::forward && !first_ && !values.empty()) first_ = values[0];
  }

  // Lists come after all other fields: an axis that no other field binds may differ by entry.
  void read_lists() {
    Entries entries;
    for (const auto& slot : contract_.section(SectionId::init)) {
      const auto& list = call_.init_lists[static_cast<size_t>(slot.index)];
      if (slot.list.empty()) continue;
      auto& bounds = entries_of(where_, slot, list.size(), axes_, entries);
      for (size_t k = 0; k < list.size(); ++k)
        if (!slot.axis.empty()) bounds[k][slot.axis] = list[k];
    }
    for (const auto id : {SectionId::weights, SectionId::forward}) {
      for (const auto& slot : contract_.section(id)) {
        if (slot.list.empty() || !slot.is_tensor() || values_of(slot).empty()) continue;
        const auto& values = values_of(slot);
        auto& bounds = entries_of(where_, slot, values.size(), axes_, entries);
        for (size_t k = 0; k < bounds.size(); ++k) check(slot, values[k], bounds[k]);
      }
    }
  }

  // Makes the outputs that the caller did not give.
  void make_outputs() {
    for (const auto& slot : contract_.section(SectionId::forward)) {
      if (!slot.is_tensor() || slot.role != Role::out) continue;
      auto& values = values_of(slot);
      if (values.empty() && slot.optional) continue;
      if (values.empty() && !slot.list.empty())
        fail(where_, "the list of outputs `" + slot.name + "` is not made here",
             "give its tensors");
      if (values.empty()) {
        Dims shape;
        for (const auto& dim : slot.shape) shape.push_back(dim.substitute(axes_));
        values = {builder_.empty(output_dtype(slot), std::move(shape))};
        check(slot, values[0], axes_);
      }
      outputs_.fields.emplace_back(slot.name, values[0]);
    }
  }

  // The dtype of the field that the contract names, else of the first input where it is allowed.
  DType output_dtype(const Slot& slot) {
    const DType usual = slot.dtypes.empty() ? DType::f32 : slot.dtypes[0];
    if (!slot.dtype_of.empty()) {
      const auto& source = values_of(contract_.at(slot.dtype_of));
      return source.empty() ? usual : graph_.dtype(source[0]);
    }
    return first_ && allowed(slot, graph_.dtype(first_)) ? graph_.dtype(first_) : usual;
  }

  void compare_dtypes() {
    for (const auto id : {SectionId::weights, SectionId::forward}) {
      for (const auto& slot : contract_.section(id)) {
        if (!slot.is_tensor() || slot.dtype_of.empty()) continue;
        const Slot& other = contract_.at(slot.dtype_of);
        const auto& theirs = values_of(other);
        if (theirs.empty()) continue;
        for (const Value mine : values_of(slot)) {
          const DType type = graph_.dtype(mine), want = graph_.dtype(theirs[0]);
          if (type != want)
            fail(where_, "`" + slot.name + "` is " + std::string(name(type)) + " but `" +
                             other.name + "` is " + std::string(name(want)));
        }
      }
    }
  }

  Builder& builder_;
  const Graph& graph_;
  const Contract& contract_;
  const Args& args_;
  const std::string where_;
  Bound axes_;
  Value first_{};  // the first tensor of the call, inputs first
};

}  // namespace

Outputs Builder::call(const std::string& op, const std::string& path, const Args& args) {
  Recorder recorder(*this, graph_, catalog_.at(op), path, args);
  graph_.calls.push_back(std::move(recorder.call_));
  return std::move(recorder.outputs_);
}

}  // namespace fk
