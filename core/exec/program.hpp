// SPDX-License-Identifier: Apache-2.0
// The program of one phase: its nodes, their instances, and the plan of its temporary memory. It is
// made in two steps, because all programs share the memory (the arena).
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/contract/expr.hpp"
#include "core/exec/input_memory.hpp"
#include "core/exec/lower.hpp"
#include "core/exec/session.hpp"

namespace fk {

// Memory that the session owns and all its programs use.
struct SharedBlocks {
  std::vector<std::byte*> weights;           // by index in the weight table
  std::map<std::string, std::byte*> states;  // by name
  std::byte* arena = nullptr;
  std::byte* scratch = nullptr;
  int64_t scratch_bytes = 0;
};

class PhaseProgram final : public Program {
 public:
  PhaseProgram(std::unique_ptr<Lowered> lowered, Axes limits, Device& device);

  // Bytes that the session must provide.
  int64_t arena_bytes() const override { return arena_bytes_; }
  int64_t scratch_bytes() const;
  int64_t persistent_bytes() const;
  std::map<std::string, int64_t> state_bytes() const;

  void set_weights(const SharedBlocks& blocks);           // before make_instances()
  void make_instances(const InstanceServices& services);  // prepare() sees null forward data
  // After make_instances(). With `larger`, the same phase with larger limits, both share its
  // inputs.
  void set_memory(const SharedBlocks& blocks, const PhaseProgram* larger = nullptr);
  const std::vector<std::string>& axes() const { return lowered_->graph.axes; }
  void reset_instances();
  void set_graphs(bool on) { graphs_ = on; }

  int axis(const std::string& name) const override;
  int64_t limit(const std::string& axis) const override;
  void bind(int axis, int64_t value) override;
  void* input(const std::string& name) override;
  void run() override;
  bool replays() const override { return captures(); }
  Output output(const std::string& name) const override;
  void read(const std::string& output, void* host, int64_t bytes) override;
  bool runs_ahead() const override { return !device_.host_memory() && captures(); }
  int64_t fetch(const std::string& output, int64_t bytes) override;
  const void* fetched(int64_t which) override;
  void feed_tokens(const std::string& input, const std::string& output, int64_t count,
                   int64_t vocab_size) override {
    feed_tokens(input, output_data(output), count, vocab_size);
  }
  void feed_tokens(const std::string& input, const void* from, int64_t count, int64_t vocab_size);
  const void* output_data(const std::string& name) const;
  void set_taps(TapSink sink) override { taps_ = std::move(sink); }
  void set_watch(NodeWatch* watch) override { watch_ = watch; }
  void set_marker(volatile int32_t* node) override { marker_ = node; }
  const std::vector<NodeInfo>& nodes() const override { return infos_; }

 private:
  struct Input {
    std::string name;
    int part = -1;         // in input_memory_
    int bytes_value = -1;  // index of the program's bound size in bytes
  };
  // A number in a view that depends on the axes. `value`: index in values_.
  struct Patch {
    int64_t* target;
    int value;
  };
  // The address of a view whose start depends on an axis.
  struct Start {
    fk_out* view;
    std::byte* base;
    int value;  // bytes
    size_t of;  // the graph's value
  };
  // Nodes with equal plans. The leader's plan goes to `blob`, and on a device also to `device`.
  struct PlanGroup {
    Instance* leader;
    std::vector<fk_slot> frame;
    std::vector<std::byte> blob;
    DeviceMemory device;
    std::vector<size_t> nodes;
  };
  // The work of one binding of the axes. Captured when the binding comes for the second time.
  struct Captured {
    bool seen = false;
    std::shared_ptr<void> work;
  };
  struct Feed {
    int part = -1;  // in input_memory_; -1: none
    const int64_t* from = nullptr;
    int64_t count = 0, vocab_size = 0;
  };
  // A buffer that each run clears first.
  struct Zeroed {
    std::byte* data;
    int bytes_value;
  };
  void plan_arena();
  void make_patches();
  // Adds the sizes, strides and bytes of a view that depend on axes to the patches.
  void patch_view(ViewStore& store, const ValueInfo& info, DType dtype);
  void make_groups();
  void run_plans();
  void enqueue();
  bool captures() const;
  void choose_nodes();
  void run_captured();
  void read_tap(const Tap& tap);
  [[noreturn]] void node_failed(size_t node);
  Value find_output(const std::string& name) const;
  int64_t size_at_limits(const Buffer& buffer) const;
  // Adds the size of a buffer in bytes to the expressions; returns its index in values_.
  int bytes_value(const Buffer& buffer);
  std::byte* buffer_data(int buffer, const SharedBlocks& blocks) const;

  std::unique_ptr<Lowered> lowered_;
  Axes limits_;
  Device& device_;
  std::vector<int64_t> axis_values_;
  bool dirty_ = true;
  ExprProgram expressions_;
  std::vector<int64_t> values_;
  std::vector<Patch> patches_;
  std::vector<Start> starts_;
  std::vector<int64_t> arena_offsets_;  // by buffer; -1: not in the arena
  int64_t arena_bytes_ = 0;
  std::vector<Input> inputs_;
  std::shared_ptr<InputMemory> input_memory_;  // one for all sizes of the phase
  HostMemory staging_;  // for outputs that the host reads; pinned where that is faster
  std::vector<int64_t> input_bytes_;  // by part
  Feed feed_;                         // for the next run
  HostMemory fetched_[2];             // in turns
  int64_t fetched_bytes_[2] = {0, 0}, fetches_ = 0;
  bool ran_since_fetch_ = true;
  std::vector<Zeroed> zeroed_;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::vector<std::vector<fk_slot>> frames_;  // fitted forward frames
  std::vector<fk_ctx> contexts_;
  std::vector<PlanGroup> groups_;
  std::vector<NodeInfo> infos_;
  std::vector<bool> active_;  // by node, for the bound sizes
  TapSink taps_;
  NodeWatch* watch_ = nullptr;
  volatile int32_t* marker_ = nullptr;
  bool graphs_ = true;
  bool capturable_ = false;  // by the claims of all providers
  std::map<std::vector<int64_t>, Captured> captured_;
};

}  // namespace fk
