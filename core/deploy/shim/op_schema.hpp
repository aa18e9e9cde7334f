// SPDX-License-Identifier: Apache-2.0
// An op of a plugin as torch sees it: its arguments in order, and its schema. Everything comes from
// the slots' lines inside the plugin, so the shim has no list of ops.
//
//   fk::rms_norm(Tensor x, Tensor? weight=None, *, int? hidden_size=None, float eps=1e-06) ->
//   Tensor fk::rms_norm.update(Tensor x, Tensor(a!) residual, Tensor? weight=None, *, ...) ->
//   Tensor
//
// Tensors come first: required ones of forward and weights, then optional ones. Constructor values
// and bounds are keywords. An init value that names an axis may be left out if shapes give it.
//
// Overloads. `update` has the optional tensors that are updated in place: inductor of torch 2.15
// fails on such an argument if it is absent. `out` has the outputs as arguments and returns
// nothing. An op with plan() also has `<op>_plan`, with the same arguments.
#pragma once
#include <string>
#include <vector>

#include "core/contract/expr.hpp"
#include "fk/plugin.h"

namespace fk::shim {

enum class Kind { tensor, integer, number, boolean, choice, dtype, ints, comm };
enum class Section { init, weights, forward, plan };

struct OpSlot {
  Section section{};
  int index = 0;  // in its section
  std::string name;
  Kind kind = Kind::tensor;
  bool out = false, inout = false, optional = false, strided = false;
  std::vector<Expr> shape;
  std::vector<int> letters;         // per dimension: its axis, or -1 for an expression
  std::vector<std::string> dtypes;  // allowed ones, or the field whose dtype it has
  std::string axis, list, group;
  int axis_index = -1;  // integers: the axis whose value it is
  std::vector<std::string> choices;
  double number = 0;  // the default
  int64_t integer = 0;
};

// One argument of the schema.
struct Argument {
  enum class Role { slot, out_dtype, planned };
  Role role = Role::slot;
  const OpSlot* slot = nullptr;
  bool optional = false;  // `?` in the schema
};

struct OpSchema {
  const fk_op* op = nullptr;
  std::string name;
  std::vector<OpSlot> slots[4];     // by section
  std::vector<std::string> axes;    // letters, in the order of OpSlot::letters
  std::vector<bool> fixed;          // per axis: init or a weight gives it
  bool allocates = true;            // all shapes of outputs follow from the arguments
  std::string refused;              // why torch cannot have the op; empty: it can
  std::vector<Argument> arguments;  // of the overload that allocates
  std::vector<Argument> updating;   // of the overload `update`; empty: there is none
  std::vector<Argument> with_out;   // of the overload `out`
  std::vector<const OpSlot*> outs;  // returned ones

  bool plans() const { return op->plan_or_null != nullptr; }
  const OpSlot* find(Section section, const std::string& field) const;
};

// Reads the lines of the op's contract. Error for a line that is no slot.
OpSchema read_schema(const fk_op& op);
// "name(...) -> ..." of the op, of its overloads, and of its plan.
std::string schema_text(const OpSchema& schema);
std::string update_schema_text(const OpSchema& schema);
std::string out_schema_text(const OpSchema& schema);
std::string plan_schema_text(const OpSchema& schema);

}  // namespace fk::shim
