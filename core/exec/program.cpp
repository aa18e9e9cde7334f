// SPDX-License-Identifier: Apache-2.0
// Runs the nodes of one phase. New values of the axes change the views that depend on them. A run
// also makes one plan for each group of equal nodes. Frames never change after set_memory().
#include "core/exec/program.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/graph/memory_plan.hpp"

namespace fk {

// Bytes of the staging memory: frequent downloads are at most this large.
static constexpr int64_t kStaged = int64_t{1} << 16;

int64_t Program::fetch(const std::string&, int64_t) {
  FK_CHECK(false, "fetch() of a program that does not run ahead");
}
const void* Program::fetched(int64_t) {
  FK_CHECK(false, "fetched() of a program that does not run ahead");
}
void Program::feed_tokens(const std::string&, const std::string&, int64_t, int64_t) {
  FK_CHECK(false, "feed_tokens() of a program that does not run ahead");
}

RunError::RunError(std::string path_, std::string op_, std::string provider_, std::string text)
    : Error(path_, op_ + "@" + provider_ + ": " + text),
      path(std::move(path_)),
      op(std::move(op_)),
      provider(std::move(provider_)) {}

PhaseProgram::PhaseProgram(std::unique_ptr<Lowered> lowered, Axes limits, Device& device)
    : lowered_(std::move(lowered)),
      limits_(std::move(limits)),
      device_(device),
      expressions_(lowered_->graph.axes) {
  for (const auto& name : lowered_->graph.axes) axis_values_.push_back(limits_.at(name));
  for (const auto& node : lowered_->nodes) {
    infos_.push_back({node.call.path, node.call.contract->op, node.provider->plugin,
                      node.call.contract->level, node.refusals, node.frames, node.call.contract});
  }
  // In "decode" each request has one token, and captured steps may rely on it.
  const int32_t least =
      lowered_->graph.phase == "decode" ? FK_GRAPH_UNIFORM_DECODE : FK_GRAPH_ALWAYS;
  for (auto& node : lowered_->nodes)
    for (StepBound& when : node.when) when.value = expressions_.add(when.of);
  active_.assign(lowered_->nodes.size(), true);
  capturable_ = std::all_of(lowered_->nodes.begin(), lowered_->nodes.end(), [&](const Node& node) {
    return node.provider->op->claims->graph >= least;
  });
  plan_arena();
}

int64_t PhaseProgram::size_at_limits(const Buffer& buffer) const {
  int64_t n = bytes(buffer.dtype);
  for (const auto& dim : buffer.shape) n *= dim.eval(limits_);
  return n;
}

// A temp lives from the first to the last node with any view of it. Zeroed values, taps and outputs
// live longer.
void PhaseProgram::plan_arena() {
  const Graph& g = lowered_->graph;
  const int count = static_cast<int>(lowered_->nodes.size());
  std::vector<Life> lives(g.buffers.size(), Life{0, count, -1});
  const auto use = [&](Value v, int node) {
    Life& life = lives[static_cast<size_t>(g.info(v).buffer)];
    life.first = std::min(life.first, node);
    life.last = std::max(life.last, node);
  };
  for (int i = 0; i < count; ++i) {
    const Call& call = lowered_->nodes[static_cast<size_t>(i)].call;
    for (const auto& values : call.forward)
      for (const Value v : values) use(v, i);
  }
  for (const auto& tap : lowered_->taps)
    for (const Value v : tap.values) use(v, static_cast<int>(tap.before));
  for (const auto& [name, v] : g.outputs) use(v, count);
  std::vector<Life> temps;
  std::vector<size_t> which;
  for (size_t i = 0; i < g.buffers.size(); ++i) {
    if (g.buffers[i].kind != BufferKind::temp || lives[i].last < 0) continue;
    if (g.buffers[i].zeroed) lives[i].first = 0;
    lives[i].bytes = size_at_limits(g.buffers[i]);
    temps.push_back(lives[i]);
    which.push_back(i);
  }
  const MemoryPlan plan = plan_memory(temps);
  arena_offsets_.assign(g.buffers.size(), -1);
  for (size_t i = 0; i < which.size(); ++i) arena_offsets_[which[i]] = plan.offsets[i];
  arena_bytes_ = plan.bytes;
}

int64_t PhaseProgram::scratch_bytes() const {
  int64_t most = 0;
  for (const auto& node : lowered_->nodes) most = std::max(most, node.need.scratch);
  return most;
}
int64_t PhaseProgram::persistent_bytes() const {
  int64_t sum = 0;
  for (const auto& node : lowered_->nodes) sum += node.need.persistent;
  return sum;
}
std::map<std::string, int64_t> PhaseProgram::state_bytes() const {
  std::map<std::string, int64_t> sizes;
  for (const auto& b : lowered_->graph.buffers) {
    if (b.kind == BufferKind::state) sizes[b.name] = std::max(sizes[b.name], size_at_limits(b));
  }
  return sizes;
}

void PhaseProgram::set_weights(const SharedBlocks& blocks) {
  const Graph& g = lowered_->graph;
  for (size_t i = 0; i < g.values.size(); ++i) {
    const Buffer& b = g.buffers[static_cast<size_t>(g.values[i].buffer)];
    if (b.kind != BufferKind::weight) continue;
    lowered_->views[i].view.data = blocks.weights[static_cast<size_t>(b.weight)] +
                                   g.values[i].offset.eval(limits_) * bytes(b.dtype);
  }
}

void PhaseProgram::make_instances(const InstanceServices& services) {
  for (const auto& node : lowered_->nodes) {
    try {
      instances_.push_back(
          std::make_unique<Instance>(*node.provider, node.frames, node.need, services));
    } catch (const Error& e) {
      throw RunError(node.call.path, node.call.contract->op, node.provider->plugin, e.what_text());
    }
    frames_.push_back(instances_.back()->fitted(SectionId::forward, node.frames.forward));
  }
}

std::byte* PhaseProgram::buffer_data(int buffer, const SharedBlocks& blocks) const {
  const Buffer& b = lowered_->graph.buffers[static_cast<size_t>(buffer)];
  switch (b.kind) {
    case BufferKind::weight:
      return blocks.weights[static_cast<size_t>(b.weight)];
    case BufferKind::state:
      return blocks.states.at(b.name);
    case BufferKind::temp: {
      const int64_t offset = arena_offsets_[static_cast<size_t>(buffer)];
      return offset < 0 ? nullptr : blocks.arena + offset;
    }
    case BufferKind::input:
      break;
  }
  const int part = input_memory_->find(b.name);
  return part < 0 ? nullptr : input_memory_->device(part);
}

int PhaseProgram::bytes_value(const Buffer& buffer) {
  Expr n = bytes(buffer.dtype);
  for (const auto& dim : buffer.shape) n = n * dim;
  return expressions_.add(n);
}

void PhaseProgram::set_memory(const SharedBlocks& blocks, const PhaseProgram* larger) {
  const Graph& g = lowered_->graph;
  const auto buffer_of = [&](Value v) -> const Buffer& {
    return g.buffers[static_cast<size_t>(g.info(v).buffer)];
  };
  if (larger) {
    input_memory_ = larger->input_memory_;
  } else {
    std::vector<InputMemory::Part> parts;
    for (const auto& [name, v] : g.inputs) parts.push_back({name, size_at_limits(buffer_of(v))});
    input_memory_ = std::make_shared<InputMemory>(device_, parts);
  }
  for (const auto& [name, v] : g.inputs)
    inputs_.push_back({name, input_memory_->find(name), bytes_value(buffer_of(v))});
  input_bytes_.assign(input_memory_->size(), 0);
  staging_ = HostMemory(device_, kStaged);
  for (size_t i = 0; i < g.buffers.size(); ++i) {
    if (!g.buffers[i].zeroed || arena_offsets_[i] < 0) continue;
    zeroed_.push_back({blocks.arena + arena_offsets_[i], bytes_value(g.buffers[i])});
  }
  for (size_t i = 0; i < g.values.size(); ++i) {
    const ValueInfo& info = g.values[i];
    const DType dtype = g.buffers[static_cast<size_t>(info.buffer)].dtype;
    if (std::byte* data = buffer_data(info.buffer, blocks)) {
      const Expr start = info.offset * bytes(dtype);
      if (start.is_constant())
        lowered_->views[i].view.data = data + start.value();
      else
        starts_.push_back({&lowered_->views[i].view, data, expressions_.add(start), i});
    }
  }
  for (size_t i = 0; i < lowered_->host_views.size(); ++i) {
    const Value v{lowered_->host_view_values[i]};
    const std::string& name = g.buffers[static_cast<size_t>(g.info(v).buffer)].name;
    lowered_->host_views[i].view.data = input(name);
  }
  for (size_t i = 0; i < g.values.size(); ++i) need_alignment(*lowered_, i);
  make_patches();
  make_groups();
  for (size_t i = 0; i < instances_.size(); ++i) {
    contexts_.push_back({FK_END(fk_ctx, error), device_.id(), device_.stream(), blocks.scratch,
                         blocks.scratch_bytes, /*plan=*/nullptr, 0, /*error=*/nullptr});
  }
}

void PhaseProgram::patch_view(ViewStore& store, const ValueInfo& info, DType dtype) {
  Expr reach = 1, count = 1;
  bool free = false;
  for (size_t d = 0; d < info.shape.size(); ++d) {
    reach = reach + (info.shape[d] - 1) * info.strides[d];
    count = count * info.shape[d];
    if (!info.shape[d].is_constant()) {
      patches_.push_back({&store.dims[d], expressions_.add(info.shape[d])});
      free = true;
    }
    if (!info.strides[d].is_constant())
      patches_.push_back({&store.dims[8 + d], expressions_.add(info.strides[d])});
  }
  if (!free) return;
  // For an empty tensor min(count, 1) is 0, else 1.
  const Expr size = Expr::max(reach, 0) * Expr::min(count, 1) * bytes(dtype);
  patches_.push_back({&store.view.nbytes, expressions_.add(size)});
}

void PhaseProgram::make_patches() {
  const Graph& g = lowered_->graph;
  for (size_t i = 0; i < g.values.size(); ++i)
    patch_view(lowered_->views[i], g.values[i], g.dtype(Value{static_cast<int>(i)}));
  for (size_t i = 0; i < lowered_->host_views.size(); ++i) {
    const Value v{lowered_->host_view_values[i]};
    patch_view(lowered_->host_views[i], g.info(v), g.dtype(v));
  }
  values_.resize(expressions_.size());
}

// Instances with equal provider, constructor and plan inputs plan together: 32 layers, one call.
// Instances with children to plan for are excluded.
void PhaseProgram::make_groups() {
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < instances_.size(); ++i) {
    const Node& node = lowered_->nodes[i];
    if (!instances_[i]->has_plan()) continue;
    std::string key = node.provider->plugin + "|" + node.call.contract->op;
    for (const auto& slot : node.frames.init) key += "," + std::to_string(slot.i);
    for (const auto& slot : node.frames.plan) key += ";" + std::to_string(slot.i);
    key += "#" + std::to_string(node.need.plan);
    if (!instances_[i]->plans_for_others()) key += "@" + std::to_string(i);
    const auto [it, fresh] = known.try_emplace(key, groups_.size());
    if (fresh) {
      PlanGroup& group = groups_.emplace_back();
      group.leader = instances_[i].get();
      group.frame = instances_[i]->fitted(SectionId::plan, node.frames.plan);
      group.blob.resize(static_cast<size_t>(node.need.plan) + 1);  // + 1: never empty
      if (!device_.host_memory()) group.device = DeviceMemory(device_, node.need.plan, "a plan");
    }
    groups_[it->second].nodes.push_back(i);
  }
}

