// SPDX-License-Identifier: Apache-2.0
// Finds the sizes, weights and states that a call leaves out (net.hpp).
#include "core/graph/net.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

bool allows(const Slot& slot, DType dtype) {
  return std::find(slot.dtypes.begin(), slot.dtypes.end(), dtype) != slot.dtypes.end();
}

// The dtype that the model works with, where the field allows it.
DType dtype_for(const Slot& slot, DType usual) {
  return slot.dtypes.empty() || allows(slot, usual) ? usual : slot.dtypes[0];
}

// One stack entry of a weight: the `*` of its parts' names is its number.
std::vector<std::string> entry_of(const std::vector<std::string>& parts, int64_t entry) {
  std::vector<std::string> names;
  for (std::string name : parts) {
    const size_t star = name.find('*');
    if (star != std::string::npos) name.replace(star, 1, std::to_string(entry));
    names.push_back(std::move(name));
  }
  return names;
}

PartView view_of(const ViewLaw& law, const std::map<std::string, Expr>& sizes) {
  const auto size = [&](const Expr& e) { return e.substitute(sizes).value(); };
  PartView view;
  for (const Expr& dim : law.shape) view.shape.push_back(size(dim));
  view.axis = law.axis;
  view.start = size(law.start);
  view.length = law.length ? size(*law.length) : view.shape[static_cast<size_t>(view.axis)];
  view.order = law.order;
  for (int i = 0; law.order.empty() && i < static_cast<int>(view.shape.size()); ++i)
    view.order.push_back(i);
  return view;
}

bool asked(const Slot& slot, const std::vector<std::string>& with) {
  return contains(with, slot.name) || (!slot.group.empty() && contains(with, slot.group));
}

// f8e4m3 is finest between 2^-6 and 448; random weights are made there, and scaled back.
constexpr double kSpread = 32;

// Makes a weight f8e4m3 and returns its scales, one for each block of rows and columns. Parts must
// not share a block.
WeightSpec in_blocks(WeightSpec& weight, const Slot& slot, const Slot& scales,
                     const std::map<std::string, Expr>& sizes) {
  const auto& rows = slot.checkpoint->rows;
  const int64_t block = sizes.at("NB").value();  // rows, and columns, of a block
  for (size_t i = 0; i + 1 < rows.size(); ++i) {
    const int64_t part = rows[i].substitute(sizes).value();
    if (part % block == 0) continue;
    fail(weight.name,
         "a part of it has " + std::to_string(part) + " rows, which blocks of " +
             std::to_string(block) + " do not divide",
         "a smaller weight_block_size");
  }
  WeightSpec s;
  s.name = weight.name + "_scale_inv";
  for (const Expr& dim : scales.shape) s.shape.push_back(dim.substitute(sizes).value());
  s.stacked = weight.stacked;
  if (weight.parts.empty()) weight.parts = {{weight.name}};
  for (const auto& entry : weight.parts) {
    auto& names = s.parts.emplace_back();
    for (const auto& name : entry) names.push_back(name + "_scale_inv");
  }
  s.mean = 1 / std::sqrt(static_cast<double>(weight.shape.back())) / kSpread;
  s.stddev = 0.1 * s.mean;
  weight.dtype = DType::f8e4m3;
  weight.stddev = kSpread;
  return s;
}

}  // namespace

void Net::common(const Args& args) {
  for (const Arg& arg : args) {
    std::erase_if(common_, [&](const Arg& known) { return known.name == arg.name; });
    common_.push_back(arg);
  }
}

