// SPDX-License-Identifier: Apache-2.0
#include "core/deploy/shim/op_schema.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include "core/base/error.hpp"

namespace fk::shim {
namespace {

constexpr const char* kSectionNames[] = {"init", "weights", "forward", "plan"};
constexpr const char* kKindNames[] = {"tensor", "int",   "float", "bool",
                                      "enum",   "dtype", "ints",  "comm"};

// Splits at commas outside of parentheses.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> out;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    depth += (c == '(') - (c == ')');
    if (c == ',' && depth == 0) {
      out.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  if (!part.empty()) out.push_back(part);
  return out;
}

void read_pair(OpSlot& slot, const std::string& key, const std::string& value) {
  if (key == "shape") {
    for (const auto& dim : parts_of(value.substr(1, value.size() - 2)))
      slot.shape.push_back(Expr::parse(dim, slot.name));
  } else if (key == "enum") {
    slot.choices = parts_of(value);
  } else if (key == "default") {
    slot.number = std::strtod(value.c_str(), nullptr);
    slot.integer = std::strtoll(value.c_str(), nullptr, 10);
  } else if (key == "dtype") {
    slot.dtypes = parts_of(value);
  } else if (key == "axis") {
    slot.axis = value;
  } else if (key == "list") {
    slot.list = value;
  } else if (key == "group") {
    slot.group = value;
  }
}

OpSlot read_line(const char* line, Section section, int index) {
  std::istringstream words(line);
  std::string word, kind;
  words >> word >> kind;
  const auto dot = word.find('.');
  const auto* const end = std::end(kKindNames);
  const auto* const known = std::find(std::begin(kKindNames), end, kind);
  if (dot == std::string::npos || known == end)
    fail("contract", std::string("`") + line + "` is not a slot");
  OpSlot slot;
  slot.section = section;
  slot.index = index;
  slot.name = word.substr(dot + 1);
  slot.kind = static_cast<Kind>(known - std::begin(kKindNames));
  while (words >> word) {
    slot.out |= word == "out";
    slot.inout |= word == "inout";
    slot.optional |= word == "opt";
    slot.strided |= word == "strided";
    if (const auto equal = word.find('='); equal != std::string::npos)
      read_pair(slot, word.substr(0, equal), word.substr(equal + 1));
  }
  return slot;
}

int axis_of(OpSchema& schema, const std::string& letter) {
  const auto found = std::find(schema.axes.begin(), schema.axes.end(), letter);
  if (found == schema.axes.end()) {
    schema.axes.push_back(letter);
    schema.fixed.push_back(false);
    return static_cast<int>(schema.axes.size()) - 1;
  }
  return static_cast<int>(found - schema.axes.begin());
}

void number_axes(OpSchema& schema) {
  for (auto& section : schema.slots) {
    for (auto& slot : section) {
      if (slot.kind == Kind::integer)  // shapes may also name the slot itself: C/groups
        slot.axis_index = axis_of(schema, slot.axis.empty() ? slot.name : slot.axis);
      if (slot.kind == Kind::ints && slot.list.empty())
        for (const auto& letter : parts_of(slot.axis)) axis_of(schema, letter);
      for (const auto& dim : slot.shape) {
        slot.letters.push_back(dim.is_symbol() ? axis_of(schema, dim.text()) : -1);
        for (const auto& letter : dim.symbols()) axis_of(schema, letter);
      }
    }
  }
  for (const Section section : {Section::init, Section::weights}) {
    for (const auto& slot : schema.slots[static_cast<int>(section)]) {
      for (const auto& letter : parts_of(slot.axis))
        schema.fixed[static_cast<size_t>(axis_of(schema, letter))] = true;
      for (const auto& dim : slot.shape)
        for (const auto& letter : dim.symbols())
          schema.fixed[static_cast<size_t>(axis_of(schema, letter))] = true;
    }
  }
}

// Axes that required tensors give: alone in a dimension, or the only unknown of a dimension.
std::set<std::string> given_axes(const OpSchema& schema) {
  std::set<std::string> known;
  for (size_t before = ~size_t{0}; before != known.size();) {
    before = known.size();
    for (const Section section : {Section::weights, Section::forward}) {
      for (const auto& slot : schema.slots[static_cast<int>(section)]) {
        if (slot.kind != Kind::tensor || slot.out || slot.optional || !slot.list.empty()) continue;
        for (const auto& dim : slot.shape) {
          std::vector<std::string> open;
          for (const auto& letter : dim.symbols())
            if (!known.count(letter)) open.push_back(letter);
          if (open.size() == 1) known.insert(open[0]);
        }
      }
    }
  }
  return known;
}

std::vector<Argument> joined(std::initializer_list<const std::vector<Argument>*> lists) {
  std::vector<Argument> out;
  for (const auto* list : lists) out.insert(out.end(), list->begin(), list->end());
  return out;
}

void order_arguments(OpSchema& schema) {
  const auto& weights = schema.slots[1];
  const auto& forward = schema.slots[2];
  const auto given = given_axes(schema);
  std::set<std::string> known = given;
  std::vector<Argument> required, results, optional, keywords, results_as;
  for (const auto* section : {&forward, &weights}) {
    for (const auto& slot : *section) {
      if (slot.kind != Kind::tensor) continue;
      auto& place = slot.optional ? optional : slot.out ? results : required;
      place.push_back({Argument::Role::slot, &slot, slot.optional});
      if (slot.out && !slot.optional) schema.outs.push_back(&slot);
    }
  }
  for (const auto& slot : schema.slots[0]) {
    if (slot.kind == Kind::comm) schema.refused = "its ranks need a communicator";
    bool derived = slot.kind == Kind::integer && !slot.optional && given.count(slot.axis) > 0;
    for (const auto* section : {&forward, &weights})
      for (const auto& other : *section)
        derived |= !slot.optional && !slot.axis.empty() && other.list == slot.axis;
    for (const auto& letter : parts_of(slot.axis)) known.insert(letter);
    keywords.push_back({Argument::Role::slot, &slot, derived});
  }
  for (const auto& slot : forward)
    if (slot.kind != Kind::tensor) keywords.push_back({Argument::Role::slot, &slot, false});
  for (const auto* out : schema.outs) {
    if (!out->list.empty()) schema.refused = "it returns a list of tensors";
    for (const auto& dim : out->shape)
      for (const auto& letter : dim.symbols()) schema.allocates &= known.count(letter) > 0;
  }
  for (const auto* out : schema.outs)
    if (out->dtypes.size() > 1) results_as.push_back({Argument::Role::out_dtype, out, true});
  std::vector<Argument> updated, absent;  // optional tensors that are updated, and all others
  for (const auto& argument : optional)
    (argument.slot->inout ? updated : absent).push_back(argument);
  for (auto& argument : updated) argument.optional = false;
  if (schema.plans()) keywords.push_back({Argument::Role::planned, nullptr, false});
  schema.arguments = joined({&required, &absent, &keywords, &results_as});
  if (!updated.empty())
    schema.updating = joined({&required, &updated, &absent, &keywords, &results_as});
  schema.with_out = joined({&required, &results, &optional, &keywords});
}

std::string default_text(const OpSlot& slot) {
  switch (slot.kind) {
    case Kind::number: {
      char text[32];
      const auto end = std::to_chars(text, text + sizeof text, slot.number).ptr;  // the shortest
      const std::string out(text, end);
      return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
    }
    case Kind::boolean:
      return slot.integer ? "True" : "False";
    case Kind::choice:
      return "\"" + slot.choices.at(static_cast<size_t>(slot.integer)) + "\"";
    default:
      return std::to_string(slot.integer);
  }
}

std::string argument_text(const Argument& argument, size_t number) {
  if (argument.role == Argument::Role::planned) return "bool planned=False";
  const OpSlot& slot = *argument.slot;
  if (argument.role == Argument::Role::out_dtype) return "ScalarType? " + slot.name + "_dtype=None";
  constexpr const char* kTypes[] = {"Tensor", "int", "float", "bool", "str", "ScalarType", "int[]"};
  std::string type = kTypes[static_cast<int>(slot.kind)];
  if (slot.kind == Kind::tensor) {
    if (slot.out || slot.inout)
      type += "(" + std::string(1, static_cast<char>('a' + number)) + "!)";
    if (!slot.list.empty()) type += "[]";
  }
  if (argument.optional) return type + "? " + slot.name + "=None";
  if (slot.kind != Kind::tensor && slot.kind != Kind::ints && slot.optional)
    return type + " " + slot.name + "=" + default_text(slot);
  return type + " " + slot.name;
}

std::string arguments_text(const std::vector<Argument>& arguments, bool plan) {
  std::string text;
  bool keyword = false;
  size_t written = 0;
  for (const auto& argument : arguments) {
    if (plan && (argument.role != Argument::Role::slot || argument.slot->out)) continue;
    const bool tensor =
        argument.role == Argument::Role::slot && argument.slot->kind == Kind::tensor;
    if (!text.empty()) text += ", ";
    if (!tensor && !keyword) {
      text += "*, ";
      keyword = true;
    }
    text += argument_text(argument, written);
    written += tensor && (argument.slot->out || argument.slot->inout);
  }
  return text;
}

std::string results_text(const OpSchema& schema) {
  std::string results;
  for (size_t i = 0; i < schema.outs.size(); ++i) results += i ? ", Tensor" : "Tensor";
  return schema.outs.size() == 1 ? results : "(" + results + ")";
}

}  // namespace

const OpSlot* OpSchema::find(Section section, const std::string& field) const {
  for (const auto& slot : slots[static_cast<int>(section)])
    if (slot.name == field) return &slot;
  return nullptr;
}

OpSchema read_schema(const fk_op& op) {
  OpSchema schema;
  schema.op = &op;
  schema.name = op.contract->op;
  const fk_section* const sections[] = {&op.contract->init, &op.contract->weights,
                                        &op.contract->forward, &op.contract->plan};
  for (int s = 0; s < 4; ++s)
    for (uint32_t i = 0; i < sections[s]->slots; ++i)
      schema.slots[s].push_back(
          read_line(sections[s]->lines[i], static_cast<Section>(s), static_cast<int>(i)));
  number_axes(schema);
  order_arguments(schema);
  return schema;
}

std::string schema_text(const OpSchema& schema) {
  return schema.name + "(" + arguments_text(schema.arguments, false) + ") -> " +
         results_text(schema);
}

std::string update_schema_text(const OpSchema& schema) {
  return schema.name + ".update(" + arguments_text(schema.updating, false) + ") -> " +
         results_text(schema);
}

std::string out_schema_text(const OpSchema& schema) {
  return schema.name + ".out(" + arguments_text(schema.with_out, false) + ") -> ()";
}

std::string plan_schema_text(const OpSchema& schema) {
  return schema.name + "_plan(" + arguments_text(schema.arguments, true) + ") -> ()";
}

}  // namespace fk::shim
