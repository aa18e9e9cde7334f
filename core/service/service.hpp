// SPDX-License-Identifier: Apache-2.0
// Jobs for clients of the network, without the network: requests become answers. Threads, the
// lanes, run one job after another. Each job is a process of its own (core/eval/job.hpp). The CPU
// has a lane for checks and a lane for timings. Another device has one lane, in which checks come
// first.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/service/http_app.hpp"
#include "core/service/job_queue.hpp"
#include "core/service/remote_lane.hpp"
#include "core/service/request.hpp"
#include "core/service/stage_room.hpp"

namespace fk {

class Service final : public HttpApp {
 public:
  struct Options {
    std::vector<std::string> devices;
    std::filesystem::path folder;  // of the queue and of running jobs
    SourceLanguages languages;
    QueueLimits limits;
    size_t body_most = size_t{32} << 20;  // bytes
    bool named_clients = false;           // by tokens; else a client's name is its address
    std::string redis;                    // URL of the database of workers elsewhere; empty: none
  };
  // HostError when the queue cannot be used. Starts the threads.
  explicit Service(Options options);
  // Ends running jobs and puts them back into the queue.
  ~Service() override;
  Service(const Service&) = delete;

  ApiAnswer answer(const ApiRequest& request) override;
  // One event of a job as text/event-stream: its present state, if it differs from `last`, which is
  // replaced. `over`: no further event comes. [any thread]
  struct Event {
    std::string text;
    bool over = false;
  };
  Event event(const std::string& id, const std::string& client, std::string& last);
  void count(unsigned status) override;
  size_t body_most() const override { return options_.body_most; }

 private:
  ApiAnswer routed(const ApiRequest& request);
  ApiAnswer submit(const ApiRequest& request);
  ApiAnswer of_job(const ApiRequest& request, const std::string& id, const std::string& part);
  ApiAnswer list(const ApiRequest& request, const std::string& query);
  std::string metrics();
  Json state();
  struct Lane {
    std::string device, folder;  // folder: its name
    bool checks = true, times = true;
    int checks_in_row = 0;
    // The job that runs; under mutex_. No client: none runs.
    std::string client = {};
    JobStage stage = JobStage::check;
    double since_s = 0;
  };
  void work(Lane& lane);
  // The next job of a lane, with its stage.
  std::optional<std::pair<JobQueue::Taken, JobStage>> next(Lane& lane);
  void run(const JobQueue::Taken& taken, JobStage stage, Lane& lane);
  // A stage has ended. `built`: the folder with its compiled files; empty: they are elsewhere.
  void after(const JobQueue::Taken& taken, const StageEnd& end, const std::string& device,
             const std::string& log, const std::filesystem::path& built);
  void finish(const JobQueue::Taken& taken, const std::string& device, const StageEnd& end,
              const std::string& log);
  // Where a right candidate waits to be timed, with its plugin: it is not compiled again.
  std::filesystem::path right(int64_t number) const {
    return options_.folder / "right" / std::to_string(number);
  }
  // Writes into the queue's file, again and again while this fails. False: the server ends.
  bool surely(const std::function<void()>& write);
  void arrived();
  std::shared_ptr<std::atomic<bool>> begin(const JobQueue::Taken& taken, JobStage stage, Lane& lane,
                                           const std::filesystem::path& log);

  Options options_;
  JobQueue queue_;
  const double began_s_ = now_seconds();
  std::mutex mutex_;  // of all below
  std::condition_variable wake_;
  bool closing_ = false;
  uint64_t arrivals_ = 0;
  // Jobs in lanes, by number.
  std::map<int64_t, std::shared_ptr<std::atomic<bool>>> running_;  // true: stop
  std::map<int64_t, std::filesystem::path> logs_;
  std::map<unsigned, uint64_t> answered_;
  std::vector<Lane> lanes_;
  std::vector<std::thread> threads_;
  Lane elsewhere_ = {.device = "redis", .folder = {}};  // of remote_'s thread
  std::unique_ptr<RemoteLane> remote_;                  // null: there are no workers elsewhere
};

// The device whose checks do not wait for timings: it has no memory or clock of its own to lose.
// On another device one process after the other measures (core/judge/device_lock.hpp).
constexpr const char* kCheckedApart = "cpu";

// Limits of a list of jobs: so many if no number is given, at most, and left out.
constexpr int64_t kListed = 100, kListedMost = 1000, kSkippedMost = JobQueue::kEndedMost * 100;

// The description of all of it for other programs (OpenAPI 3.1).
Json openapi(const Service::Options& options);

}  // namespace fk
