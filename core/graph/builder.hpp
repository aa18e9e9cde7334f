// SPDX-License-Identifier: Apache-2.0
// Records graphs, for models and for blocks (decompositions of larger ops). They include no
// other header of core/graph.
//
//   Value x = b.input("ids", DType::i64, {b.axis("T")});
//   Value w = b.weight({.name = "model.norm.weight", .dtype = d, .shape = {C}, .mean = 1});
//   Value y = b.call("rms_norm", "model.norm", {{"hidden_size", C}, {"weight", w}, {"x", x}});
//
// The builder checks shapes, dtypes, layouts and presence against the contract when a call is
// recorded. A mistake is an Error with the path of the module and the name of the field.
#pragma once
#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "core/graph/graph.hpp"

namespace fk {

// A named argument of a call. It is an init value, a tensor, a list of tensors, or the bound of a
// forward scalar (an expression over the phase's axes). Init values are integers, booleans, floats,
// words of an enum, and integer lists. A communicator's value is its number of ranks.
struct Arg {
  std::string name;
  std::variant<int64_t, double, std::string, Value, std::vector<Value>, std::vector<int64_t>, Expr>
      value;
  Arg(std::string n, int v) : name(std::move(n)), value(static_cast<int64_t>(v)) {}
  Arg(std::string n, int64_t v) : name(std::move(n)), value(v) {}
  Arg(std::string n, bool v) : name(std::move(n)), value(static_cast<int64_t>(v)) {}
  Arg(std::string n, double v) : name(std::move(n)), value(v) {}
  Arg(std::string n, const char* v) : name(std::move(n)), value(std::string(v)) {}
  Arg(std::string n, std::string v) : name(std::move(n)), value(std::move(v)) {}
  Arg(std::string n, Value v) : name(std::move(n)), value(v) {}
  Arg(std::string n, std::vector<Value> v) : name(std::move(n)), value(std::move(v)) {}
  Arg(std::string n, std::vector<int64_t> v) : name(std::move(n)), value(std::move(v)) {}
  Arg(std::string n, Expr v) : name(std::move(n)), value(std::move(v)) {}
};
using Args = std::vector<Arg>;

// The outputs of call(), by field name. A single output converts to its value.
struct Outputs {
  std::vector<std::pair<std::string, Value>> fields;
  Value operator[](const std::string& name) const;
  operator Value() const;  // NOLINT: implicit on purpose
};

class Region;

class Builder {
 public:
  Builder(const Catalog& catalog, std::string phase, std::shared_ptr<WeightTable> weights);
  virtual ~Builder() = default;

  // A free axis of this phase; the engine gives its value per run, the session its maximum.
  Expr axis(const std::string& name);

  Value input(const std::string& name, DType dtype, Dims shape);
  Value weight(WeightSpec spec);
  // The same name in another phase is the same memory.
  Value state(const std::string& name, DType dtype, Dims shape);
  Value empty(DType dtype, Dims shape);  // content undefined until a call writes it
  Value zeros(DType dtype, Dims shape);  // zero at the start of every run

  // Views; no copy. slice keeps strides; reshape needs the axes that it merges or splits to be
  // dense.
  Value slice(Value v, int axis, Expr start, Expr length);
  Value reshape(Value v, Dims shape);
  Value permute(Value v, const std::vector<int>& axes);  // axis i of the view is axes[i] of v

  // Records a call. Absent optional fields are left out or given as Value{}. An integer of init
  // that is an axis may be left out where a given tensor has this axis. Output tensors that are not
  // given are made, with the shape from the contract. Their dtype is that of the field that the
  // contract names, else that of the first forward tensor where allowed.
  virtual Outputs call(const std::string& op, const std::string& path, const Args& args);

  void output(const std::string& name, Value v);
  // Makes the sum of `values`, as they are at this point, visible under a name to `verify` and to
  // tests.
  virtual void tap(const std::string& name, std::vector<Value> values);

  const Dims& shape(Value v) const { return graph_.info(v).shape; }
  DType dtype(Value v) const { return graph_.dtype(v); }
  const Catalog& catalog() const { return catalog_; }
  Graph finish() { return std::move(graph_); }

  // Takes back all calls and taps so far. A phase is recorded step by step, and then folded into
  // one call, whose decomposition records the same again. The values of the calls stay.
  std::vector<Call> take_back();
  // Takes back the last call, which must exist; taps stay.
  Call take_last();
  Region region(const Call& call) const;  // valid until something is recorded

 protected:
  const Graph& graph() const { return graph_; }

 private:
  friend Graph expand(const Catalog&, Graph, const Call&);
  Builder(const Catalog& catalog, Graph graph) : catalog_(catalog), graph_(std::move(graph)) {}
  Value add_value(int buffer, Dims shape);
  int add_buffer(Buffer buffer);
  const Catalog& catalog_;
  Graph graph_;
};

const Arg* find_arg(const Args& args, const std::string& name);  // null if there is none
// The axes that the tensors among the arguments have under a letter of the contract.
std::map<std::string, Expr> axes_of(const Builder& b, const Contract& contract, const Args& args);

// The arguments of a recorded L2 or L3 call, as its decomposition sees them.
class Region {
 public:
  Region(const Graph& graph, const Call& call) : graph_(&graph), call_(&call) {}
  const std::string& path() const { return call_->path; }
  int64_t integer(const std::string& init) const;
  bool flag(const std::string& init) const { return integer(init) != 0; }
  double number(const std::string& init) const;
  const std::vector<int64_t>& integers(const std::string& init) const;  // of an `ints` slot
  std::string choice(const std::string& init) const;
  bool has(const std::string& tensor) const { return !tensors(tensor).empty(); }
  Value operator[](const std::string& tensor) const;  // weights and forward; Value{} when absent
  // The entry of a list, or absent: a tensor that every layer has, or none.
  Value at(const std::string& list, int64_t entry) const;
  Expr scalar(const std::string& forward_scalar) const;
  // Records a part of the region at path() + `path`. Fields that `args` leave out have the value of
  // the region's field of that name. Exceptions: outputs, and sizes that given tensors have.
  Outputs call(Builder& b, const std::string& op, const std::string& path, Args args) const;

 private:
  const Slot& slot(const std::string& name, SlotKind kind) const;
  const std::vector<Value>& tensors(const std::string& name) const;
  const Graph* graph_;
  const Call* call_;
};

// The host's own decomposition of an op above L1 into lower ops. It must write every output of the
// region. It may tap values; these taps exist only where the decomposition runs.
using Expansion = void (*)(Builder&, const Region&);
// At file scope in baselines/blocks/<kind>/<op>.cpp: FK_BLOCK(gated_mlp, expand_gated_mlp);
struct BlockRegistration {
  BlockRegistration(const char* op, Expansion expansion);
};
Expansion find_expansion(const std::string& op);  // null if there is none
std::vector<std::string> expansion_names();
// Runs the decomposition of a call of `graph`. Returns the graph with the added values, and with
// the decomposition's calls in place of its own. Error if there is no decomposition, or it records
// nothing.
Graph expand(const Catalog& catalog, Graph graph, const Call& call);
#define FK_BLOCK(op, expansion) static const ::fk::BlockRegistration fk_block_##op(#op, expansion)

}  // namespace fk
