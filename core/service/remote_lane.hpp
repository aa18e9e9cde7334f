// SPDX-License-Identifier: Apache-2.0
// The server's side of workers on other machines (remote_messages.hpp). The queue's file stays the
// only memory of jobs: Redis has no more tasks than there are workers. When Redis loses them, they
// are queued again. One thread.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/service/job_queue.hpp"
#include "core/service/redis.hpp"
#include "core/service/remote_messages.hpp"
#include "core/service/stage_room.hpp"

namespace fk {

class RemoteLane {
 public:
  struct Hooks {
    // The next job to run; it is `running` in the queue from now on. [the lane's thread]
    std::function<std::optional<std::pair<JobQueue::Taken, JobStage>>()> next;
    // A stage has ended. [the lane's thread]
    std::function<void(const JobQueue::Taken&, const StageEnd&, const std::string& log,
                       const std::string& worker)>
        ended;
  };
  // `name`: of this server, the same after its restart. Another server with the same database is
  // refused while this one works.
  RemoteLane(const std::string& url, std::string name, bool authors, JobQueue& queue, Hooks hooks);
  // Tasks stay with their workers, and their ends in Redis, until a server begins.
  ~RemoteLane();
  RemoteLane(const RemoteLane&) = delete;

  // Takes a cancelled job from its worker. [any thread]
  void cancel(const std::string& id);

  struct Worker {
    std::string name, client;  // client: whose job runs; empty: none runs
    JobStage stage = JobStage::check;
    double since_s = 0;
  };
  struct Sight {
    bool connected = false;
    std::vector<Worker> workers;
    std::map<std::string, int64_t> ends;  // of tasks, by kind, since the server began
  };
  Sight sight() const;  // [any thread]

 private:
  struct Out {           // a task which is in Redis
    int64_t number = 0;  // of the job, as of JobQueue::Taken
    std::string id, client, worker;
    JobStage stage = JobStage::check;
    double since_s = 0;
  };
  void work();
  void begin();
  void serve();
  void hold_lock();
  std::vector<Worker> living();
  void forget(const std::string& worker);
  void look();
  void reconcile();
  void send();
  void receive();
  void end(const RedisAnswer& entry);
  void withdraw(std::string entry);
  void withdraw_cancelled();
  void withdraw_earlier(const std::string& id);
  void make_group();
  void count(const std::string& kind);

  const std::string name_;
  const bool authors_;
  const RemoteProgram program_ = own_remote_program();
  JobQueue& queue_;
  const Hooks hooks_;
  Redis redis_;
  std::map<std::string, Out> out_;  // by the entry's name; changed under mutex_
  double alive_s_ = 0;              // when a worker was last there
  struct Sign {
    std::string number;  // of kAlive
    double since_s = 0;
  };
  std::map<std::string, Sign> signs_;  // the last sign of life of each worker
  mutable std::mutex mutex_;           // of all below, and of changes of out_
  std::condition_variable wake_;
  std::atomic<bool> closing_ = false;
  std::set<std::string> cancelled_;
  Sight sight_;
  std::thread thread_;
};

}  // namespace fk
