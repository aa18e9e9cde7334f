// SPDX-License-Identifier: Apache-2.0
// Memory of a candidate's processes, as the kernel and the driver count it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/judge/gpu_telemetry.hpp"
#include "core/judge/judge_pool.hpp"
#include "core/judge/memory_account.hpp"

namespace fk {

class CandidateMemory {
 public:
  // Room and candidate outlive this object.
  CandidateMemory(JudgePool& room, RankGroup& candidate);

  // begin() comes before instances are made. lend() has the bytes that they were given, by rank.
  void begin() { account_.begin(look(true)); }
  void lend(const std::vector<int64_t>& by_rank);
  // Counts only later growth, because a device's memory in use now includes the baseline's. No
  // effect on the CPU: it counts this process alone, and counts memory at its first use.
  void hold() {
    if (!gpus_.empty()) begin();
  }
  // Empty, or the reason for a verdict: the candidate took more memory. Its processes are ended
  // then, unless the memory is another process's, which `somebody` describes.
  std::string taken(const char* who, std::string& somebody);
  // The protection that the verdict names: can the driver tell the owner of memory?
  Protection protection() const;

 private:
  MemoryLooks look(bool whose) const;
  JudgePool& room_;
  RankGroup& candidate_;
  std::vector<size_t> places_;                       // by rank
  std::vector<std::unique_ptr<GpuTelemetry>> gpus_;  // by place; empty on the CPU
  MemoryAccount account_;
};

}  // namespace fk