void PhaseProgram::reset_instances() {
  for (auto& instance : instances_) instance->reset();
}

int PhaseProgram::axis(const std::string& name) const {
  const auto& axes = lowered_->graph.axes;
  const auto it = std::find(axes.begin(), axes.end(), name);
  return it == axes.end() ? -1 : static_cast<int>(it - axes.begin());
}
int64_t PhaseProgram::limit(const std::string& axis) const {
  const auto it = limits_.find(axis);
  if (it == limits_.end())
    fail(lowered_->graph.phase, "the phase has no axis `" + axis + "`",
         did_you_mean(axis, lowered_->graph.axes));
  return it->second;
}
void PhaseProgram::bind(int axis, int64_t value) {
  const auto at = static_cast<size_t>(axis);
  FK_CHECK(axis >= 0 && at < axis_values_.size(), "bind() of an axis that the phase does not have");
  const std::string& name = lowered_->graph.axes[at];
  if (value < 0 || value > limits_.at(name)) {
    fail(lowered_->graph.phase, "axis " + name + " = " + std::to_string(value) + " is outside 0.." +
                                    std::to_string(limits_.at(name)));
  }
  dirty_ |= axis_values_[at] != value;
  axis_values_[at] = value;
}
void* PhaseProgram::input(const std::string& name) {
  const int part = input_memory_->find(name);
  return part < 0 ? nullptr : input_memory_->host(part);
}

