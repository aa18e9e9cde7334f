// SPDX-License-Identifier: Apache-2.0
#include "core/judge/candidate_memory.hpp"

#include <unistd.h>

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"
#include "core/device/rank_device.hpp"
#include "core/worker/process.hpp"

namespace fk {

CandidateMemory::CandidateMemory(JudgePool& room, RankGroup& candidate)
    : room_(room), candidate_(candidate) {
  std::vector<std::string> seen;
  const bool host = room.device() == "cpu";
  for (const auto& device : devices_of_ranks(room.device(), candidate.size())) {
    const auto at = std::find(seen.begin(), seen.end(), device) - seen.begin();
    places_.push_back(host ? places_.size() : static_cast<size_t>(at));
    if (at < std::ssize(seen)) continue;
    seen.push_back(device);
    if (!host) gpus_.push_back(GpuTelemetry::of(device));
  }
}

void CandidateMemory::lend(const std::vector<int64_t>& by_rank) {
  std::vector<int64_t> out(by_rank.size(), 0);
  for (size_t r = 0; r < by_rank.size(); ++r) out[places_.at(r)] += by_rank[r];
  account_.lend(std::move(out));
}

// With `whose` also asks the driver for the owners of memory, which takes it milliseconds.
MemoryLooks CandidateMemory::look(bool whose) const {
  MemoryLooks out(gpus_.empty() ? places_.size() : gpus_.size());
  const auto pids_at = [&](const RankGroup& group, size_t place) {
    std::vector<pid_t> pids;
    for (size_t r = 0; r < places_.size(); ++r)
      if (places_[r] == place) pids.push_back(group.pid(static_cast<int>(r)));
    return pids;
  };
  for (size_t i = 0; i < out.size(); ++i) {
    if (gpus_.empty()) {
      out[i].all = resident_bytes(candidate_.pid(static_cast<int>(i)));
      out[i].own = out[i].all;
    } else if (gpus_[i]) {
      out[i].all = gpus_[i]->used_bytes().value_or(0);
      if (!whose) continue;
      // If the list has the baseline's processes, which use the device too, its process numbers are
      // the ones of this machine.
      const auto all = gpus_[i]->processes();
      if (bytes_of(all, pids_at(room_.baseline(candidate_.size()), i)))
        out[i].own = bytes_of(all, pids_at(candidate_, i));
    }
  }
  return out;
}

std::string CandidateMemory::taken(const char* who, std::string& somebody) {
  using Whose = MemoryAccount::Whose;
  constexpr double kLongest = 5;
  somebody.clear();
  if (!account_.taken(look(false))) return "";
  const MemoryLooks now = look(true);
  const auto found = account_.taken(now);
  if (!found) return "";
  const std::string some = human_bytes(found->bytes);
  std::string why = std::string("its ") + who + " took " + some;
  if (gpus_.empty())
    why += " of memory that supports() did not ask for";
  else if (found->whose == Whose::candidate)
    why += " of device memory, by the driver's count for its process";
  else
    why += " of the device's memory, which came back when its process had ended";
  if (found->whose != Whose::somebody_else) candidate_.condemn("memory", why);
  if (found->whose == Whose::candidate) return why;
  const double end = now_seconds() + kLongest;
  for (; found->whose == Whose::unknown && now_seconds() < end; ::usleep(2000))
    if (account_.came_back(*found, now, look(false))) return why;
  somebody = "another process took " + some + " of its memory meanwhile";
  return "";
}

Protection CandidateMemory::protection() const {
  Protection out{"memory by process", true, ""};
  for (const MemoryLook& place : look(true)) out.active &= place.own.has_value();
  if (!out.active)
    out.why =
        "the driver does not tell which process has it; that of the whole device is looked "
        "at, and at what comes back";
  return out;
}

}  // namespace fk
