// SPDX-License-Identifier: Apache-2.0
// Jobs for clients of the network, without the network: requests become answers. A thread for each
// device runs one job after another. Each job is a process of its own (core/eval/job.hpp).
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/service/http_app.hpp"
#include "core/service/job_queue.hpp"
#include "core/service/request.hpp"

namespace fk {

class Service final : public HttpApp {
 public:
  struct Options {
    std::vector<std::string> devices;
    std::filesystem::path folder;  // of the queue and of running jobs
    SourceLanguages languages;
    QueueLimits limits;
    size_t body_most = size_t{32} << 20;  // bytes
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
  void work(const std::string& device, size_t number);
  void run(const JobQueue::Taken& taken, const std::string& device, size_t number);
  std::shared_ptr<std::atomic<bool>> begin(const std::string& id);

  Options options_;
  JobQueue queue_;
  std::mutex mutex_;  // of all below
  std::condition_variable wake_;
  bool closing_ = false;
  uint64_t arrivals_ = 0;
  std::map<std::string, std::shared_ptr<std::atomic<bool>>> running_;  // true: stop
  std::map<std::string, std::filesystem::path> logs_;                  // of running jobs
  std::map<unsigned, uint64_t> answered_;
  std::vector<std::thread> threads_;
};

// Limits of a list of jobs: so many if no number is given, at most, and left out.
constexpr int64_t kListed = 100, kListedMost = 1000, kSkippedMost = JobQueue::kEndedMost * 100;

// The description of all of it for other programs (OpenAPI 3.1).
Json openapi(const Service::Options& options);

}  // namespace fk
