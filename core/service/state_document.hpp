// SPDX-License-Identifier: Apache-2.0
// The present state of a service, for `fk-host top` and other programs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/fields.hpp"
#include "core/report/document.hpp"

namespace fk {

struct ServiceLane {
  std::string device, stages, client, stage;
  double seconds = 0;
};
template <class Visitor>
void fields(Visitor& v, ServiceLane& l) {
  v("device", l.device, "the device of its jobs, or the name of a worker elsewhere");
  v("stages", l.stages, "the stages of jobs that it takes: check, time, or both");
  v("client", l.client, "whose job runs; empty: none runs");
  v("stage", l.stage, "the stage of that job");
  v("seconds", l.seconds, "since the job's stage began");
}

struct ServiceClientState {
  std::string name;
  int64_t queued = 0, running = 0, ended = 0;
};
template <class Visitor>
void fields(Visitor& v, ServiceClientState& c) {
  v("name", c.name, "a token's name or an address");
  v("queued", c.queued, "jobs that wait");
  v("running", c.running, "jobs that run");
  v("ended", c.ended, "jobs that ended, since the queue exists");
}

struct ServiceStatus {
  std::string status;
  int64_t ended = 0;
};
template <class Visitor>
void fields(Visitor& v, ServiceStatus& s) {
  v("status", s.status, "of a verdict; failed: there was none");
  v("ended", s.ended, "jobs that ended so, since the queue exists");
}

struct ServiceState {
  static constexpr const char* kSchema = "fk-host.service/1";
  static constexpr const char* kTitle = "The state of `fk-host serve --http`";
  double up_s = 0;
  int64_t waiting_check = 0, waiting_time = 0, ended_minute = 0, ended_hour = 0;
  double mean_s = 0;
  std::vector<ServiceLane> lanes;
  std::vector<ServiceClientState> clients;
  std::vector<ServiceStatus> statuses;
};
template <class Visitor>
void fields(Visitor& v, ServiceState& s) {
  v("up_s", s.up_s, "seconds since the server began");
  v("waiting_check", s.waiting_check, "jobs that wait for their check");
  v("waiting_time", s.waiting_time, "right jobs that wait to be timed");
  v("ended_minute", s.ended_minute, "jobs that ended in the last minute");
  v("ended_hour", s.ended_hour, "jobs that ended in the last hour");
  v("mean_s", s.mean_s, "mean seconds of an ended job on its device, in its last stage");
  v("lanes", s.lanes, "each runs one job at a time");
  v("clients", s.clients, "the last to have a turn first, at most 100");
  v("statuses", s.statuses, "how jobs ended");
}

}  // namespace fk
