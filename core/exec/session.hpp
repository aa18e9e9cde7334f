// SPDX-License-Identifier: Apache-2.0
// A model that is ready to run on one device with one set of providers: its weights, its states,
// and one program per phase. Lives in a worker process.
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

// Every weight of a model for the rank of these limits, in the order of a session's recording. The
// writer of a shared block and its readers agree on this layout.
std::shared_ptr<WeightTable> weight_table(const Model& model, const Catalog& catalog,
                                          const Limits& limits);

// Failure of an op while a program ran. `what` has path, op, provider and the plugin's words.
class RunError : public Error {
 public:
  RunError(std::string path, std::string op, std::string provider, std::string text);
  std::string path, op, provider;
};

// Called at a tap with the sum of its tensors, in float32, for the current axes.
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
  // Host memory of an input at a fixed address, sized for the limits. Data beyond the bound axes is
  // ignored. Null: the phase has no such input.
  virtual void* input(const std::string& name) = 0;
  // Uploads the inputs, plans, runs all nodes. Throws RunError. Does not wait for the device.
  virtual void run() = 0;
  // True when each binding of the axes is captured once and replayed. Then few distinct bindings
  // pay off.
  virtual bool replays() const { return false; }
  // An output with the bound axes. Error when there is no such output.
  struct Output {
    DType dtype = DType::f32;
    Shape shape;
  };
  virtual Output output(const std::string& name) const = 0;
  // Waits for an output and copies it (dense, bound axes) to host memory.
  virtual void read(const std::string& output, void* host, int64_t bytes) = 0;
  // True when run() may be called before the last results are read, so that the device has its next
  // step in time. The order of calls is: fetch() of the results, input() and bind() for the next
  // step, feed_tokens(), run(), fetched().
  virtual bool runs_ahead() const { return false; }
  // Begins to copy an output to the host. Returns a number for fetched(). The last two copies are
  // kept.
  virtual int64_t fetch(const std::string& output, int64_t bytes);
  // The copy, valid until the next fetch() but one. Waits for the device only if run() has not been
  // called since.
  virtual const void* fetched(int64_t which);
  // The next run() takes the first `count` elements of an input from this output of the last run,
  // on the device. Values outside of the vocabulary become 0. The host's data there is unused.
  virtual void feed_tokens(const std::string& input, const std::string& output, int64_t count,
                           int64_t vocab_size);
  // Memory for the index of the node that runs next. Another process that shares it learns the
  // place of a crash or hang. Null: off.
  virtual void set_marker(volatile int32_t* node) = 0;
  virtual void set_taps(TapSink sink) = 0;  // null: off; else run() stops at each tap to read it
  // Null: off. Else nothing is captured, and the watch sees each call. Not owned.
  virtual void set_watch(NodeWatch* watch) = 0;

  // For reports: nodes with their providers, in order.
  struct NodeInfo {
    std::string path, op, provider;
    int level = 1;
    std::vector<std::string> refusals;  // "provider: why", for providers that were asked first
    Frames frames;                      // host layout at the limits, for cases from the graph
    const Contract* contract = nullptr;
  };
  virtual const std::vector<NodeInfo>& nodes() const = 0;
  virtual int64_t arena_bytes() const = 0;
};

// Sees the calls of a program. A node's views have the shapes of the step, and their current
// contents on the device's stream.
class NodeWatch {
 public:
  virtual ~NodeWatch() = default;
  virtual void step() = 0;  // a step begins
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
    // Batches with a "decode" program of their own, because small ones have other best providers.
    std::vector<int64_t> decode_sizes = {};
    const fk_comm* comm = nullptr;  // this rank's, which outlives the session; null: one rank
    // Memory for all states (caches), for callers that share them. Called once with the bytes that
    // it must return: device memory, aligned to 256, which outlives the session. Null: the session
    // allocates.
    std::function<std::byte*(int64_t bytes)> state_block = nullptr;
  };
  // Records, chooses providers, loads weights, creates and prepares all instances. Error when
  // memory is short or no provider takes an op; the message has all refusals.
  Session(const Model& model, const Plugins& plugins, Device& device, WeightSource& weights,
          Options options);
  ~Session();

  Program& phase(const std::string& name);
  // The engine's phases, and those for decode_sizes ("decode up to 16"). phase() takes them all.
  std::vector<std::string> phase_names() const;
  const Limits& limits() const;
  Device& device();
  // The exchange for drive(). Set before drive().
  void attach(Exchange& exchange);
  // The engine serves the exchange until no request is left.
  void drive();
  Exchange& exchange();
  // Zeroes all states (caches) and resets instances, between independent runs.
  void clear_states();
  // An object that the engine keeps between two drives. clear_states() drops it.
  std::shared_ptr<void>& kept();
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