void PhaseProgram::node_failed(size_t node) {
  const NodeInfo& info = infos_[node];
  const fk_error& error = instances_[node]->error();
  throw RunError(info.path, info.op, info.provider,
                 error.text[0] ? error.text : "failed without a reason");
}

// A call may have several nodes by size. Activates the node for the bound sizes.
void PhaseProgram::choose_nodes() {
  const auto holds = [&](const StepBound& when) {
    return when.bound.holds(values_[static_cast<size_t>(when.value)]);
  };
  const auto& nodes = lowered_->nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    bool found = false;
    for (const size_t last = i + nodes[i].others; i < last; found |= active_[i++])
      active_[i] = !found && std::ranges::all_of(nodes[i].when, holds);
    active_[i] = !found;
  }
}

void PhaseProgram::run_plans() {
  for (auto& group : groups_) {
    if (std::ranges::none_of(group.nodes, [&](size_t node) { return active_[node]; })) continue;
    auto bytes = static_cast<int64_t>(group.blob.size()) - 1;
    if (group.leader->plan(group.frame.data(), group.blob.data(), &bytes) != FK_OK) {
      const NodeInfo& info = infos_[group.nodes[0]];
      throw RunError(info.path, info.op, info.provider,
                     std::string("plan: ") + group.leader->error().text);
    }
    const void* data = group.blob.data();
    if (!device_.host_memory()) {
      device_.upload(group.device.data(), group.blob.data(), bytes);
      data = group.device.data();
    }
    for (const size_t node : group.nodes) {
      contexts_[node].plan = data;
      contexts_[node].plan_bytes = bytes;
    }
  }
}

