// SPDX-License-Identifier: Apache-2.0
#include "core/service/remote_lane.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/store/key.hpp"

namespace fk {

namespace {

constexpr double kLookEveryS = 1, kReconcileEveryS = 10;
constexpr double kAloneS = 30;  // without a worker for so long, tasks go back into the queue
constexpr const char* kLockMs = "20000";
constexpr const char* kBlockMs = "100";
constexpr const char* kPendingMost = "1000";
constexpr double kForgottenS = 600;  // a worker that is gone

// A text of a list of names and values.
const RedisAnswer* value_of(const RedisAnswer& pairs, const std::string& name) {
  for (size_t i = 0; i + 1 < pairs.parts.size(); i += 2)
    if (pairs.parts[i].text == name) return &pairs.parts[i + 1];
  return nullptr;
}

}  // namespace

RemoteLane::RemoteLane(const std::string& url, std::string name, bool authors, JobQueue& queue,
                       Hooks hooks)
    : name_(std::move(name)),
      authors_(authors),
      queue_(queue),
      hooks_(std::move(hooks)),
      redis_(redis_place(url)) {
  thread_ = std::thread([this] { work(); });
}

RemoteLane::~RemoteLane() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void RemoteLane::cancel(const std::string& id) {
  const std::lock_guard lock(mutex_);
  cancelled_.insert(id);
}

RemoteLane::Sight RemoteLane::sight() const {
  const std::lock_guard lock(mutex_);
  Sight out = sight_;
  for (Worker& worker : out.workers)
    for (const auto& [entry, task] : out_)
      if (task.worker == worker.name)
        worker.client = task.client, worker.stage = task.stage, worker.since_s = task.since_s;
  return out;
}

void RemoteLane::count(const std::string& kind) {
  const std::lock_guard lock(mutex_);
  ++sight_.ends[kind];
}

void RemoteLane::work() {
  std::string told;
  while (!closing_) {
    std::string why;
    try {
      begin();
      if (!told.empty()) log_warn("Redis is back: " + redis_.place().text());
      told.clear();
      serve();
    } catch (const std::exception& error) {
      why = error.what();
    }
    if (!why.empty() && why != told) log_warn("workers elsewhere cannot be reached: " + why);
    if (!why.empty()) told = why;
    std::unique_lock lock(mutex_);
    sight_.connected = false;
    wake_.wait_for(lock, std::chrono::seconds(1), [&] { return closing_.load(); });
  }
  try {
    if (redis_.ask({"GET", kServerLock}).text == name_) redis_.ask({"DEL", kServerLock});
  } catch (const std::exception&) {  // it ends by its time
  }
}

void RemoteLane::make_group() {
  try {
    redis_.ask({"XGROUP", "CREATE", kTasks, kWorkers, "0", "MKSTREAM"});
  } catch (const RedisRefusal& refusal) {
    if (!starts_with(refusal.what(), "BUSYGROUP")) throw;
  }
}

void RemoteLane::begin() {
  hold_lock();
  redis_.ask({"SET", kServerProgram, canonical_text(to_fields(program_))});
  make_group();
  reconcile();
  alive_s_ = now_seconds();  // workers have time for a sign of life when Redis is back
  const std::lock_guard lock(mutex_);
  sight_.connected = true;
}

void RemoteLane::serve() {
  double looked = 0, reconciled = now_seconds();
  while (!closing_) {
    const double now = now_seconds();
    if (now - looked >= kLookEveryS) {
      hold_lock();
      look();
      looked = now;
    }
    if (now - reconciled >= kReconcileEveryS) {
      reconcile();
      reconciled = now;
    }
    withdraw_cancelled();
    send();
    receive();
  }
}

void RemoteLane::hold_lock() {
  if (!redis_.ask({"SET", kServerLock, name_, "NX", "PX", kLockMs}).none) return;
  const RedisAnswer held = redis_.ask({"GET", kServerLock});
  if (held.text != name_ && !held.none)
    throw RedisRefusal("another server works with this database: " + excerpt(held.text) +
                       "; name another one, such as " + redis_.place().text());
  redis_.ask({"SET", kServerLock, name_, "PX", kLockMs});
}

// Workers with a sign of life lately.
std::vector<RemoteLane::Worker> RemoteLane::living() {
  const double now = now_seconds();
  const RedisAnswer found = redis_.ask({"HGETALL", kAlive});
  std::map<std::string, Sign> signs;
  std::vector<Worker> out;
  for (size_t i = 0; i + 1 < found.parts.size(); i += 2) {
    const std::string &name = found.parts[i].text, &number = found.parts[i + 1].text;
    const auto before = signs_.find(name);
    const bool silent = before != signs_.end() && before->second.number == number;
    Sign& sign = signs[name] = silent ? before->second : Sign{number, now};
    if (now - sign.since_s < kWorkerSilentS)
      out.push_back({printable(name), "", JobStage::check, 0});
    else if (now - sign.since_s > kForgottenS)
      forget(name);
  }
  signs_ = std::move(signs);
  return out;
}

void RemoteLane::forget(const std::string& worker) {
  // A worker with tasks stays known, so that another one can take them.
  if (!redis_.ask({"XPENDING", kTasks, kWorkers, "-", "+", "1", worker}).parts.empty()) return;
  redis_.ask({"XGROUP", "DELCONSUMER", kTasks, kWorkers, worker});
  redis_.ask({"HDEL", kAlive, worker});
}

// Which workers live, and which of them has which task.
void RemoteLane::look() {
  std::vector<Worker> workers = living();
  std::vector<std::string> poisoned;
  for (const RedisAnswer& one :
       redis_.ask({"XPENDING", kTasks, kWorkers, "-", "+", kPendingMost}).parts) {
    const auto found = out_.find(one.at(0).text);
    if (found == out_.end()) continue;
    Out& task = found->second;
    const std::string worker = printable(one.at(1).text);
    if (task.worker != worker) {
      queue_.on_device(task.number, worker);
      const std::lock_guard lock(mutex_);
      task.worker = worker, task.since_s = now_seconds();
    }
    if (one.at(3).number > JobQueue::kStartsMost) poisoned.push_back(found->first);
  }
  for (const auto& entry : poisoned) {
    queue_.finish(
        out_.at(entry).number, "", "", "",
        "its worker ended " + std::to_string(JobQueue::kStartsMost) + " times while it ran", 0);
    withdraw(entry);
    count("poisoned");
  }
  if (!workers.empty()) alive_s_ = now_seconds();
  {
    const std::lock_guard lock(mutex_);
    sight_.workers = std::move(workers);
  }
  if (now_seconds() - alive_s_ < kAloneS) return;
  while (!out_.empty()) {
    queue_.put_back(out_.begin()->second.number);
    withdraw(out_.begin()->first);
    count("withdrawn");
  }
}

// Makes the queue's file and the stream of tasks agree, after a restart of either.
void RemoteLane::reconcile() {
  std::set<std::string> there;
  for (const RedisAnswer& entry : redis_.ask({"XRANGE", kTasks, "-", "+"}).parts) {
    const std::string name = entry.at(0).text;
    there.insert(name);
    if (out_.contains(name)) continue;
    // A task of this server's earlier life, or one whose sending had no answer.
    std::optional<RemoteTask> task;
    try {
      if (const RedisAnswer* const text = value_of(entry.at(1), kMessageKey))
        task = from_fields<RemoteTask>(parse_json(text->text, "a task"), "a task", kOwnMessage);
    } catch (const Error& error) {
      log_warn(std::string("a task in Redis is not used: ") + error.what());
    }
    if (task && difference_of(task->program, program_).empty() &&
        queue_.adopt(task->number, task->id, task->stage)) {
      const std::lock_guard lock(mutex_);
      out_[name] = {task->number, task->id, task->client, "", task->stage, 0};
    } else {
      withdraw(name);
    }
  }
  std::vector<std::string> lost;
  for (const auto& [name, task] : out_)
    if (!there.contains(name)) lost.push_back(name);
  for (const auto& name : lost) {
    log_warn("Redis has lost a task, which is queued again", {{"job", out_.at(name).id}});
    queue_.put_back(out_.at(name).number);
    count("lost");
    const std::lock_guard lock(mutex_);
    out_.erase(name);
  }
}

// The queue's file knows its end already. So reconcile() withdraws it again when Redis is away now.
void RemoteLane::withdraw(std::string entry) {
  {
    const std::lock_guard lock(mutex_);
    out_.erase(entry);
  }
  // One step: an entry without its claim would wait for nobody.
  redis_.ask({"EVAL",
              "redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) "
              "return redis.call('XDEL', KEYS[1], ARGV[2])",
              "1", kTasks, kWorkers, entry});
}

void RemoteLane::withdraw_cancelled() {
  std::set<std::string> ids;
  {
    const std::lock_guard lock(mutex_);
    ids.swap(cancelled_);
  }
  if (ids.empty()) return;
  // A job that was submitted again meanwhile may run, here or elsewhere, with another number.
  std::vector<std::string> entries;
  for (const auto& [entry, task] : out_)
    if (ids.contains(task.id) && !queue_.runs(task.number)) entries.push_back(entry);
  for (const auto& entry : entries) withdraw(entry);
}

void RemoteLane::withdraw_earlier(const std::string& id) {
  std::vector<std::string> entries;
  for (const auto& [entry, task] : out_)
    if (task.id == id) entries.push_back(entry);
  for (const auto& entry : entries) withdraw(entry);
}

void RemoteLane::send() {
  while (!closing_ && out_.size() < sight_.workers.size()) {
    const auto next = hooks_.next();
    if (!next) return;
    const auto& [taken, stage] = *next;
    const RemoteTask task{taken.number, taken.id, taken.client, taken.request,
                          stage,        authors_, program_};
    std::string entry;
    try {
      withdraw_earlier(taken.id);  // it was cancelled and submitted again
      entry = redis_.ask({"XADD", kTasks, "*", kMessageKey, canonical_text(to_fields(task))}).text;
    } catch (const std::exception&) {
      // reconcile() adopts it again, if Redis has it after all. Where the queue's file refuses too,
      // reconcile() puts it back by an entry which Redis cannot have.
      const std::string unsent = "unsent " + taken.id;
      const auto remember = [&](bool known) {
        const std::lock_guard lock(mutex_);
        if (known)
          out_[unsent] = {taken.number, taken.id, taken.client, "", stage, 0};
        else
          out_.erase(unsent);
      };
      remember(true);
      queue_.put_back(taken.number);
      remember(false);
      throw;
    }
    const std::lock_guard lock(mutex_);
    out_[entry] = {taken.number, taken.id, taken.client, "", stage, 0};
  }
}

void RemoteLane::receive() {
  const RedisAnswer found =
      redis_.ask({"XREAD", "COUNT", "16", "BLOCK", kBlockMs, "STREAMS", kEnds, "0"});
  if (found.none) return;
  for (const RedisAnswer& stream : found.parts)
    for (const RedisAnswer& entry : stream.at(1).parts) end(entry);
}

void RemoteLane::end(const RedisAnswer& entry) {
  std::optional<RemoteEnd> message;
  StageEnd stage;
  try {
    if (const RedisAnswer* const text = value_of(entry.at(1), kMessageKey)) {
      message = from_fields<RemoteEnd>(parse_json(text->text, "an end"), "an end", kOwnMessage);
      stage.end.why = message->why;
      stage.end.seconds = message->seconds;
      stage.timed = message->timed;
      stage.hosts = message->returned;
      if (message->why.empty() && !message->returned)
        stage.end.document = parse_json(message->document, "a verdict");
    }
  } catch (const Error& error) {
    log_warn(std::string("an end in Redis is not used: ") + error.what());
    message.reset();
  }
  const auto at = message ? out_.find(message->entry) : out_.end();
  if (at != out_.end()) {
    const Out task = at->second;
    if (message->returned && message->why.empty())
      queue_.put_back(task.number);
    else
      hooks_.ended({task.number, task.id, "", "", task.client}, stage, message->log,
                   printable(message->worker));
    count(message->returned ? "returned" : "ended");
    withdraw(message->entry);
  } else {
    count("late");  // its task was cancelled, or another worker's end came first
  }
  redis_.ask({"XDEL", kEnds, entry.at(0).text});
}

}  // namespace fk
