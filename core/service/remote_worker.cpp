// SPDX-License-Identifier: Apache-2.0
#include "core/service/remote_worker.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/service/remote_messages.hpp"
#include "core/service/stage_room.hpp"
#include "core/store/key.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWaitMs = "500";
constexpr const char* kOwnMost = "1000";

std::string worker_name(const std::string& device) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  constexpr uint32_t kNumbers = 10'000;
  return device + "@" + printable(host.data()) + "." + std::to_string(::getpid()) + "." +
         std::to_string(std::random_device{}() % kNumbers);
}

// The host of a worker's name.
std::string host_of(const std::string& name) {
  const size_t process = name.rfind('.', name.rfind('.') - 1), at = name.rfind('@', process);
  return at == name.npos || process == name.npos ? "" : name.substr(at, process - at);
}

// A folder which other workers do not touch while this one lives. Folders of killed ones on this
// host go: a lock may not reach other hosts of a shared file system.
class WorkerFolder {
 public:
  WorkerFolder(const fs::path& all, const std::string& name) : path_(all / name) {
    std::error_code code;
    fs::create_directories(path_, code);
    if (code) fail_host(path_.string(), "cannot be created: " + code.message());
    fs::permissions(path_, fs::perms::owner_all, code);
    lock_ = locked(path_);
    if (lock_ < 0) fail_host(path_.string(), "cannot be locked: " + errno_text());
    for (const auto& entry : fs::directory_iterator(all, code)) {
      if (entry.path() == path_ || host_of(entry.path().filename().string()) != host_of(name) ||
          !fs::exists(entry.path() / "lock", code))
        continue;
      const int left = locked(entry.path());
      if (left < 0) continue;
      fs::remove_all(entry.path(), code);
      ::close(left);
    }
  }
  ~WorkerFolder() {
    std::error_code none;
    fs::remove_all(path_, none);
    ::close(lock_);
  }
  WorkerFolder(const WorkerFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  static int locked(const fs::path& folder) {
    const int fd = ::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    ::close(fd);
    return -1;
  }
  fs::path path_;
  int lock_ = -1;
};

// Renews the claim on this worker's tasks: the present one, and those whose ends the server has not
// yet read. A delivery whose answer was lost is renewed by nobody, so it is taken over. A present
// task which this worker does not have any more was cancelled, or given to another worker.
class Claims {
 public:
  Claims(const RedisPlace& place, std::string name, double every_s)
      : redis_(place), name_(std::move(name)), every_s_(every_s), thread_([this] { work(); }) {}
  ~Claims() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Claims(const Claims&) = delete;
  // The present task; empty: none.
  void hold(const std::string& entry) {
    const std::lock_guard lock(mutex_);
    entry_ = entry, lost_ = false;
  }
  bool lost() const { return lost_; }
  // The end of this task is in Redis.
  void told(const std::string& entry) {
    const std::lock_guard lock(mutex_);
    told_.insert(entry);
    constexpr size_t kRemembered = 1000;
    if (told_.size() > kRemembered) told_.erase(told_.begin());
  }
  bool has_told(const std::string& entry) {
    const std::lock_guard lock(mutex_);
    return told_.contains(entry);
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (!closing_) {
      const std::string entry = entry_;
      const std::set<std::string> told = told_;
      lock.unlock();
      bool gone = false, away = false;
      try {
        redis_.ask({"HINCRBY", kAlive, name_, "1"});
        gone = !renewed(entry, told) && !entry.empty();
      } catch (const RedisRefusal& refusal) {
        gone = starts_with(refusal.what(), "NOGROUP");  // Redis has lost all tasks
        away = !gone;
      } catch (const std::exception&) {
        away = true;  // the task goes on, and the sign of life comes as soon as Redis is back
      }
      lock.lock();
      if (gone && entry == entry_) lost_ = true;
      wake_.wait_for(lock, std::chrono::duration<double>(away ? std::min(1.0, every_s_) : every_s_),
                     [&] { return closing_; });
    }
  }
  // True if `entry` is among this worker's tasks.
  bool renewed(const std::string& entry, const std::set<std::string>& told) {
    std::vector<std::string> words = {"XCLAIM", kTasks, kWorkers, name_, "0"};
    bool found = false;
    for (const RedisAnswer& one :
         redis_.ask({"XPENDING", kTasks, kWorkers, "-", "+", kOwnMost, name_}).parts) {
      const std::string& own = one.at(0).text;
      found |= own == entry;
      if (own == entry || told.contains(own)) words.push_back(own);
    }
    constexpr size_t kWithoutTasks = 5;
    if (words.size() == kWithoutTasks) return false;
    words.emplace_back("JUSTID");
    redis_.ask(words);
    return found;
  }

