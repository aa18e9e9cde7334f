// SPDX-License-Identifier: Apache-2.0
// One stage of a job in a folder and on a device: the lanes of the server and workers on other
// machines run it alike.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "core/eval/job.hpp"
#include "core/service/job_queue.hpp"
#include "core/service/request.hpp"

namespace fk {

struct StageTask {
  std::string id, client, request;
  JobStage stage = JobStage::check;
};

struct StageEnd {
  JobEnd end;
  bool timed = false;  // no further stage follows a right answer
  bool hosts = false;  // the host failed: end.why says nothing about the task
  // The status of the verdict; empty: it has none.
  std::string status() const;
};

class StageRoom {
 public:
  // `folder` is this room's alone. `authors`: clients are authors of sources whose notes name none.
  StageRoom(std::filesystem::path folder, std::string device, const SourceLanguages& languages,
            bool authors);
  // `built`: a folder with the task's compiled files, which is moved; missing: they are compiled.
  // `stop`: see run_job(). Never throws: StageEnd says why it failed.
  StageEnd run(const StageTask& task, const std::filesystem::path& built,
               const std::function<bool()>& stop);
  // Removes all files of the task. Headers stay, which are the same for each.
  void clear();
  const std::string& device() const { return device_; }
  std::filesystem::path log() const { return folder_ / "log.txt"; }
  std::filesystem::path candidates() const { return folder_ / "candidates"; }

 private:
  std::filesystem::path folder_;
  std::string device_;
  const SourceLanguages& languages_;
  bool authors_;
};

// The end of a job's output, without unsafe characters. A candidate may have written it.
std::string log_text(const std::filesystem::path& file, size_t most);
constexpr size_t kLogMost = size_t{256} << 10;  // bytes of a log which are kept

}  // namespace fk
