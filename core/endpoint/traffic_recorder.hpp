// SPDX-License-Identifier: Apache-2.0
// Keeps the requests of a served model and their answers, in a folder which is a scenario: `fk-host
// run` replays it. Each request is one line of a file, written when its answer ends. So the folder
// is complete at any time, and a killed server loses only open requests. A line which the disk does
// not take is taken back; later ones are tried again.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>

#include "core/engines/recorded_load.hpp"
#include "core/engines/scenario.hpp"

namespace fk {

class TrafficRecorder {
 public:
  using Say = std::function<void(const std::string& text)>;
  // Makes the folder, which this user alone can read. Error when that fails, or when the folder has
  // a recording already. `say` tells people of a full disk, of the end of `bytes_max`, and at the
  // end of the number of requests.
  TrafficRecorder(const Scenario& scenario, const std::filesystem::path& folder, int64_t bytes_max,
                  Say say);
  ~TrafficRecorder();
  TrafficRecorder(const TrafficRecorder&) = delete;

  double begun_s() const { return begun_s_; }  // by the clock of now_seconds()
  // A request has ended. [any thread]
  void add(const RecordedRequest& request);

 private:
  bool append(const std::string& line);
  const std::filesystem::path folder_;
  const int64_t bytes_max_;
  const Say say_;
  const double begun_s_;
  std::mutex mutex_;  // of all below
  int file_ = -1;
  int64_t bytes_ = 0, kept_ = 0, lost_ = 0;
  bool failing_ = false, full_ = false;
};

}  // namespace fk
