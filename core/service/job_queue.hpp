// SPDX-License-Identifier: Apache-2.0
// The jobs of `fk-host serve --http`, in one SQLite file: a killed server finds them again. A job
// is checked, and a right one waits again to be timed. Each stage has its own queue. Clients take
// turns in it: the next job is the oldest of the client whose last turn is the longest ago.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fk {

enum class JobState : uint8_t { queued, running, done, failed, cancelled };
constexpr std::array kJobStates = {
    std::pair(JobState::queued, "queued"), std::pair(JobState::running, "running"),
    std::pair(JobState::done, "done"), std::pair(JobState::failed, "failed"),
    std::pair(JobState::cancelled, "cancelled")};
constexpr const auto& json_names(JobState) { return kJobStates; }

enum class JobStage : uint8_t { check, time };
constexpr std::array kJobStages = {std::pair(JobStage::check, "check"),
                                   std::pair(JobStage::time, "time")};
constexpr const auto& json_names(JobStage) { return kJobStages; }

struct ServiceJob {
  std::string id, client, name;
  int64_t number = 0;  // of this submission
  JobState state = JobState::queued;
  JobStage stage = JobStage::check;       // the present one, or the last
  std::string status;                     // of the verdict
  std::string why;                        // why there is no verdict
  std::string device;                     // of the last start
  std::string submitted, started, ended;  // UTC; empty: not yet
  int64_t place = 0;                      // in its stage, 1: the next one; 0: it does not wait
  int64_t starts = 0;
};

// Limits of one client in the queue.
struct QueueLimits {
  int64_t jobs = 1000;
  int64_t bytes = int64_t{1} << 30;  // of requests
};

class JobQueue {
 public:
  // Makes the folder and holds its lock. Jobs that ran are queued again; a job that ran in
  // kStartsMost servers which died has failed. HostError when another process has the folder, and
  // when it cannot be used. All functions: any thread.
  explicit JobQueue(const std::filesystem::path& folder);
  ~JobQueue();
  JobQueue(const JobQueue&) = delete;
  static constexpr int64_t kStartsMost = 3;
  static constexpr int64_t kEndedMost = 10'000;  // of one client; older results are forgotten

  struct Added {
    std::string id;
    bool fresh = false;    // false: the client has this job already
    bool refused = false;  // over the limits
  };
  // The same request of one client is the same job. A failed or cancelled one is queued again.
  Added add(const std::string& client, const std::string& name, const std::string& request,
            const QueueLimits& limits);
  struct Taken {
    int64_t number = 0;
    std::string id, name, request, client;
  };
  std::optional<Taken> take(const std::string& device, JobStage stage);
  // A job which was cancelled and submitted again has its id again, and another number. So a run
  // of the first submission has no effect on the second one.
  // A running job, which was checked and is right, waits to be timed. False when it does not run.
  bool to_timing(int64_t number);
  // Back into the queue, as if it had not started.
  void put_back(int64_t number);
  // A waiting job runs already, at a worker which a server before this one told. False when it does
  // not wait in this stage.
  bool adopt(int64_t number, const std::string& id, JobStage stage);
  bool runs(int64_t number);
  // A running job is on this device.
  void on_device(int64_t number, const std::string& device);
  // Back into the queue behind a failure of the host. False after kStartsMost starts.
  bool again(int64_t number);
  // `document` empty: it failed because of `why`. False when it does not run: a job which is
  // cancelled by now stays so.
  bool finish(int64_t number, const std::string& status, const std::string& document,
              const std::string& log, const std::string& why, double seconds);
  // False when it has ended already.
  bool cancel(const std::string& id);

  std::optional<ServiceJob> find(const std::string& id, const std::string& client);
  // The newest first, at most `most`, behind the first `skip`.
  std::vector<ServiceJob> list(const std::string& client, int64_t most, int64_t skip);
  std::string document(const std::string& id);
  std::string log(const std::string& id);

  struct Counts {
    std::map<std::string, int64_t> states;     // jobs by state
    std::map<std::string, int64_t> waiting;    // queued jobs by stage
    std::map<std::string, int64_t> statuses;   // ended jobs by status, since the queue exists
    int64_t ended = 0;                         // their number
    double seconds = 0;                        // their time on devices
    int64_t ended_minute = 0, ended_hour = 0;  // those of the last minute and hour
    struct Client {
      std::string name;
      int64_t queued = 0, running = 0, ended = 0;
    };
    std::vector<Client> clients;
  };
  Counts counts();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The name of a job: the same for equal requests of one client.
std::string job_id(const std::string& client, const std::string& request);

}  // namespace fk
