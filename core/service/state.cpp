// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/service/service.hpp"
#include "core/service/state_document.hpp"

namespace fk {

Json Service::state() {
  const JobQueue::Counts counts = queue_.counts();
  ServiceState out;
  const auto waiting = [&](const char* stage) {
    const auto found = counts.waiting.find(stage);
    return found == counts.waiting.end() ? 0 : found->second;
  };
  out.waiting_check = waiting("check");
  out.waiting_time = waiting("time");
  out.ended_minute = counts.ended_minute;
  out.ended_hour = counts.ended_hour;
  out.mean_s = counts.ended > 0 ? counts.seconds / static_cast<double>(counts.ended) : 0;
  for (const auto& client : counts.clients)
    out.clients.push_back({client.name, client.queued, client.running, client.ended});
  for (const auto& [status, ended] : counts.statuses) out.statuses.push_back({status, ended});
  const double now = now_seconds();
  out.up_s = now - began_s_;
  const auto remote = remote_ ? remote_->sight().workers : std::vector<RemoteLane::Worker>{};
  const std::lock_guard lock(mutex_);
  for (const Lane& lane : lanes_) {
    ServiceLane one;
    one.device = lane.device;
    one.stages = !lane.times ? "check" : !lane.checks ? "time" : "check, time";
    one.client = lane.client;
    if (!lane.client.empty()) {
      one.stage = lane.stage == JobStage::check ? "check" : "time";
      one.seconds = now - lane.since_s;
    }
    out.lanes.push_back(std::move(one));
  }
  for (const auto& worker : remote) {
    ServiceLane one{worker.name, "check, time", worker.client, "", 0};
    if (!worker.client.empty()) {
      one.stage = worker.stage == JobStage::check ? "check" : "time";
      one.seconds = now - worker.since_s;
    }
    out.lanes.push_back(std::move(one));
  }
  return document(out);
}

}  // namespace fk
