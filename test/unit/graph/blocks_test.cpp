// SPDX-License-Identifier: Apache-2.0
// If this fails, a decomposition does not fit the contract of its op. Every smoke case of every op
// with a decomposition is recorded, decomposed, and followed from inputs to outputs.
#include <set>

#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/graph/builder.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

namespace {

using fk::Args;
using fk::Builder;
using fk::Contract;
using fk::Expr;
using fk::SectionId;
using fk::Slot;
using fk::SlotKind;
using fk::Value;

using Axes = std::map<std::string, Expr>;

void add_init(Args& args, Axes& axes, const Slot& slot, const std::string* text) {
  if (slot.kind == SlotKind::integer) {
    const int64_t value = text ? std::stoll(*text) : slot.default_value.i;
    args.emplace_back(slot.name, value);
    axes[slot.name] = value;
    if (!slot.axis.empty()) axes[slot.axis] = value;
  } else if (slot.kind == SlotKind::boolean) {
    const bool value = text ? *text == "true" || *text == "1" : slot.default_value.i != 0;
    if (text) args.emplace_back(slot.name, value);
    axes[slot.name] = int64_t{value};
  } else if (text && slot.kind == SlotKind::number) {
    args.emplace_back(slot.name, std::stod(*text));
  } else if (text && slot.kind == SlotKind::choice) {
    args.emplace_back(slot.name, *text);
  } else if (text && slot.kind == SlotKind::ints) {
    std::vector<int64_t> values;
    for (const auto& word : fk::split(*text, ',')) values.push_back(std::stoll(word));
    const auto letters = slot.axis_names();
    for (size_t i = 0; i < std::min(letters.size(), values.size()); ++i)
      axes[letters[i]] = values[i];
    args.emplace_back(slot.name, values);
  }
}

bool present(const Slot& slot, const fk::Case& c) {
  if (!slot.optional) return true;
  for (const auto& with : c.with)
    if (with == slot.name || with == slot.group) return true;
  return false;
}

fk::DType dtype_of(const Contract& contract, const Slot& slot, const fk::Case& c) {
  if (!slot.dtype_of.empty()) return dtype_of(contract, contract.at(slot.dtype_of), c);
  const auto it = c.dtypes.find(slot.name);
  return it == c.dtypes.end() ? slot.dtypes.at(0) : it->second;
}

// The arguments of a case, made of inputs; the free axes stay symbols, as in a model.
Args arguments(Builder& b, const Contract& contract, const fk::Case& c) {
  Args args;
  Axes axes;
  for (const auto& slot : contract.section(SectionId::init)) {
    if (slot.kind == fk::SlotKind::comm) {
      axes[slot.axis] = c.axes.at(slot.axis);
      args.emplace_back(slot.name, c.axes.at(slot.axis));
      continue;
    }
    const auto it = c.init.find(slot.name);
    add_init(args, axes, slot, it == c.init.end() ? nullptr : &it->second);
  }
  for (const auto& [letter, value] : c.axes)
    if (!axes.count(letter)) axes[letter] = b.axis(letter);
  for (const auto id : {SectionId::weights, SectionId::forward}) {
    for (const auto& slot : contract.section(id)) {
      if (!slot.is_tensor()) {
        args.emplace_back(slot.name, Expr::parse(slot.expr, slot.name).substitute(axes));
        continue;
      }
      if (!present(slot, c)) continue;
      fk::Dims shape;
      for (const auto& dim : slot.shape) shape.push_back(dim.substitute(axes));
      const fk::DType type = dtype_of(contract, slot, c);
      if (slot.list.empty()) {
        args.emplace_back(slot.name, b.input(slot.name, type, shape));
        continue;
      }
      std::vector<Value> list;
      const int64_t entries = Expr::parse(slot.list, slot.name).substitute(axes).value();
      for (int64_t k = 0; k < entries; ++k)
        list.push_back(b.input(slot.name + "#" + std::to_string(k), type, shape));
      args.emplace_back(slot.name, list);
    }
  }
  return args;
}

int buffer_of(const fk::Graph& g, Value v) { return g.info(v).buffer; }

// The buffers that calls [first, end) write, and the inputs that they read.
struct Traffic {
  std::set<int> written, touched;
};
Traffic follow(const fk::Graph& g, size_t first) {
  Traffic t;
  for (size_t i = first; i < g.calls.size(); ++i) {
    const fk::Call& call = g.calls[i];
    for (const auto id : {SectionId::weights, SectionId::forward}) {
      const auto& fields = id == SectionId::weights ? call.weights : call.forward;
      for (const auto& slot : call.contract->section(id)) {
        for (const Value v : fields[static_cast<size_t>(slot.index)]) {
          const int buffer = buffer_of(g, v);
          const fk::Buffer& b = g.buffers[static_cast<size_t>(buffer)];
          const bool temp = b.kind == fk::BufferKind::temp && !b.zeroed;
          INFO(fk::Graph::label(call) << " reads `" << slot.name << "`, which nothing has written");
          if (temp && slot.role != fk::Role::out) CHECK(t.written.count(buffer) == 1);
          t.touched.insert(buffer);
          if (slot.role != fk::Role::in) t.written.insert(buffer);
        }
      }
    }
  }
  return t;
}

void check_expansion(const Contract& contract, const fk::Case& c) {
  // The same values are made twice, so that handles of the first graph hold in the second.
  Builder first(catalog(), "test", std::make_shared<fk::WeightTable>());
  first.call(contract.op, "block", arguments(first, contract, c));
  const fk::Graph recorded = first.finish();
  Builder second(catalog(), "test", std::make_shared<fk::WeightTable>());
  arguments(second, contract, c);
  fk::find_expansion(contract.op)(second, fk::Region(recorded, recorded.calls[0]));
  const fk::Graph g = second.finish();

  const Traffic traffic = follow(g, 0);
  for (const auto& call : g.calls) CHECK(call.contract->level <= contract.level);
  for (const auto& [name, value] : g.inputs) {
    const Slot& slot = contract.at(name.substr(0, name.find('#')));
    INFO("field `" << name << "`");
    CHECK(traffic.touched.count(buffer_of(g, value)) == 1);
    CHECK((traffic.written.count(buffer_of(g, value)) == 1) == (slot.role != fk::Role::in));
  }
}

}  // namespace

TEST_CASE("blocks_use_every_field_and_write_every_output") {
  const auto names = fk::expansion_names();
  CHECK(names.size() >= 10);
  for (const auto& op : names) {
    const Contract& contract = catalog().at(op);
    int cases = 0;
    for (const auto& c : contract.cases) {
      if (c.size != "smoke") continue;
      INFO(op << ", " << c.name << " at " << c.where);
      check_expansion(contract, c);
      ++cases;
    }
    CHECK(cases > 0);
  }
}

TEST_CASE("blocks_exist_for_every_op_above_the_first_level") {
  for (const auto& op : catalog().ops()) {
    INFO(op);
    CHECK((fk::find_expansion(op) != nullptr) == (catalog().at(op).level > 1));
  }
}