// Enqueues the whole step after its inputs.
void PhaseProgram::enqueue() {
  const bool capturing = captures();
  for (const auto& z : zeroed_)
    device_.fill_zero(z.data, values_[static_cast<size_t>(z.bytes_value)]);
  size_t tap = 0;
  const auto& taps = lowered_->taps;
  if (watch_) watch_->step();
  for (size_t i = 0; i < instances_.size(); ++i) {
    if (taps_)
      for (; tap < taps.size() && taps[tap].before <= i; ++tap) read_tap(taps[tap]);
    if (!active_[i]) continue;
    if (marker_) *marker_ = static_cast<int32_t>(i);
    if (watch_) watch_->before(infos_[i]);
    if (capturing) {
      const bool candidate = lowered_->nodes[i].provider->trust == Trust::candidate;
      device_.mark_capture(infos_[i].op + " (" + infos_[i].path + ", " + infos_[i].provider + ")",
                           candidate, candidate ? instances_[i]->side_streams() : kAnyStreams);
    }
    if (instances_[i]->forward(frames_[i].data(), contexts_[i]) != FK_OK) node_failed(i);
    if (watch_) watch_->after(infos_[i]);
    if (capturing && !device_.capture_is_whole()) {
      const NodeInfo& info = infos_[i];
      throw RunError(
          info.path, info.op, info.provider,
          "claims that it can be captured, but made a call that a CUDA graph cannot contain");
    }
  }
  if (taps_)
    for (; tap < taps.size(); ++tap) read_tap(taps[tap]);
}

bool PhaseProgram::captures() const {
  return capturable_ && graphs_ && !taps_ && !watch_ && device_.can_capture();
}

void PhaseProgram::run_captured() {
  constexpr size_t kMost = 512;  // captured steps; beyond it all are dropped
  if (captured_.size() >= kMost) captured_.clear();
  Captured& entry = captured_[axis_values_];
  if (!entry.work && !entry.seen) {
    // The first run is eager, because most bindings of a prefill come only once.
    entry.seen = true;
    const bool graphs = std::exchange(graphs_, false);
    enqueue();
    graphs_ = graphs;
    return;
  }
  if (!entry.work) {
    device_.begin_capture();
    try {
      enqueue();
    } catch (...) {
      try {
        device_.end_capture();
      } catch (const Error&) {  // the first error is reported
      }
      throw;
    }
    entry.work = device_.end_capture();
  }
  device_.launch(entry.work.get());
}

