// SPDX-License-Identifier: Apache-2.0
// Records axes, buffers and views of a graph (builder.hpp). call() is in call.cpp.
#include "core/graph/builder.hpp"

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

std::vector<int64_t> WeightSpec::local_shape() const {
  std::vector<int64_t> local = shape;
  for (const auto& cut : cuts) {
    int64_t length = 0;
    for (const auto& piece : cut.pieces) length += piece.length;
    local[static_cast<size_t>(cut.axis)] = length;
  }
  return local;
}

int WeightTable::add(WeightSpec spec) {
  if (spec.parts.empty()) spec.parts = {{spec.name}};
  const auto it = by_name_.find(spec.name);
  if (it != by_name_.end()) {
    const WeightSpec& known = specs_[static_cast<size_t>(it->second)];
    if (known.shape != spec.shape || known.dtype != spec.dtype ||
        known.local_shape() != spec.local_shape()) {
      fail("weight " + spec.name, "it was declared before with another shape or dtype");
    }
    return it->second;
  }
  const int index = static_cast<int>(specs_.size());
  by_name_[spec.name] = index;
  specs_.push_back(std::move(spec));
  return index;
}

int64_t WeightTable::bytes() const {
  int64_t total = 0;
  for (const auto& spec : specs_) {
    int64_t n = 1;
    for (const int64_t d : spec.local_shape()) n *= d;
    total += n * fk::bytes(spec.dtype);
  }
  return total;
}

Value Outputs::operator[](const std::string& name) const {
  for (const auto& [field, value] : fields)
    if (field == name) return value;
  fail("graph", "the call has no output `" + name + "`");
}
Outputs::operator Value() const {
  if (fields.size() != 1)
    fail("graph", "the call has " + std::to_string(fields.size()) + " outputs: name one");
  return fields[0].second;
}

Builder::Builder(const Catalog& catalog, std::string phase, std::shared_ptr<WeightTable> weights)
    : catalog_(catalog) {
  graph_.phase = std::move(phase);
  graph_.weights = std::move(weights);
}

Expr Builder::axis(const std::string& name) {
  if (std::find(graph_.axes.begin(), graph_.axes.end(), name) == graph_.axes.end())
    graph_.axes.push_back(name);
  return Expr::symbol(name);
}

int Builder::add_buffer(Buffer buffer) {
  graph_.buffers.push_back(std::move(buffer));
  return static_cast<int>(graph_.buffers.size()) - 1;
}

Value Builder::add_value(int buffer, Dims shape) {
  ValueInfo info;
  info.buffer = buffer;
  info.strides.resize(shape.size());
  Expr step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    info.strides[i] = step;
    step = step * shape[i];
  }
  info.shape = std::move(shape);
  graph_.values.push_back(std::move(info));
  return Value{static_cast<int>(graph_.values.size()) - 1};
}

Value Builder::input(const std::string& name, DType dtype, Dims shape) {
  if (const auto it = graph_.inputs.find(name); it != graph_.inputs.end()) return it->second;
  const Value v = add_value(
      add_buffer({BufferKind::input, name, dtype, shape, /*weight=*/-1, /*zeroed=*/false}), shape);
  graph_.inputs[name] = v;
  return v;
}

Value Builder::weight(WeightSpec spec) {
  Dims shape;
  for (const int64_t d : spec.local_shape()) shape.emplace_back(d);
  Buffer buffer{BufferKind::weight, spec.name, spec.dtype, shape, /*weight=*/-1, /*zeroed=*/false};
  buffer.weight = graph_.weights->add(std::move(spec));
  return add_value(add_buffer(std::move(buffer)), std::move(shape));
}

Value Builder::state(const std::string& name, DType dtype, Dims shape) {
  return add_value(
      add_buffer({BufferKind::state, name, dtype, shape, /*weight=*/-1, /*zeroed=*/false}), shape);
}
Value Builder::empty(DType dtype, Dims shape) {
  return add_value(
      add_buffer({BufferKind::temp, "", dtype, shape, /*weight=*/-1, /*zeroed=*/false}), shape);
}
Value Builder::zeros(DType dtype, Dims shape) {
  return add_value(add_buffer({BufferKind::temp, "", dtype, shape, /*weight=*/-1, /*zeroed=*/true}),
                   shape);
}

Value Builder::slice(Value v, int axis, Expr start, Expr length) {
  ValueInfo info = graph_.info(v);
  const auto a = static_cast<size_t>(axis < 0 ? axis + static_cast<int>(info.shape.size()) : axis);
  if (a >= info.shape.size()) fail("graph", "slice of an axis that the tensor does not have");
  info.offset = info.offset + start * info.strides[a];
  info.shape[a] = std::move(length);
  graph_.values.push_back(std::move(info));
  return Value{static_cast<int>(graph_.values.size()) - 1};
}

Value Builder::permute(Value v, const std::vector<int>& axes) {
  const ValueInfo& from = graph_.info(v);
  std::vector<bool> seen(from.shape.size(), false);
  ValueInfo info{from.buffer, {}, {}, from.offset};
  for (const int axis : axes) {
    const auto a = static_cast<size_t>(axis);
    if (a >= seen.size() || seen[a]) fail("graph", "permute of axes that are not each there once");
    seen[a] = true;
    info.shape.push_back(from.shape[a]);
    info.strides.push_back(from.strides[a]);
  }
  if (axes.size() != seen.size()) fail("graph", "permute leaves axes out");
  graph_.values.push_back(std::move(info));
  return Value{static_cast<int>(graph_.values.size()) - 1};
}

