// SPDX-License-Identifier: Apache-2.0
// A model made ready to run on one device with one set of providers: its weights, its states, and
// one program per phase. Lives in a runner process.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/device/device.hpp"
#include "core/exec/model.hpp"
#include "core/exec/select.hpp"
#include "core/exec/weights.hpp"
#include "core/plugin/instance.hpp"
#include "fk/comm.h"

namespace fk {

// Every weight of a model under these limits, of the rank that they name, in the order in which a
// session records them: the layout that whoever fills a shared block and whoever maps it agree on.
std::shared_ptr<WeightTable> weight_table(const Model& model, const Catalog& catalog,
                                          const Limits& limits);

// An op failed while a program ran. `what` names path, op, provider and the plugin's words.
class RunError : public Error {
 public:
  RunError(std::string path, std::string op, std::string provider, std::string text);
  std::string path, op, provider;
};

// Called at a tap with the sum of its tensors, float32, for the current axes.
using TapSink = std::function<void(const std::string& name, const std::vector<int64_t>& shape,
                                   const std::vector<float>& values)>;

class NodeWatch;

// One phase: bind the axes, write the inputs, run, read the outputs. One thread at a time.
class Program {
 public:
  virtual ~Program() = default;
  virtual int axis(
      const std::string& name) const = 0;  // index for bind(); -1 if the phase has none
  virtual int64_t limit(const std::string& axis) const = 0;
  virtual void bind(int axis, int64_t value) = 0;  // Error above the limit
  // Host memory of an input, sized for the limits, at an address that never changes; what lies
  // beyond the bound axes is ignored. Null if the phase has no such input.
  virtual void* input(const std::string& name) = 0;
  // Uploads the inputs, plans, runs every node. Throws RunError. Does not wait for the device.
  virtual void run() = 0;
  // Whether a binding of the axes is captured once and then replayed, so that few distinct ones
  // pay.
  virtual bool replays() const { return false; }
  // What an output is, with the bound axes. Error if there is no such output.
  struct Output {
    DType dtype = DType::f32;
    Shape shape;
  };
  virtual Output output(const std::string& name) const = 0;
  // Copies an output (dense, bound axes) to host memory, waiting for it.
  virtual void read(const std::string& output, void* host, int64_t bytes) = 0;
  // Whether run() may be called before the last one's results are read, so that the device has its
  // next step when it ends this one. With what follows, in this order: fetch() of what will be
  // read, input() and bind() for the next step, feed_tokens(), run(), fetched().
  virtual bool runs_ahead() const { return false; }
  // Begins to copy an output to the host; what is returned is for fetched(). The last two are kept.
  virtual int64_t fetch(const std::string& output, int64_t bytes);
  // What was fetched, there until the next fetch() but one. Waits for the device only where run()
  // has not been called since.
  virtual const void* fetched(int64_t which);
  // The next run() takes the first `count` elements of an input from this output of the last one,
  // on the device, 0 for what is no token of the vocabulary. What the host wrote there is not used.
  virtual void feed_tokens(const std::string& input, const std::string& output, int64_t count,
                           int64_t vocab_size);
  // The index of the node that is about to run is written here, so that whoever shares the memory
  // knows where a crash or a hang happened. Null: off.
  virtual void set_marker(volatile int32_t* node) = 0;
  virtual void set_taps(TapSink sink) = 0;  // null: off; on: run() stops at every tap to read it
  // Null: off; on: nothing is captured, and the watch is told of every call. Not owned.
  virtual void set_watch(NodeWatch* watch) = 0;

  // For reports: which provider runs which node, in order.
  struct NodeInfo {
    std::string path, op, provider;
    int level = 1;
    std::vector<std::string> refusals;  // "provider: why", of those that were asked first
    Frames frames;                      // host layout at the limits, for cases taken from the graph
    const Contract* contract = nullptr;
  };
  virtual const std::vector<NodeInfo>& nodes() const = 0;
  virtual int64_t arena_bytes() const = 0;
};

// Sees the calls of a program. The views that a node's frames point to have the shapes of the step
// and, on the device's stream, the contents of that moment.
class NodeWatch {
 public:
  virtual ~NodeWatch() = default;
  virtual void step() = 0;  // begins
  virtual void before(const Program::NodeInfo& node) = 0;
  virtual void after(const Program::NodeInfo& node) = 0;
};

class Session {
 public:
  struct Options {
    Limits limits;
    ProviderPolicy policy;
    std::string log_name = "fk";
    bool graphs = true;  // capture steps where the device can
    // Batches for which "decode" is made in a size of its own, because small ones have other best
    // providers.
    std::vector<int64_t> decode_sizes = {};
    const fk_comm* comm = nullptr;  // this rank's, which outlives the session; null: one rank
    // Where all states (caches) lie, for who shares them: asked once, for so many bytes of the
    // device aligned to 256, which outlive the session. Null: in memory of the session's own.
    std::function<std::byte*(int64_t bytes)> state_block = nullptr;
  };
  // Records, chooses, loads weights, creates and prepares every instance. Error when something does
  // not fit or no provider takes an op; the message lists who refused and why.
  Session(const Model& model, const Plugins& plugins, Device& device, WeightSource& weights,
          Options options);
  ~Session();

  Program& phase(const std::string& name);
  // Those of the model, and those of decode_sizes ("decode up to 16"); phase() knows them all.
  std::vector<std::string> phase_names() const;
  const Model& model() const;
  const Limits& limits() const;
  int64_t max_context() const;  // tokens of one request: of the limits, unless the model has fewer
  Device& device();
  // The exchange that drive() serves; set before drive().
  void attach(Exchange& exchange);
  Exchange& exchange();
  // Sets every state (caches) to zero and resets instances: between independent runs.
  void clear_states();
  struct Bytes {
    int64_t weights = 0, packed = 0, persistent = 0, states = 0, arena = 0, scratch = 0;
  };
  Bytes bytes() const;
  int64_t pages() const;  // of the paged caches

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fk
