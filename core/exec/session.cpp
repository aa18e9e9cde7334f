// SPDX-License-Identifier: Apache-2.0
// Makes a session: records and lowers each phase, loads the weights, creates all instances, and
// gives the programs their common memory.
#include "core/exec/session.hpp"

#include <algorithm>
#include <span>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/machine.hpp"
#include "core/base/text.hpp"
#include "core/exec/batch_buckets.hpp"
#include "core/exec/program.hpp"

namespace fk {

namespace {

const std::string kDecode = "decode";

// Chooses providers for child instances, which are ops that a provider uses inside its own op.
class Children final : public ChildChooser {
 public:
  Children(const Plugins& plugins, const ProviderPolicy& policy)
      : plugins_(plugins), policy_(policy) {}
  const Contract* contract(const std::string& op) override { return plugins_.catalog().find(op); }
  const Provider* choose(const Contract& contract, const Frames& meta, std::string& why) override {
    try {
      return fk::choose(policy_, plugins_, contract, meta, /*expandable=*/false, "child").provider;
    } catch (const Error& e) {
      why = e.what_text();
      return nullptr;
    }
  }

 private:
  const Plugins& plugins_;
  const ProviderPolicy& policy_;
};

}  // namespace

std::shared_ptr<WeightTable> weight_table(const Model& model, const Catalog& catalog,
                                          const Limits& limits) {
  auto table = std::make_shared<WeightTable>();
  for (const auto& phase : model.engine()->phases()) record(model, catalog, phase, limits, table);
  return table;
}

struct Session::Impl {
  const Model& model;
  std::unique_ptr<Engine> engine;
  Device& device;
  Options options;
  Exchange* exchange = nullptr;
  PackedCache packed;
  ChildScratch child_scratch;
  Children children;
  std::shared_ptr<WeightTable> table = std::make_shared<WeightTable>();
  std::vector<DeviceMemory> weight_memory;
  std::map<std::string, std::span<std::byte>> states;
  std::vector<DeviceMemory> state_memory;  // owned by the session
  DeviceMemory arena, scratch;
  // Destroyed before the memory they use.
  std::map<std::string, std::unique_ptr<PhaseProgram>> programs;
  std::vector<std::string> names;    // of the programs, in the order in which they were made
  std::vector<PhaseProgram*> rungs;  // of "decode", smaller than the phase's own, ascending
  std::unique_ptr<LadderProgram> ladder;
  Bytes bytes;
  std::shared_ptr<void> kept;

  Impl(const Model& m, const Plugins& plugins, Device& d, Options o)
      : model(m),
        engine(m.engine()),
        device(d),
        options(std::move(o)),
        children(plugins, options.policy) {}

  // Makes the program of a phase. With `batch`, makes "decode" for at most `batch` requests, if the
  // phase allows more.
  void make_program(const Plugins& plugins, const std::string& phase, int64_t batch) {
    const auto phases = engine->phases();
    if (std::find(phases.begin(), phases.end(), phase) == phases.end()) return;
    Graph graph = record(model, plugins.catalog(), phase, options.limits, table);
    Axes limits;
    bool smaller = batch == 0;
    for (const auto& axis : graph.axes) {
      limits[axis] = engine->axis_limit(phase, axis, options.limits);
      if (batch == 0 || (axis != "B" && axis != "T" && axis != "Q")) continue;
      smaller |= batch < limits[axis];
      limits[axis] = std::min(limits[axis], batch);
    }
    if (!smaller) return;
    const std::string name = batch ? phase + " up to " + std::to_string(batch) : phase;
    auto lowered = lower(plugins.catalog(), std::move(graph), plugins, options.policy,
                         device.type(), device.id(), limits, options.comm);
    programs[name] = std::make_unique<PhaseProgram>(std::move(lowered), std::move(limits), device);
    names.push_back(name);
    if (batch) rungs.push_back(programs[name].get());
  }

  void load_weights(WeightSource& source, SharedBlocks& blocks) {
    const WeightLayout layout(*table);
    bytes.weights = layout.bytes;
    const std::byte* there =
        device.host_memory() ? source.block(*table) : source.on_device(device, *table);
    // views of weights are fk_in, and so read only by type
    auto* base = const_cast<std::byte*>(there);
    if (!base) {
      weight_memory.emplace_back(device, layout.bytes, "the weights of " + options.log_name);
      base = weight_memory.back().data();
      device.upload(base, source.block(*table), layout.bytes);
    }
    for (const int64_t offset : layout.offsets) blocks.weights.push_back(base + offset);
  }