std::string Net::checkpoint_name(std::string name) const {
  for (const auto& [from, to] : renamed_) {
    for (size_t at = name.find(from); at != std::string::npos; at = name.find(from, at + 1)) {
      const size_t end = at + from.size();
      const bool whole =
          (at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.');
      if (!whole) continue;
      name.replace(at, from.size() + (to.empty() ? 1 : 0), to);
      break;
    }
  }
  return name;
}

// Adds the common arguments to the call's own, and finds the sizes of the whole model. The call's
// own arguments count before common ones, and sizes of its tensors before common sizes.
void Net::complete(const Contract& contract, Args& args, Bound& sizes) const {
  const auto bind = [&](const Slot& slot, const Expr& value) {
    sizes.insert_or_assign(slot.name, value);
    if (!slot.axis.empty()) sizes.insert_or_assign(slot.axis, value);
  };
  const auto bind_tensors = [&] {
    // A tensor may have this rank's part of an axis that ranks divide.
    for (const auto& [letter, size] : axes_of(*this, contract, args))
      if (!divided() || !contract.shard.count(letter)) sizes.try_emplace(letter, size);
  };
  const auto bind_integers = [&] {
    for (const auto& slot : contract.section(SectionId::init)) {
      const Arg* arg = find_arg(args, slot.name);
      const auto* integer = arg ? std::get_if<int64_t>(&arg->value) : nullptr;
      if (integer && slot.kind != SlotKind::number) bind(slot, *integer);
      const auto* list = arg ? std::get_if<std::vector<int64_t>>(&arg->value) : nullptr;
      const auto letters = slot.axis_names();
      for (size_t i = 0; list && i < letters.size() && i < list->size(); ++i)
        sizes.insert_or_assign(letters[i], (*list)[i]);
    }
  };
  bind_tensors();
  bind_integers();
  for (const Arg& arg : common_) {
    const Slot* slot = contract.find(arg.name);
    if (!slot || slot->role == Role::out || find_arg(args, arg.name)) continue;
    if (slot->section == SectionId::init && !slot->axis.empty() && sizes.count(slot->axis))
      continue;
    args.push_back(arg);
  }
  bind_tensors();
  bind_integers();
  for (const auto& slot : contract.section(SectionId::init)) {
    if (find_arg(args, slot.name)) continue;
    const auto size = sizes.find(slot.axis);
    if (slot.has_default && slot.kind != SlotKind::number)
      bind(slot, slot.default_value.i);
    else if (slot.kind == SlotKind::integer && size != sizes.end() && size->second.is_constant())
      args.emplace_back(slot.name, size->second.value());
  }
}

WeightSpec Net::weight_of(const Contract& contract, const Slot& slot, const std::string& path,
                          const Bound& sizes, const Laws& laws) const {
  const WeightLaw& law = *slot.checkpoint;
  const std::string below = path.empty() ? "" : path + ".";
  WeightSpec spec;
  spec.name = checkpoint_name(below + law.name);
  spec.dtype = dtype_for(slot, limits_.weights());
  for (const Expr& dim : slot.shape) {
    const Expr size = dim.substitute(sizes);
    if (!size.is_constant())
      fail(path + " (" + contract.op + ")",
           "the size " + dim.text() + " of `" + slot.name + "` is not known");
    spec.shape.push_back(size.value());
  }
  std::vector<std::string> parts;
  for (const auto& part : law.parts)
    parts.push_back(part.empty() ? part : checkpoint_name(below + part));
  spec.stacked = !parts.empty() && parts[0].find('*') != std::string::npos;
  for (int64_t i = 0; i < (spec.stacked ? spec.shape[0] : int64_t{!parts.empty()}); ++i)
    spec.parts.push_back(entry_of(parts, i));
  spec.mean = law.mean;
  spec.stddev = law.stddev;
  if (law.gain)
    spec.stddev = 1 / std::sqrt(static_cast<double>(law.gain->substitute(sizes).value()));
  if (law.view) spec.view = view_of(*law.view, sizes);
  if (law.negative_exp) spec.map = [](double value) { return -std::exp(value); };
  for (const auto& change : changes_) change(spec);
  cut(spec, slot, sizes, laws);
  return spec;
}

// Letters without a size are axes of the phase: pages, slots.
Value Net::state_of(const Slot& slot, const std::string& path, const Bound& sizes) {
  Dims shape;
  for (const Expr& dim : slot.shape) {
    const Expr size = dim.substitute(sizes);
    shape.push_back(size.is_symbol() && size == dim ? axis(dim.text()) : size);
  }
  return state(path + "." + slot.state, dtype_for(slot, limits_.cache_dtype), std::move(shape));
}

void Net::add_weights(const Contract& contract, const std::string& path, const Bound& sizes,
                      const std::vector<std::string>& with, Args& args) {
  for (const auto& name : with) {
    const auto& slots = contract.section(SectionId::weights);
    if (std::none_of(slots.begin(), slots.end(),
                     [&](const Slot& s) { return s.name == name || s.group == name; }))
      fail(path + " (" + contract.op + ")", "it has no weight and no group `" + name + "`",
           did_you_mean(name, contract.field_names()));
  }
  for (const auto& slot : contract.section(SectionId::weights)) {
    if (!slot.checkpoint || find_arg(args, slot.name)) continue;
    const bool wanted = slot.required() || slot.checkpoint->usual || asked(slot, with);
    if (!wanted) continue;
    WeightSpec spec = weight_of(contract, slot, path, sizes, contract.shard);
    const Slot* scales = contract.find(SectionId::weights, slot.name + "_scale_inv");
    if (scales && asked(*scales, with) && !find_arg(args, scales->name))
      args.emplace_back(scales->name, weight(in_blocks(spec, slot, *scales, sizes)));
    args.emplace_back(slot.name,
                      of_experts(slot, contract.shard) ? spread(spec) : weight(std::move(spec)));
  }
}

// Makes outputs of a given dtype. An output whose dtype follows from no input has the model's.
void Net::add_outputs(const Contract& contract, const Bound& sizes, Args& args) {
  const auto make = [&](const Slot& slot, DType dtype) {
    Dims shape;
    for (const Expr& dim : slot.shape) shape.push_back(dim.substitute(sizes));
    return empty(dtype, std::move(shape));
  };
  const Slot* first = nullptr;
  for (const auto& slot : contract.section(SectionId::forward)) {
    const Arg* arg = find_arg(args, slot.name);
    if (!slot.is_tensor()) continue;
    if (slot.role != Role::out) {
      if (!first && arg) first = &slot;
      continue;
    }
    if (arg) {
      const auto* word = std::get_if<std::string>(&arg->value);
      if (!word) continue;
      const Value made = make(slot, dtype_from_name(*word));
      std::find_if(args.begin(), args.end(), [&](const Arg& a) {
        return a.name == slot.name;
      })->value = made;
    } else if (first && slot.required() && slot.list.empty() && allows(slot, limits_.dtype) &&
               !allows(slot, dtype(std::get<Value>(find_arg(args, first->name)->value)))) {
      args.emplace_back(slot.name, make(slot, limits_.dtype));
    }
  }
}

Value Net::find(const std::string& op, const std::string& path, const std::string& field) {
  const Contract& contract = catalog().at(op);
  Args args;
  Bound sizes;
  complete(contract, args, sizes);
  const Slot& slot = contract.at(field);
  return weight(weight_of(contract, slot, path, sizes, contract.shard));
}

Outputs Net::operator()(const std::string& op, const std::string& path, Args args,
                        const std::vector<std::string>& with) {
  const Contract& contract = catalog().at(op);
  Bound sizes;
  complete(contract, args, sizes);
  add_weights(contract, path, sizes, with, args);
  const Bound parts = parts_of(contract.shard, sizes);
  for (Arg& arg : args) {
    const Slot* slot = contract.find(SectionId::init, arg.name);
    if (slot && contract.shard.count(slot->axis)) arg.value = parts.at(slot->axis).value();
  }
  for (const auto& slot : contract.section(SectionId::forward))
    if (!slot.state.empty() && !find_arg(args, slot.name))
      args.emplace_back(slot.name, state_of(slot, path, parts));
  add_outputs(contract, parts, args);
  const Expansion expansion = contract.level >= 3 ? find_expansion(op) : nullptr;
  if (!divided() || !expansion) return call(op, path, args);
  // A layer recorded as one call could not add up the shares of the layer before it. So its parts
  // are recorded.
  const Outputs outputs = Builder::call(op, path, args);
  const Call layer = take_last();
  expansion(*this, region(layer));
  return outputs;
}

}  // namespace fk
