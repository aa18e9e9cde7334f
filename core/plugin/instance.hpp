// SPDX-License-Identifier: Apache-2.0
// One instance of an op and its life: supports, create, prepare, plan, forward, destroy; and the
// host's services for it. Callers pass frames with the host's slots, which are converted to the
// plugin's.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/called_in.hpp"
#include "core/device/device.hpp"
#include "core/plugin/library.hpp"

namespace fk {

// The slots of all sections of one call, in the host's layout. Pointers in them must outlive the
// instance (init, weights) or the call (forward, plan).
struct Frames {
  std::vector<fk_slot> init, weights, forward, plan;
};

struct Support {
  bool ok = false;
  bool broken = false;  // not a refusal: another status, no reason, impossible needs
  std::string why;      // the plugin's own sentence, or the host's
  std::string changed;  // modes of the thread that supports() changed, which are restored
  fk_need need{};
};

// Finds contracts and providers for the children of an instance.
class ChildChooser {
 public:
  virtual ~ChildChooser() = default;
  virtual const Contract* contract(const std::string& op) = 0;  // null if the host has none
  // `meta` has null data. Null, with the reason in `why`, when no provider takes it.
  virtual const Provider* choose(const Contract& contract, const Frames& meta,
                                 std::string& why) = 0;
};

// Packed weights, shared by instances with equal plugin, op, init and weights.
class PackedCache {
 public:
  struct Entry {
    DeviceMemory memory;
    bool ready = false;
  };
  std::shared_ptr<Entry> get(Device& device, const std::string& key, int64_t bytes);
  int64_t bytes() const;

 private:
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

// Scratch of children. Instances run one after the other, so their children at the same position
// share scratch. Children of one instance, and their children, may run at the same time, so each
// has its own.
class ChildScratch {
 public:
  std::shared_ptr<DeviceMemory> get(Device& device, const std::string& place, int64_t bytes);
  int64_t bytes() const;

 private:
  std::multimap<std::string, std::shared_ptr<DeviceMemory>> made_;
};

struct InstanceServices {
  Device& device;
  PackedCache& packed;
  ChildChooser* children;  // null: no children
  std::function<void(int severity, const std::string& text)> log;
  ChildScratch* scratch = nullptr;          // null: each child has its own
  std::string place = "";                   // position below the topmost instance
  std::function<void()> created = nullptr;  // called between create() and prepare()
};

class Instance {
 public:
  // Asks the plugin; `meta` has null data pointers, and its forward frame has the largest sizes.
  static Support supports(const Provider& provider, const Frames& meta);
  // Calls create and prepare. `frames.init` and `frames.weights` are real; `frames.forward` has the
  // largest sizes and null data. Throws Error with the plugin's words.
  Instance(const Provider& provider, const Frames& frames, const fk_need& need,
           InstanceServices services);
  ~Instance();
  Instance(const Instance&) = delete;

  const Provider& provider() const { return provider_; }
  const fk_need& need() const { return need_; }
  bool has_plan() const { return provider_.op->plan_or_null != nullptr; }
  // True if its plan() is valid for equal instances too. Parents plan their own children.
  bool plans_for_others() const { return has_plan() && children_.empty(); }
  // Converts a frame to the plugin's slots; pass its pointer to forward(). Throws Error.
  std::vector<fk_slot> fitted(SectionId section, const std::vector<fk_slot>& frame) const;

  // These return the plugin's status; the text is in error().
  int32_t plan(const fk_slot* frame, void* blob, int64_t* bytes);
  int32_t forward(const fk_slot* frame, fk_ctx& ctx) {
    ctx.error = &error_;
    const CalledIn in("forward");
    return provider_.op->forward(self_, frame, &ctx);
  }
  int32_t reset();
  const fk_error& error() const { return error_; }
  int64_t persistent_bytes() const { return persistent_.bytes(); }
  std::byte* persistent() const { return persistent_.data(); }
  // From the claims of the plugin and its children, whose work may run at the same time.
  int64_t side_streams() const;
  struct Child;

 private:
  void fill_table();
  void create(const std::string& where);
  void prepare(const std::string& where, const Frames& frames, const std::vector<fk_slot>& max);
  void destroy();
  static int32_t make_child(const fk_host*, const fk_contract*, const void*, const void*,
                            const void*, fk_child**, fk_error*);
  const Provider& provider_;
  fk_need need_;
  InstanceServices services_;
  std::array<std::vector<fk_slot>, 2> kept_;  // converted init and weights, alive until destroy
  std::shared_ptr<PackedCache::Entry> packed_;
  DeviceMemory persistent_;
  fk_host* host_ = nullptr;  // lives until the process ends: plugins may keep it
  std::vector<std::unique_ptr<Child>> children_;
  bool prepared_ = false;
  void* self_ = nullptr;
  fk_error error_{};
};

}  // namespace fk