  void place_states(const std::map<std::string, int64_t>& sizes) {
    constexpr int64_t kAligned = 256;
    const auto whole = [](int64_t size) { return (size + kAligned - 1) / kAligned * kAligned; };
    int64_t all = 0;
    for (const auto& [state, size] : sizes) all += whole(size);
    if (!options.state_block && device.host_memory()) need_memory("the caches", all);
    std::byte* place = options.state_block && all ? options.state_block(all) : nullptr;
    for (const auto& [state, size] : sizes) {
      if (!options.state_block)
        place = state_memory.emplace_back(device, size, "the state " + state).data();
      states[state] = {place, static_cast<size_t>(size)};
      if (options.state_block) place += whole(size);
      bytes.states += size;
    }
    zero_states();
  }
  void zero_states() {
    for (const auto& [state, memory] : states)
      device.fill_zero(memory.data(), static_cast<int64_t>(memory.size()));
  }

  void allocate(SharedBlocks& blocks) {
    std::map<std::string, int64_t> sizes;
    for (const auto& [name, program] : programs) {
      for (const auto& [state, size] : program->state_bytes())
        sizes[state] = std::max(sizes[state], size);
      bytes.arena = std::max(bytes.arena, program->arena_bytes());
      bytes.scratch = std::max(bytes.scratch, program->scratch_bytes());
      bytes.persistent += program->persistent_bytes();
    }
    place_states(sizes);
    for (const auto& [state, memory] : states) blocks.states[state] = memory.data();
    arena = DeviceMemory(device, bytes.arena, "the arena of " + options.log_name);
    scratch = DeviceMemory(device, bytes.scratch, "scratch");
    blocks.arena = arena.data();
    blocks.scratch = scratch.data();
    blocks.scratch_bytes = bytes.scratch;
  }
};

Session::Session(const Model& model, const Plugins& plugins, Device& device, WeightSource& weights,
                 Options options)
    : impl_(std::make_unique<Impl>(model, plugins, device, std::move(options))) {
  Impl& s = *impl_;
  s.options.policy.device_type = device.type();
  for (const auto& phase : s.engine->phases()) s.make_program(plugins, phase, 0);
  for (const int64_t size : s.options.decode_sizes) s.make_program(plugins, kDecode, size);
  SharedBlocks blocks;
  s.load_weights(weights, blocks);
  const InstanceServices services{
      device, s.packed, &s.children,
      [name = s.options.log_name](int severity, const std::string& text) {
        severity >= FK_LOG_WARNING ? log_warn(name + ": " + text) : log_debug(name + ": " + text);
      },
      &s.child_scratch};
  for (auto& [phase, program] : s.programs) {
    program->set_weights(blocks);
    program->make_instances(services);
  }
  s.allocate(blocks);
  for (const auto& name : s.names) {
    PhaseProgram& program = *s.programs.at(name);
    const bool is_size = std::find(s.rungs.begin(), s.rungs.end(), &program) != s.rungs.end();
    program.set_memory(blocks, is_size ? s.programs.at(kDecode).get() : nullptr);
    program.set_graphs(s.options.graphs);
  }
  if (!s.rungs.empty()) {
    auto all = s.rungs;
    all.push_back(s.programs.at(kDecode).get());
    s.ladder = std::make_unique<LadderProgram>(std::move(all));
  }
  s.bytes.packed = s.packed.bytes();
  s.bytes.scratch += s.child_scratch.bytes();
}
Session::~Session() = default;

std::vector<std::string> Session::phase_names() const { return impl_->names; }
Program& Session::phase(const std::string& name) {
  if (name == kDecode && impl_->ladder) return *impl_->ladder;
  const auto it = impl_->programs.find(name);
  if (it == impl_->programs.end())
    fail("session", "the model has no phase `" + name + "`", did_you_mean(name, impl_->names));
  return *it->second;
}
const Limits& Session::limits() const { return impl_->options.limits; }
Device& Session::device() { return impl_->device; }
void Session::attach(Exchange& exchange) { impl_->exchange = &exchange; }
void Session::drive() { impl_->engine->drive(*this); }
Exchange& Session::exchange() {
  FK_CHECK(impl_->exchange, "the session has no exchange");
  return *impl_->exchange;
}
void Session::clear_states() {
  impl_->zero_states();
  for (auto& [name, program] : impl_->programs) program->reset_instances();
  impl_->kept.reset();
}
std::shared_ptr<void>& Session::kept() { return impl_->kept; }
Session::Bytes Session::bytes() const { return impl_->bytes; }
int64_t Session::pages() const {
  const Limits& l = impl_->options.limits;
  return l.pages ? l.pages : l.max_batch * ((l.max_context + l.page_size - 1) / l.page_size);
}

}  // namespace fk
