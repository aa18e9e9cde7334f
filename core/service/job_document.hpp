// SPDX-License-Identifier: Apache-2.0
// Documents about jobs, as clients of the service get them.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/base/fields.hpp"
#include "core/report/document.hpp"
#include "core/service/job_queue.hpp"

namespace fk {

struct JobDocument {
  static constexpr const char* kSchema = "fk-host.job/1";
  static constexpr const char* kTitle = "A job of `fk-host serve --http`";
  JobDocument() = default;
  explicit JobDocument(ServiceJob of) : job(std::move(of)) {}
  ServiceJob job;
  std::string step;
};
template <class Visitor>
void fields(Visitor& v, JobDocument& d) {
  v("id", d.job.id, "its name in paths");
  v("name", d.job.name, "the plugin's name");
  v("state", d.job.state, "queued, running, or how it ended; failed: there is no verdict");
  v("stage", d.job.stage, "check: values alone; time: it is right, and its speed is measured");
  v("place", d.job.place, "its place in the stage's queue, 1 is the next; 0: it does not wait");
  v("status", d.job.status, "the status of its verdict; empty: there is none");
  v("why", d.job.why, "why there is no verdict; empty: there is one, or not yet");
  v("device", d.job.device, "the device of its last start");
  v("submitted", d.job.submitted, "UTC");
  v("started", d.job.started, "UTC; empty: not yet");
  v("ended", d.job.ended, "UTC; empty: not yet");
  v("starts", d.job.starts, "how often its stage began: more than once after a server's death");
  v("step", d.step, "in events: the last line of its output");
}

struct JobListDocument {
  static constexpr const char* kSchema = "fk-host.jobs/1";
  static constexpr const char* kTitle = "Jobs of a client of `fk-host serve --http`";
  std::vector<JobDocument> jobs;
};
template <class Visitor>
void fields(Visitor& v, JobListDocument& d) {
  v("jobs", d.jobs, "the newest first");
}

}  // namespace fk
