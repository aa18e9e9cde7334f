// SPDX-License-Identifier: Apache-2.0
// One instance of a provider together with the scratch and plan memory of its calls, all guarded:
// the part that conformance and benchmarks share.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cases/case_frames.hpp"
#include "core/plugin/instance.hpp"

namespace fk {

// Finds the providers of children among all that are loaded and run on the parent's kind of device:
// baselines in the order in which they were loaded, the parent's own plugin first.
class LoadedChildren final : public ChildChooser {
 public:
  LoadedChildren(const Plugins& plugins, const Provider& parent)
      : plugins_(plugins), parent_(parent.plugin), device_type_(parent.op->claims->device_type) {}
  const Contract* contract(const std::string& op) override { return plugins_.catalog().find(op); }
  const Provider* choose(const Contract& contract, const Frames& meta, std::string& why) override;

 private:
  const Plugins& plugins_;
  std::string parent_;
  int32_t device_type_;
};

class Execution {
 public:
  // create + prepare. `max` outlives this object, and so does what `largest` points to
  // (CaseFrames::prepare_frames). Throws Error with the plugin's words.
  Execution(const Provider& provider, const CaseFrames& max, const fk_need& need,
            GuardDevice& device, PackedCache& packed, ChildChooser* children)
      : Execution(provider, max.prepare_frames(), need, device, packed, children) {}
  Execution(const Provider& provider, const Frames& largest, const fk_need& need,
            GuardDevice& device, PackedCache& packed, ChildChooser* children);

  struct Outcome {
    std::string failure;  // empty, or which call failed and what the plugin said
    std::vector<CaseFrames::Broken> broken;
  };
  // [plan,] forward on frames that are not larger than `max`. Scratch is poisoned first. With
  // `launch`, that is called in place of forward(): a captured call on the same frames.
  Outcome run(const CaseFrames& frames, Poison scratch,
              const std::function<void()>& launch = nullptr);

  // The same without any check, for the clock: `frame` comes from fitted().
  std::vector<fk_slot> fitted(const CaseFrames& frames) const;
  std::string plan(const CaseFrames& frames);  // why it failed, or empty
  // From now on that one's instance plans, which is equal and outlives this, as in a model one does
  // for all layers; where it may.
  void plan_by(Execution& leader) {
    if (leader.instance_->plans_for_others()) planner_ = leader.instance_.get();
  }
  int32_t forward(const std::vector<fk_slot>& frame);

  Instance& instance() { return *instance_; }

 private:
  fk_ctx context() const;
  GuardDevice& device_;
  fk_need need_;
  std::unique_ptr<Device> cpu_;  // what plan() writes is memory of the host
  GuardedBuffer scratch_, plan_host_, plan_device_;
  int64_t plan_bytes_ = 0;
  std::string left_;  // Device::left_behind() of a call that no outcome has told yet
  std::unique_ptr<Instance> instance_;
  Instance* planner_ = nullptr;  // null: its own
};

}  // namespace fk
