// SPDX-License-Identifier: Apache-2.0
// One instance of a provider with the scratch and plan memory of its calls, all guarded.
// Conformance tests and benchmarks share it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cases/case_frames.hpp"
#include "core/plugin/instance.hpp"

namespace fk {

// Finds providers of children among all loaded plugins of the parent's kind of device. The parent's
// own plugin comes first, then baselines in load order.
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
  // Calls create and prepare. `max` must outlive this object, and so must the case behind `largest`
  // (CaseFrames::prepare_frames). Throws Error with the plugin's words.
  Execution(const Provider& provider, const CaseFrames& max, const fk_need& need,
            GuardDevice& device, PackedCache& packed, ChildChooser* children)
      : Execution(provider, max.prepare_frames(), need, device, packed, children) {}
  Execution(const Provider& provider, const Frames& largest, const fk_need& need,
            GuardDevice& device, PackedCache& packed, ChildChooser* children);

  struct Outcome {
    std::string failure;  // empty, or the failed call and the plugin's message
    std::vector<CaseFrames::Broken> broken;
  };
  // Runs [plan,] forward on frames no larger than `max`, with poisoned scratch. With `launch`, that
  // replaces forward(): a captured call on the same frames.
  Outcome run(const CaseFrames& frames, Poison scratch,
              const std::function<void()>& launch = nullptr);

  // The same without checks, for timing: `frame` comes from fitted().
  std::vector<fk_slot> fitted(const CaseFrames& frames) const;
  std::string plan(const CaseFrames& frames);  // the reason of a failure, or empty
  // From now on `leader`'s instance makes the plans, if it may: a model plans once for all layers.
  // `leader` must be equal and outlive this object.
  void plan_by(Execution& leader) {
    if (leader.instance_->plans_for_others()) planner_ = leader.instance_.get();
  }
  int32_t forward(const std::vector<fk_slot>& frame);

  Instance& instance() { return *instance_; }

 private:
  fk_ctx context() const;
  GuardDevice& device_;
  fk_need need_;
  std::unique_ptr<Device> cpu_;  // plan() writes host memory
  GuardedBuffer scratch_, plan_host_, plan_device_;
  int64_t plan_bytes_ = 0;
  std::string left_;  // Device::left_behind() not yet in an outcome
  std::unique_ptr<Instance> instance_;
  Instance* planner_ = nullptr;  // null: plans for itself
};

}  // namespace fk
