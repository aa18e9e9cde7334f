// SPDX-License-Identifier: Apache-2.0
// One job of an evaluation: `fk-host bench` or `fk-host run` in a process of its own. The job's
// result is that verb's document. So there is no second judge, and a dying job loses nothing else.
#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/store/key.hpp"

namespace fk {

struct EvalJob {
  int tier = 1;
  std::string submission, what;      // what: for people
  std::filesystem::path candidates;  // FK_CANDIDATES of the process
  std::filesystem::path cache;       // its FK_CACHE; empty: this process's
  std::vector<std::string> words;    // of fk-host, without --device and --json
  std::string plugin, op, mode,
      like;                        // tier 1: plugin and op; like: equal for jobs of equal length
  std::filesystem::path scenario;  // tier 2
  VerdictKey key;                  // all that the result depends on
  double estimate_s = 0;
  bool measured = false;  // the estimate is an earlier job's time
};

struct JobEnd {
  Json document;    // null: there is none
  std::string why;  // why there is none; empty: there is one
  double seconds = 0;
  std::string date;  // of its end, UTC
  // The process was killed or its machine failed: `why` says nothing about the candidate.
  bool hosts = false;
};

// Runs the job on a device. The document is written to `file`, the output to `log`. The process
// ends with this thread. `stop` is asked several times a second, if it is given; true ends the
// process, and JobEnd::why says so. [any thread]
JobEnd run_job(const EvalJob& job, const std::string& device, const std::filesystem::path& file,
               const std::filesystem::path& log, const std::function<bool()>& stop = {});

}  // namespace fk