Value Builder::reshape(Value v, Dims shape) {
  const ValueInfo& from = graph_.info(v);
  ValueInfo info;
  info.buffer = from.buffer;
  info.offset = from.offset;
  // Axes are matched from the left; the remaining axes on both sides must be one dense block.
  size_t same = 0;
  while (same < shape.size() && same < from.shape.size() && shape[same] == from.shape[same]) ++same;
  Expr rest_old = 1, rest_new = 1, step = from.shape.empty() ? Expr(1) : from.strides.back();
  for (size_t i = from.shape.size(); i-- > same;) {
    if (!(from.strides[i] == rest_old * from.strides.back()))
      fail("graph", "reshape of axes that are not dense");
    rest_old = rest_old * from.shape[i];
  }
  for (size_t i = same; i < shape.size(); ++i) rest_new = rest_new * shape[i];
  if (rest_old.is_constant() && rest_new.is_constant() && rest_old.value() != rest_new.value()) {
    fail("graph", "reshape from " + rest_old.text() + " to " + rest_new.text() + " elements");
  }
  info.strides.assign(from.strides.begin(),
                      from.strides.begin() + static_cast<std::ptrdiff_t>(same));
  info.strides.resize(shape.size());
  for (size_t i = shape.size(); i-- > same;) {
    info.strides[i] = step;
    step = step * shape[i];
  }
  info.shape = std::move(shape);
  graph_.values.push_back(std::move(info));
  return Value{static_cast<int>(graph_.values.size()) - 1};
}

void Builder::output(const std::string& name, Value v) {
  // Engines read an output as one block.
  const ValueInfo& info = graph_.info(v);
  Expr dense = 1;
  for (size_t i = info.shape.size(); i-- > 0; dense = dense * info.shape[i])
    if (!(info.shape[i] == Expr(1)) && !(info.strides[i] == dense))
      fail("output `" + name + "`",
           "axis " + std::to_string(i) + " has the stride " + info.strides[i].text() + " and not " +
               dense.text() + ", so it is no dense tensor",
           "copy the view by an op, for example transpose or gather_rows");
  graph_.outputs[name] = v;
}
void Builder::tap(const std::string& name, std::vector<Value> values) {
  graph_.taps.push_back({name, std::move(values), graph_.calls.size()});
}

std::vector<Call> Builder::take_back() {
  graph_.taps.clear();
  return std::exchange(graph_.calls, {});
}
Call Builder::take_last() {
  FK_CHECK(!graph_.calls.empty(), "there is no call to take back");
  Call last = std::move(graph_.calls.back());
  graph_.calls.pop_back();
  return last;
}
Region Builder::region(const Call& call) const { return Region(graph_, call); }

const Slot& Region::slot(const std::string& name, SlotKind kind) const {
  const Slot& s = call_->contract->at(name);
  if (s.kind != kind) fail(Graph::label(*call_), "`" + name + "` is of another type");
  return s;
}
int64_t Region::integer(const std::string& init) const {
  const Slot& s = call_->contract->at(init);
  if (s.kind == SlotKind::number || s.is_tensor())
    fail(Graph::label(*call_), "`" + init + "` is no integer");
  return call_->init[static_cast<size_t>(s.index)].i;
}
double Region::number(const std::string& init) const {
  return call_->init[static_cast<size_t>(slot(init, SlotKind::number).index)].f;
}
const std::vector<int64_t>& Region::integers(const std::string& init) const {
  return call_->init_lists[static_cast<size_t>(slot(init, SlotKind::ints).index)];
}
std::string Region::choice(const std::string& init) const {
  const Slot& s = slot(init, SlotKind::choice);
  return s.choices[static_cast<size_t>(call_->init[static_cast<size_t>(s.index)].i)];
}
Value Region::operator[](const std::string& tensor) const {
  if (!slot(tensor, SlotKind::tensor).list.empty())
    fail(Graph::label(*call_), "`" + tensor + "` is a list");
  const auto& values = tensors(tensor);
  return values.empty() ? Value{} : values[0];
}
Value Region::at(const std::string& list, int64_t entry) const {
  const auto& values = tensors(list);
  if (values.empty()) return Value{};
  if (entry < 0 || entry >= static_cast<int64_t>(values.size()))
    fail(Graph::label(*call_), "`" + list + "` has no entry " + std::to_string(entry));
  return values[static_cast<size_t>(entry)];
}
const std::vector<Value>& Region::tensors(const std::string& name) const {
  const Slot& s = slot(name, SlotKind::tensor);
  return (s.section == SectionId::weights ? call_->weights
                                          : call_->forward)[static_cast<size_t>(s.index)];
}
Expr Region::scalar(const std::string& forward_scalar) const {
  return call_->scalars[static_cast<size_t>(call_->contract->at(forward_scalar).index)];
}

namespace {
std::map<std::string, Expansion>& expansions() {
  static auto* map = new std::map<std::string, Expansion>;
  return *map;
}
}  // namespace
BlockRegistration::BlockRegistration(const char* op, Expansion expansion) {
  expansions()[op] = expansion;
}
Expansion find_expansion(const std::string& op) {
  const auto it = expansions().find(op);
  return it == expansions().end() ? nullptr : it->second;
}
Graph expand(const Catalog& catalog, Graph graph, const Call& call) {
  const Expansion expansion = find_expansion(call.contract->op);
  if (!expansion) fail(Graph::label(call), "the op has no decomposition");
  graph.calls.clear();
  graph.taps.clear();
  Builder builder(catalog, std::move(graph));
  // Handles in the region stay valid, because the decomposition appends to the graph that they
  // refer to.
  expansion(builder, Region(builder.graph_, call));
  if (builder.graph_.calls.empty()) fail(Graph::label(call), "its decomposition recorded nothing");
  return builder.finish();
}
std::vector<std::string> expansion_names() {
  std::vector<std::string> names;
  for (const auto& [name, expansion] : expansions()) names.push_back(name);
  return names;
}

}  // namespace fk