  Redis redis_;
  const std::string name_;
  const double every_s_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool closing_ = false;
  std::string entry_;
  std::set<std::string> told_;  // the last ones
  std::atomic<bool> lost_ = false;
  std::thread thread_;
};

class RemoteWorker {
 public:
  RemoteWorker(const RemoteWorkerOptions& options, const std::atomic<bool>& stop)
      : o_(options),
        stop_(stop),
        name_(worker_name(options.device)),
        folder_(options.folder, name_),
        redis_(redis_place(options.url)) {}

  int64_t run() {
    double last = now_seconds();
    const auto over = [&] { return stop_ || (o_.idle_s > 0 && now_seconds() - last > o_.idle_s); };
    const struct Leaving {
      RemoteWorker& worker;
      ~Leaving() { worker.leave(); }
    } leaving{*this};
    const auto ready = [&] { return need_servers_program(), true; };
    if (!patiently(ready, over)) return 0;
    claims_.emplace(redis_.place(), name_, std::min(5.0, o_.claim_s / 3));
    while (!over()) {
      const auto task = patiently([&] { return next(); }, over);
      if (!task || !*task) continue;
      judge((*task)->first, (*task)->second);
      last = now_seconds();
    }
    return judged_;
  }

 private:
  using Task = std::pair<std::string, RemoteTask>;

