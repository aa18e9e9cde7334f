// SPDX-License-Identifier: Apache-2.0
#include "core/cases/execute.hpp"

#include <cstring>
#include <utility>

#include "core/base/error.hpp"

namespace fk {

namespace {

std::string words(const Instance& instance, const char* call, int32_t status) {
  const std::string text = instance.error().text;
  return std::string(call) + ": " +
         (text.empty() ? "status " + std::to_string(status) + " without a reason" : text);
}

}  // namespace

const Provider* LoadedChildren::choose(const Contract& contract, const Frames& meta,
                                       std::string& why) {
  const Provider* found = nullptr;
  for (const Provider* p : plugins_.of(contract.op)) {
    if (p->op->claims->device_type != device_type_) continue;
    const Support support = Instance::supports(*p, meta);
    if (support.ok && (!found || p->plugin == parent_)) found = p;
    if (!support.ok) why += (why.empty() ? "" : "; ") + p->plugin + ": " + support.why;
  }
  if (!found && why.empty()) why = "no plugin has " + contract.op;
  return found;
}

Execution::Execution(const Provider& provider, const Frames& largest, const fk_need& need,
                     GuardDevice& device, PackedCache& packed, ChildChooser* children)
    : device_(device),
      need_(need),
      cpu_(open_device("cpu")),
      scratch_(device.below(), need.scratch, 3),
      plan_host_(*cpu_, need.plan, 5),
      plan_device_(device.below(), need.plan, 7) {
  (void)device_.left_behind();  // discards traces of the host's earlier calls
  instance_ = std::make_unique<Instance>(
      provider, largest, need,
      InstanceServices{device, packed, children, [](int, const std::string&) {}});
  left_ = device_.left_behind();
  if (!left_.empty()) left_ = "after create() and prepare() " + left_;
}

fk_ctx Execution::context() const {
  fk_ctx ctx{};
  ctx.struct_size = FK_END(fk_ctx, error);
  ctx.device_id = device_.id();
  ctx.stream = device_.stream();
  ctx.scratch = scratch_.data();
  ctx.scratch_bytes = need_.scratch;
  ctx.plan = plan_bytes_ ? plan_device_.data() : nullptr;
  ctx.plan_bytes = plan_bytes_;
  return ctx;
}

std::string Execution::plan(const CaseFrames& frames) {
  plan_bytes_ = 0;
  if (!instance_->has_plan()) return "";
  Instance& planner = planner_ ? *planner_ : *instance_;
  const auto frame = planner.fitted(SectionId::plan, frames.real().plan);
  plan_host_.poison(Poison::random);
  int64_t bytes = need_.plan;
  const int32_t status = planner.plan(frame.data(), plan_host_.data(), &bytes);
  if (status != FK_OK) return words(planner, "plan", status);
  if (bytes) plan_device_.write(0, plan_host_.data(), bytes);
  plan_bytes_ = bytes;
  return "";
}

std::vector<fk_slot> Execution::fitted(const CaseFrames& frames) const {
  return instance_->fitted(SectionId::forward, frames.real().forward);
}

int32_t Execution::forward(const std::vector<fk_slot>& frame) {
  fk_ctx ctx = context();
  return instance_->forward(frame.data(), ctx);
}

Execution::Outcome Execution::run(const CaseFrames& frames, Poison scratch,
                                  const std::function<void()>& launch) {
  Outcome out;
  scratch_.poison(scratch);
  // Checked at once, because the host's own calls restore part of the state.
  const auto look = [&](const char* when) {
    if (const std::string found = device_.left_behind(); !found.empty() && left_.empty())
      left_ = when + found;
  };
  (void)device_.left_behind();
  out.failure = plan(frames);
  look("after plan() ");
  if (!out.failure.empty()) return out;
  const auto plan_now = [this] {
    std::vector<std::byte> bytes(static_cast<size_t>(plan_bytes_));
    if (plan_bytes_) plan_device_.read(bytes.data(), 0, plan_bytes_);
    return bytes;
  };
  const auto plan_before = plan_now();
  const auto frame = fitted(frames), frame_before = frame;
  if (launch) {
    launch();
  } else if (const int32_t status = forward(frame); status != FK_OK) {
    out.failure = words(*instance_, "forward", status);
  }
  if (!launch) look("after forward() ");
  device_.synchronize();
  if (!left_.empty()) out.broken.push_back({"state", std::exchange(left_, "")});
  for (auto& found : frames.broken()) out.broken.push_back(std::move(found));
  const auto guard = [&](const GuardedBuffer& memory, const char* what) {
    if (const std::string found = memory.damage(); !found.empty())
      out.broken.push_back({"guard", std::string(what) + ": " + found});
  };
  guard(scratch_, "scratch memory");
  guard(plan_host_, "the blob of plan()");
  guard(plan_device_, "the device copy of the plan");
  if (plan_now() != plan_before)
    out.broken.push_back({"input", "the device copy of the plan was written"});
  if (std::memcmp(frame.data(), frame_before.data(), frame.size() * sizeof(fk_slot)) != 0)
    out.broken.push_back({"frame", "the forward frame was changed"});
  if (const std::string found = device_.damage(); !found.empty())
    out.broken.push_back({"guard", found});
  return out;
}

}  // namespace fk
