// SPDX-License-Identifier: Apache-2.0
#include "core/service/service.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/error_fields.hpp"
#include "core/base/fields.hpp"
#include "core/base/io.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/service/job_document.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

constexpr size_t kStepMost = 200;
constexpr int kRetrySeconds = 5;
constexpr int kChecksInRow = 16;  // in a lane of both stages; then a timing has its turn

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// A whole number of a query such as "limit=5&skip=10".
int64_t number_of(const std::string& query, const std::string& key, int64_t otherwise,
                  int64_t most) {
  for (const auto& part : split(query, '&')) {
    if (!starts_with(part, key + "=")) continue;
    int64_t out = 0;
    const char *from = part.data() + key.size() + 1, *end = part.data() + part.size();
    const auto [at, fault] = std::from_chars(from, end, out);
    if (fault != std::errc() || at != end || from == end || out < 0 || out > most)
      fail("query." + key, "is no whole number from 0 to " + std::to_string(most));
    return out;
  }
  return otherwise;
}

void need_keys(const std::string& query, const std::vector<std::string>& known) {
  for (const auto& part : split(query, '&')) {
    const std::string key = part.substr(0, part.find('='));
    if (!part.empty() && !contains(known, key))
      fail("query", "has no key `" + excerpt(key) + "`", did_you_mean(key, known));
  }
}

ApiAnswer no_method(const std::string& allowed) {
  ApiAnswer out = api_error(405, "request", "this path takes other methods", allowed);
  out.headers.emplace_back("Allow", allowed);
  return out;
}

// A label of a metric.
std::string label(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// The name of the server with this queue, which is kept there: host names and folders of containers
// may be equal.
std::string server_name(const fs::path& folder) {
  const fs::path file = folder / "server.name";
  std::error_code none;
  if (!fs::exists(file, none)) {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    std::random_device random;
    write_file_atomic(file, std::string(host.data()) + ":" + folder.string() + " " +
                                std::to_string(random()) + std::to_string(random()));
  }
  constexpr size_t kMost = 8192;
  return printable(read_file(file, kMost));
}

// The states of a job until it ends.
class JobEvents final : public LaterBody {
 public:
  JobEvents(Service& service, std::string id, std::string client)
      : service_(service), id_(std::move(id)), client_(std::move(client)) {}
  Part take() override {
    Service::Event event = service_.event(id_, client_, last_);
    return {std::move(event.text), event.over};
  }

 private:
  Service& service_;
  std::string id_, client_, last_;
};

}  // namespace

ApiAnswer HttpApp::fault(unsigned status, const std::string& what, const std::string& hint) const {
  return api_error(status, "request", what, hint);
}

ApiAnswer api_error(unsigned status, const std::string& where, const std::string& what,
                    const std::string& hint) {
  ApiAnswer out;
  out.status = status;
  out.body = dumped({{"error", to_fields(ErrorFields{where, what, hint})}});
  return out;
}

Service::Service(Options options) : options_(std::move(options)), queue_(options_.folder) {
  for (const auto& entry : fs::directory_iterator(options_.folder))
    if (entry.is_directory()) fs::remove_all(entry.path());  // jobs of a server that was killed
  for (size_t i = 0; i < options_.devices.size(); ++i) {
    const std::string& device = options_.devices[i];
    const std::string folder = "device" + std::to_string(i);
    const bool apart = device == kCheckedApart;
    lanes_.push_back({.device = device, .folder = folder, .times = !apart});
    if (apart) lanes_.push_back({.device = device, .folder = folder + "-times", .checks = false});
  }
  // First, because it may throw, and threads would stay.
  if (!options_.redis.empty())
    remote_ = std::make_unique<RemoteLane>(
        options_.redis, server_name(options_.folder), options_.named_clients, queue_,
        RemoteLane::Hooks{[this] { return next(elsewhere_); },
                          [this](const JobQueue::Taken& taken, const StageEnd& end,
                                 const std::string& log, const std::string& worker) {
                            after(taken, end, worker, printable(log, "\n\t"), {});
                          }});
  for (Lane& lane : lanes_) threads_.emplace_back([this, &lane] { work(lane); });
}