void PhaseProgram::run() {
  if (dirty_) {
    expressions_.run(axis_values_.data(), values_.data());
    for (const Patch& p : patches_) *p.target = values_[static_cast<size_t>(p.value)];
    for (const Start& s : starts_) s.view->data = s.base + values_[static_cast<size_t>(s.value)];
    for (const Start& s : starts_) need_alignment(*lowered_, s.of);
    choose_nodes();
    dirty_ = false;
  }
  if (!device_.host_memory()) {
    for (const auto& input : inputs_)
      input_bytes_[static_cast<size_t>(input.part)] =
          values_[static_cast<size_t>(input.bytes_value)];
    input_memory_->upload(input_bytes_);
    device_.uploads_enqueued();
  }
  if (const Feed feed = std::exchange(feed_, {}); feed.part >= 0) {
    auto* const to = reinterpret_cast<int64_t*>(input_memory_->device(feed.part));
    device_.copy_tokens(to, feed.from, feed.count, feed.vocab_size);
    input_memory_->overwritten(feed.part);
  }
  run_plans();
  captures() ? run_captured() : enqueue();
  device_.wait_for_uploads();
  ran_since_fetch_ = true;
}

int64_t PhaseProgram::fetch(const std::string& output, int64_t bytes) {
  const size_t at = static_cast<size_t>(++fetches_ % 2);
  if (fetched_bytes_[at] < bytes) {
    fetched_bytes_[at] = std::max<int64_t>(2 * bytes, 4096);  // may wait for the device
    fetched_[at] = HostMemory(device_, fetched_bytes_[at]);
  }
  device_.download_later(fetched_[at].data(), output_data(output), bytes);
  ran_since_fetch_ = false;
  return fetches_;
}

const void* PhaseProgram::fetched(int64_t which) {
  FK_CHECK(which > fetches_ - 2 && which <= fetches_, "fetched() of what is not kept");
  // Older copies are complete: they precede the work that run() has waited for.
  if (which == fetches_ && !ran_since_fetch_) device_.synchronize();
  return fetched_[which % 2].data();
}

void PhaseProgram::feed_tokens(const std::string& input, const void* from, int64_t count,
                               int64_t vocab_size) {
  feed_ = {input_memory_->find(input), static_cast<const int64_t*>(from), count, vocab_size};
}

const void* PhaseProgram::output_data(const std::string& name) const {
  return lowered_->views[static_cast<size_t>(find_output(name).id)].view.data;
}

Value PhaseProgram::find_output(const std::string& name) const {
  const auto& outputs = lowered_->graph.outputs;
  const auto it = outputs.find(name);
  if (it == outputs.end()) fail(lowered_->graph.phase, "the phase has no output `" + name + "`");
  return it->second;
}

Program::Output PhaseProgram::output(const std::string& name) const {
  const Value v = find_output(name);
  Output output{lowered_->graph.dtype(v), {}};
  Axes axes;
  for (size_t i = 0; i < axis_values_.size(); ++i) axes[lowered_->graph.axes[i]] = axis_values_[i];
  for (const Expr& dim : lowered_->graph.info(v).shape) output.shape.push_back(dim.eval(axes));
  return output;
}

void PhaseProgram::read(const std::string& output, void* host, int64_t bytes) {
  const fk_out& view = lowered_->views[static_cast<size_t>(find_output(output).id)].view;
  if (bytes > view.nbytes) fail(lowered_->graph.phase, "read() of more than `" + output + "` has");
  if (bytes > kStaged) return device_.download(host, view.data, bytes);
  device_.download(staging_.data(), view.data, bytes);
  std::memcpy(host, staging_.data(), static_cast<size_t>(bytes));
}

void PhaseProgram::read_tap(const Tap& tap) {
  std::vector<int64_t> shape;
  std::vector<float> sum;
  for (const Value v : tap.values) {
    const fk_out& view = lowered_->views[static_cast<size_t>(v.id)].view;
    const DType dtype = lowered_->graph.dtype(v);
    std::vector<std::byte> raw(static_cast<size_t>(view.nbytes));
    device_.download(raw.data(), view.data, view.nbytes);
    shape.assign(view.shape, view.shape + view.ndim);
    int64_t count = 1;
    for (const int64_t d : shape) count *= d;
    sum.resize(static_cast<size_t>(count), 0.0F);
    std::vector<int64_t> index(shape.size(), 0);
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0;
      for (size_t d = 0; d < shape.size(); ++d) at += index[d] * view.strides[d];
      sum[static_cast<size_t>(i)] +=
          static_cast<float>(to_double(raw.data() + at * bytes(dtype), dtype));
      for (size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
    }
  }
  taps_(tap.name, shape, sum);
}

}  // namespace fk
