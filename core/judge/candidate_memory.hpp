// SPDX-License-Identifier: Apache-2.0
// The memory that a candidate's processes have, as the kernel and the driver count it.
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
  // Both outlive it.
  CandidateMemory(JudgePool& room, RankGroup& candidate);

  // Before its instances are made; and what they have been given then, by rank.
  void begin() { account_.begin(look(true)); }
  void lend(const std::vector<int64_t>& by_rank);
  // What is held from here on is not the candidate's. Of a device all memory is taken when it is
  // given; the CPU's is when it is used for the first time, and nobody else's is counted there.
  void hold() {
    if (!gpus_.empty()) begin();
  }
  // Whether it has taken more, or somebody else has: why, or empty, `somebody` says what. Then its
  // processes were ended, but where others are known to have it.
  std::string taken(const char* who, std::string& somebody);
  // How it knows whose memory it is.
  Protection protection() const;

 private:
  MemoryLooks look(bool whose) const;
  JudgePool& room_;
  RankGroup& candidate_;
  std::vector<size_t> places_;                   // by rank
  std::vector<std::unique_ptr<GpuTelemetry>> gpus_;  // by place; empty on the CPU
  MemoryAccount account_;
};

}  // namespace fk