Service::~Service() {
  remote_.reset();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (const auto& [id, stop] : running_) *stop = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

std::optional<std::pair<JobQueue::Taken, JobStage>> Service::next(Lane& lane) {
  const auto take = [&](JobStage stage) { return queue_.take(lane.device, stage); };
  if (lane.checks && (!lane.times || lane.checks_in_row < kChecksInRow))
    if (auto found = take(JobStage::check)) {
      ++lane.checks_in_row;
      return std::pair(std::move(*found), JobStage::check);
    }
  const bool tired = std::exchange(lane.checks_in_row, 0) >= kChecksInRow;
  if (lane.times)
    if (auto found = take(JobStage::time)) return std::pair(std::move(*found), JobStage::time);
  return tired ? next(lane) : std::nullopt;
}

void Service::arrived() {
  {
    const std::lock_guard lock(mutex_);
    ++arrivals_;
  }
  wake_.notify_all();
}

void Service::work(Lane& lane) {
  for (uint64_t seen = 0;;) {
    {
      std::unique_lock lock(mutex_);
      if (closing_) return;
      seen = arrivals_;
    }
    try {
      if (const auto found = next(lane)) {
        run(found->first, found->second, lane);
        continue;
      }
    } catch (const std::exception& error) {
      log_warn(std::string("a job on ") + lane.device + ": " + error.what());
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, std::chrono::seconds(kRetrySeconds),
                   [&] { return closing_ || arrivals_ != seen; });
  }
}

bool Service::surely(const std::function<void()>& write) {
  for (;;) {
    try {
      write();
      return true;
    } catch (const HostError& error) {
      log_warn(std::string(error.what()) + "; it is tried again");
    }
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, std::chrono::seconds(kRetrySeconds), [&] { return closing_; }))
      return false;
  }
}

std::shared_ptr<std::atomic<bool>> Service::begin(const JobQueue::Taken& taken, JobStage stage,
                                                  Lane& lane, const fs::path& log) {
  auto stop = std::make_shared<std::atomic<bool>>(false);
  const std::lock_guard lock(mutex_);
  *stop = closing_;
  running_[taken.number] = stop;
  logs_[taken.number] = log;
  lane.client = taken.client, lane.stage = stage, lane.since_s = now_seconds();
  return stop;
}

void Service::run(const JobQueue::Taken& taken, JobStage stage, Lane& lane) {
  StageRoom room(options_.folder / lane.folder, lane.device, options_.languages,
                 options_.named_clients);
  const auto stop = begin(taken, stage, lane, room.log());
  const struct Cleanup {
    Service& service;
    int64_t number;
    StageRoom& room;
    Lane& lane;
    ~Cleanup() {
      const std::lock_guard lock(service.mutex_);
      lane.client.clear();
      service.running_.erase(number);
      service.logs_.erase(number);
      room.clear();
    }
  } cleanup{*this, taken.number, room, lane};
  // A client may have cancelled it before begin(), when there was nothing to stop.
  bool runs = false;
  if (!surely([&] { runs = queue_.runs(taken.number); }) || !runs) return;
  log_info("a stage of a job begins",
           {{"job", taken.id},
            {"client", taken.client},
            {"device", lane.device},
            {"stage", visitors::Writer::json(stage).get<std::string>()}});
  const StageEnd end = room.run({taken.id, taken.client, taken.request, stage}, right(taken.number),
                                [stop] { return stop->load(); });
  const std::string log = log_text(room.log(), kLogMost);
  surely([&] {
    if (*stop) return queue_.put_back(taken.number);  // without effect on a cancelled one
    after(taken, end, lane.device, log, room.candidates());
  });
}

void Service::after(const JobQueue::Taken& taken, const StageEnd& end, const std::string& device,
                    const std::string& log, const fs::path& built) {
  if (end.timed || end.status() != name_of(Status::correct)) return finish(taken, device, end, log);
  const fs::path kept = right(taken.number);
  std::error_code none;  // where it cannot be kept, it is compiled again
  if (!built.empty() && fs::exists(built, none)) {
    fs::create_directories(kept.parent_path(), none);
    fs::rename(built, kept, none);
  }
  if (!queue_.to_timing(taken.number)) {  // it was cancelled
    fs::remove_all(kept, none);
    return;
  }
  log_info("a job is right, and waits to be timed",
           {{"job", taken.id}, {"client", taken.client}, {"device", device}});
  arrived();
}

void Service::finish(const JobQueue::Taken& taken, const std::string& device, const StageEnd& stage,
                     const std::string& log) {
  const JobEnd& end = stage.end;
  std::string status = stage.status(), why = end.why;
  if (status == name_of(Status::environment)) why = end.document.value("why", "the host failed");
  // The host's own failure says nothing about the candidate: the job runs again, and fails at last.
  const bool hosts = stage.hosts || end.hosts || status == name_of(Status::environment);
  if (hosts && queue_.again(taken.number)) {
    log_warn("a job runs again: " + why, {{"job", taken.id}});
    return arrived();
  }
  if (why.empty() && status.empty()) why = "the judge's document has no status";
  if (!why.empty()) status.clear();
  const bool ended = queue_.finish(taken.number, status, why.empty() ? dumped(end.document) : "",
                                   log, why, end.seconds);
  std::error_code none;  // of a stage before, which ran on another device
  fs::remove_all(right(taken.number), none);
  if (!ended) return;
  const std::string took = Json(end.seconds).dump();
  log_info("a job ended", {{"job", taken.id},
                           {"client", taken.client},
                           {"device", device},
                           {"status", status},
                           {"why", why},
                           {"seconds", took}});
}