  // Tries an action again while Redis is away, until `over`. Then it returns nothing.
  template <class Action, class Over>
  auto patiently(const Action& action, const Over& over) -> std::optional<decltype(action())> {
    for (std::string told;;) {
      std::string why;
      try {
        auto out = action();
        if (!told.empty()) log_warn("Redis is back: " + redis_.place().text());
        return out;
      } catch (const RedisAway& away) {
        why = away.what();
      } catch (const RedisRefusal& refusal) {
        // The server makes the stream; it comes, or comes again.
        why = starts_with(refusal.what(), "NOGROUP") ? "there is no server" : refusal.what();
      }
      if (why != told) log_warn(why + "; it is asked again");
      told = why;
      claimed_s_ = now_seconds();  // other workers must have time for a sign of life
      if (over()) return std::nullopt;
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
  }

  // HostError when the server has another program. It may change while this worker lives.
  void need_servers_program() {
    const RedisAnswer text = redis_.ask({"GET", kServerProgram});
    if (text.none) throw RedisRefusal("NOGROUP");
    const auto program = from_fields<RemoteProgram>(parse_json(text.text, "the server's program"),
                                                    "the server's program", kOwnMessage);
    if (const std::string other = difference_of(program_, program); !other.empty())
      fail_host("work", "this worker would judge differently: " + other,
                "start the same program with the same registry and plugins on both machines");
  }

  // A task of a dead worker first, then a new one.
  std::optional<Task> next() {
    need_servers_program();
    const std::string dead_ms = std::to_string(static_cast<int64_t>(o_.claim_s * 1e3));
    if (now_seconds() - claimed_s_ > o_.claim_s / 3) {
      claimed_s_ = now_seconds();
      // One call looks at ten claims only, the oldest first.
      for (std::string from = "0", over = "0-0"; from != over;) {
        const RedisAnswer found =
            redis_.ask({"XAUTOCLAIM", kTasks, kWorkers, name_, dead_ms, from, "COUNT", "1"});
        if (auto task = first_of(found.at(1))) {
          log_warn("a task of a worker that is gone is taken over", {{"job", task->second.id}});
          return task;
        }
        from = found.at(0).text;
      }
    }
    const RedisAnswer found = redis_.ask({"XREADGROUP", "GROUP", kWorkers, name_, "COUNT", "1",
                                          "BLOCK", kWaitMs, "STREAMS", kTasks, ">"});
    return found.parts.empty() ? std::nullopt : first_of(found.at(0).at(1));
  }

  std::optional<Task> first_of(const RedisAnswer& entries) {
    if (entries.parts.empty()) return std::nullopt;
    const RedisAnswer& entry = entries.at(0);
    const std::string name = entry.at(0).text;
    // Its end may be in the stream already, by this worker or by one that died afterwards.
    if (claims_->has_told(name)) return std::nullopt;
    RemoteEnd end;
    end.entry = name, end.worker = name_;
    try {
      const auto task = from_fields<RemoteTask>(parse_json(entry.at(1).at(1).text, "a task"),
                                                "a task", kOwnMessage);
      job_request_from(parse_json(task.request, "job"), o_.languages);
      if (difference_of(program_, task.program).empty()) return Task{name, task};
      end.returned = true;  // the server has become another one, or this task is an older server's
    } catch (const Error& error) {
      end.why = error.what();
    }
    post(end);
    return std::nullopt;
  }

  void post(const RemoteEnd& end) {
    redis_.ask({"XADD", kEnds, "*", kMessageKey, canonical_text(to_fields(end))});
    claims_->told(end.entry);
  }

  void judge(const std::string& entry, const RemoteTask& task) {
    const std::string stage = visitors::Writer::json(task.stage).get<std::string>();
    const LogAbout about = {{"job", task.id}, {"client", task.client}, {"stage", stage}};
    log_info("a stage of a job begins", about);
    claims_->hold(entry);
    StageRoom room(folder_.path(), o_.device, o_.languages, task.authors);
    StageEnd stage_end = room.run({task.id, task.client, task.request, task.stage}, {},
                                  [&] { return stop_.load() || claims_->lost(); });
    const bool lost = claims_->lost();
    RemoteEnd end;
    end.entry = entry, end.worker = name_;
    end.seconds = stage_end.end.seconds;
    end.timed = stage_end.timed;
    const bool stopped = stop_ && !stage_end.end.why.empty();
    end.returned = stopped || stage_end.hosts || stage_end.end.hosts;
    if (!stopped) end.why = stage_end.end.why;
    if (stage_end.end.why.empty()) end.document = canonical_text(stage_end.end.document);
    end.log = log_text(room.log(), kLogMost);
    room.clear();
    if (lost) {
      log_warn("a task was cancelled or given to another worker", about);
    } else {
      post_end(end);
      judged_ += end.returned ? 0 : 1;
      log_info("a stage of a job ended", {{"job", task.id}, {"why", end.why}});
    }
    claims_->hold("");
    if (stage_end.hosts && !lost && !stopped)  // with the next task it would be the same
      fail_host("work", "this machine cannot judge: " + stage_end.end.why);
  }

  // Also when this worker is stopped, if Redis is there.
  void post_end(const RemoteEnd& end) {
    if (patiently([&] { return post(end), true; }, [&] { return stop_.load(); })) return;
    log_warn("the end of a task could not be told: another worker judges it again");
  }

  void leave() {
    if (!claims_) return;
    claims_.reset();
    try {
      // With tasks whose ends are not read it must stay known.
      constexpr int kTries = 20;
      for (int i = 0; i < kTries; ++i) {
        if (redis_.ask({"XPENDING", kTasks, kWorkers, "-", "+", "1", name_}).parts.empty()) {
          redis_.ask({"XGROUP", "DELCONSUMER", kTasks, kWorkers, name_});
          redis_.ask({"HDEL", kAlive, name_});
          return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    } catch (const std::exception&) {  // the server forgets it after a while
    }
  }

  const RemoteWorkerOptions& o_;
  const std::atomic<bool>& stop_;
  const std::string name_;
  const RemoteProgram program_ = own_remote_program();
  WorkerFolder folder_;
  Redis redis_;
  std::optional<Claims> claims_;      // from the server's consent until it leaves
  double claimed_s_ = now_seconds();  // the last time when it looked for tasks of dead workers
  int64_t judged_ = 0;
};

}  // namespace

int64_t run_remote_worker(const RemoteWorkerOptions& options, const std::atomic<bool>& stop) {
  return RemoteWorker(options, stop).run();
}

}  // namespace fk
