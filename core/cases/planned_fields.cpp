// SPDX-License-Identifier: Apache-2.0
// The host copies of fields for plan().
#include "core/cases/case_frames.hpp"

namespace fk {

void CaseFrames::build_plan() {
  for (const auto& slot : resolved_.contract->section(SectionId::plan)) {
    const CaseField* field = slot.mirror.empty() ? nullptr : resolved_.find(slot.mirror);
    fk_slot value{};
    if (field) {
      const Tensor host = contents(slot.mirror);
      auto& memory = plan_memory_.emplace_back(*cpu_, host.bytes(), layout_.shift++);
      memory.write(0, host.data(), host.bytes());
      planned_.push_back(slot.mirror);
      fk_in v = *at(*field, 0).real;
      v.device_type = FK_CPU;
      v.device_id = 0;
      v.data = memory.data();
      v.strides = dims_.emplace_back(contiguous_strides(field->shape)).data();
      v.nbytes = host.bytes();
      value.p = &views_.emplace_back(v);
    }
    real_.plan.push_back(value);
  }
  meta_.plan = real_.plan;
}

void CaseFrames::refresh_plan() {
  for (size_t i = 0; i < planned_.size(); ++i) {
    const Tensor host = contents(planned_[i]);
    plan_memory_[i].write(0, host.data(), host.bytes());
  }
}

}  // namespace fk