ApiAnswer Service::answer(const ApiRequest& request) {
  try {
    return routed(request);
  } catch (const HostError& error) {
    log_warn(error.what());
    return api_error(503, error.where(), error.what_text(), error.hint());
  } catch (const Error& error) {
    return api_error(400, error.where(), error.what_text(), error.hint());
  } catch (const std::exception& error) {
    log_warn(error.what());
    return api_error(500, "the server", "failed; its log has the reason");
  }
}

ApiAnswer Service::routed(const ApiRequest& request) {
  const size_t mark = request.target.find('?');
  const std::string path = request.target.substr(0, mark);
  const std::string query = mark == path.npos ? "" : request.target.substr(mark + 1);
  const bool get = request.method == "GET" || request.method == "HEAD";
  if (path == "/health") return get ? ApiAnswer{200, "{\"status\":\"ok\"}\n"} : no_method("GET");
  if (path == "/openapi.json")
    return get ? ApiAnswer{200, dumped(openapi(options_))} : no_method("GET");
  if (request.client.empty()) {
    ApiAnswer out = api_error(401, "request", "it has no token of this server",
                              "the header is Authorization: Bearer TOKEN");
    out.headers.emplace_back("WWW-Authenticate", "Bearer");
    return out;
  }
  if (path == "/metrics") {
    if (!get) return no_method("GET");
    return {200, metrics(), "text/plain; version=0.0.4; charset=utf-8"};
  }
  if (path == "/v1/state") return get ? ApiAnswer{200, dumped(state())} : no_method("GET");
  if (path == "/v1/jobs") {
    if (get) return list(request, query);
    return request.method == "POST" ? submit(request) : no_method("GET, POST");
  }
  const std::string jobs = "/v1/jobs/";
  if (starts_with(path, jobs)) {
    const auto parts = split(path.substr(jobs.size()), '/');
    if (parts.size() <= 2) return of_job(request, parts[0], parts.size() == 2 ? parts[1] : "");
  }
  return api_error(404, "request", "there is no path `" + excerpt(path) + "`", "/openapi.json");
}

ApiAnswer Service::submit(const ApiRequest& request) {
  // A page of another site can send plain text without a question, and JSON only after one.
  if (trim(request.type.substr(0, request.type.find(';'))) != "application/json")
    return api_error(415, "request", "a job is JSON", "Content-Type: application/json");
  const JobRequest job = job_request_from(parse_json(request.body, "job"), options_.languages);
  const auto added = queue_.add(request.client, job.name, text_of(job), options_.limits);
  if (added.refused) {
    ApiAnswer out = api_error(429, "queue", "this client has too many jobs that wait",
                              std::to_string(options_.limits.jobs) + " jobs or " +
                                  human_bytes(options_.limits.bytes) + " of requests");
    out.headers.emplace_back("Retry-After", std::to_string(kRetrySeconds));
    return out;
  }
  if (added.fresh) arrived();
  ApiAnswer out = of_job({"GET", "", request.client, "", ""}, added.id, "");
  if (out.status == 200 && added.fresh) out.status = 202;
  out.headers.emplace_back("Location", "/v1/jobs/" + added.id);
  return out;
}

ApiAnswer Service::of_job(const ApiRequest& request, const std::string& id,
                          const std::string& part) {
  const auto job = queue_.find(id, request.client);
  if (!job) return api_error(404, "job", "this client has no job `" + excerpt(id, 64) + "`");
  const bool get = request.method == "GET" || request.method == "HEAD";
  if (part.empty() && request.method == "DELETE") {
    if (!queue_.cancel(id))
      return api_error(409, "job",
                       std::string("it has ended already: ") +
                           visitors::Writer::json(job->state).get<std::string>());
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = running_.find(job->number); at != running_.end()) *at->second = true;
    }
    if (remote_) remote_->cancel(id);
    std::error_code none;
    fs::remove_all(right(job->number), none);
    return {200, dumped(document(JobDocument(*queue_.find(id, request.client))))};
  }
  if (!get) return no_method(part.empty() ? "GET, DELETE" : "GET");
  if (part.empty()) return {200, dumped(document(JobDocument(*job)))};
  if (part == "result") {
    if (job->state == JobState::done) return {200, queue_.document(id)};
    return api_error(409, "job", "it has no result",
                     job->why.empty()
                         ? "it is " + visitors::Writer::json(job->state).get<std::string>()
                         : job->why);
  }
  if (part == "log") {
    fs::path running;
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = logs_.find(job->number); at != logs_.end()) running = at->second;
    }
    return {200, running.empty() ? queue_.log(id) : log_text(running, kLogMost),
            "text/plain; charset=utf-8"};
  }
  if (part == "events") {
    ApiAnswer out{200, "", "text/event-stream"};
    out.later = std::make_shared<JobEvents>(*this, id, request.client);
    out.streams = true;
    return out;
  }
  return api_error(404, "request", "a job has no part `" + excerpt(part) + "`",
                   did_you_mean(part, {"result", "log", "events"}));
}

ApiAnswer Service::list(const ApiRequest& request, const std::string& query) {
  need_keys(query, {"limit", "skip"});
  JobListDocument out;
  const int64_t most = number_of(query, "limit", kListed, kListedMost);
  const int64_t skip = number_of(query, "skip", 0, kSkippedMost);
  for (auto& job : queue_.list(request.client, most, skip)) out.jobs.emplace_back(std::move(job));
  return {200, dumped(document(out))};
}

Service::Event Service::event(const std::string& id, const std::string& client, std::string& last) {
  const auto job = queue_.find(id, client);
  if (!job) return {"", true};
  JobDocument now(*job);
  fs::path log;
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = logs_.find(job->number); at != logs_.end()) log = at->second;
  }
  if (!log.empty())
    now.step = excerpt(trim(split(std::string(trim(log_text(log, 4096))), '\n').back()), kStepMost);
  const bool over = job->state != JobState::queued && job->state != JobState::running;
  std::string text =
      "event: " + std::string(over ? "end" : "state") + "\ndata: " + dumped(document(now)) + "\n";
  if (text == last) return {"", over};
  last = text;
  return {std::move(text), over};
}

void Service::count(unsigned status) {
  const std::lock_guard lock(mutex_);
  ++answered_[status];
}

std::string Service::metrics() {
  const JobQueue::Counts counts = queue_.counts();
  std::string out;
  const auto family = [&](const char* name, const char* kind, const char* help) {
    out += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + kind + "\n";
  };
  const auto add = [&](const char* name, const std::string& labels, const std::string& value) {
    out += std::string(name) + (labels.empty() ? "" : "{" + labels + "}") + " " + value + "\n";
  };
  family("fk_jobs", "gauge", "Jobs in the queue's file.");
  for (const auto& [state, number] : counts.states)
    add("fk_jobs", "state=\"" + state + "\"", std::to_string(number));
  family("fk_jobs_waiting", "gauge", "Queued jobs by the stage that they wait for.");
  for (const auto& [stage, number] : counts.waiting)
    add("fk_jobs_waiting", "stage=\"" + stage + "\"", std::to_string(number));
  family("fk_jobs_ended_total", "counter", "Jobs that ended, by the status of their verdict.");
  for (const auto& [status, number] : counts.statuses)
    add("fk_jobs_ended_total", "status=\"" + label(status) + "\"", std::to_string(number));
  family("fk_job_seconds_total", "counter", "Time of ended jobs on devices.");
  add("fk_job_seconds_total", "", Json(counts.seconds).dump());
  family("fk_client_jobs", "gauge", "Jobs of a client that wait or run.");
  for (const auto& client : counts.clients)
    for (const auto& [state, number] :
         {std::pair("queued", client.queued), std::pair("running", client.running)})
      add("fk_client_jobs",
          "client=\"" + label(client.name) + "\",state=\"" + std::string(state) + "\"",
          std::to_string(number));
  family("fk_devices", "gauge", "Devices that run jobs.");
  add("fk_devices", "", std::to_string(options_.devices.size()));
  if (remote_) {
    const RemoteLane::Sight sight = remote_->sight();
    family("fk_redis_up", "gauge", "1: the server reaches Redis.");
    add("fk_redis_up", "", sight.connected ? "1" : "0");
    family("fk_workers", "gauge", "Workers on other machines that live.");
    add("fk_workers", "", std::to_string(sight.workers.size()));
    family("fk_worker_tasks_total", "counter",
           "Tasks of workers by their end, since the server began.");
    for (const auto& [kind, number] : sight.ends)
      add("fk_worker_tasks_total", "end=\"" + kind + "\"", std::to_string(number));
  }
  family("fk_http_answers_total", "counter", "Answers by code, since the server began.");
  const std::lock_guard lock(mutex_);
  for (const auto& [status, number] : answered_)
    add("fk_http_answers_total", "code=\"" + std::to_string(status) + "\"", std::to_string(number));
  return out;
}

}  // namespace fk
