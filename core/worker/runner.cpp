// SPDX-License-Identifier: Apache-2.0
// Starts a worker and asks it questions. Every way in which it can fail becomes a RunnerFailure:
// bury() keeps the first one and kills the process. Requests about sessions are in
// runner_session.cpp.
#include "core/worker/runner.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <sstream>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/machine.hpp"
#include "core/base/text.hpp"
#include "core/plugin/abi_major.hpp"
#include "core/plugin/library.hpp"
#include "core/worker/crash.hpp"
#include "core/worker/ending.hpp"
#include "core/worker/launch.hpp"

namespace fk {

namespace {

// The kinds of failure that a worker reports itself.
const std::vector<std::string> kErrors = {"refused", "op_failed", "threw", "memory", "lost"};

// Says once in this process that a plugin was built for an older major of the ABI.
void say_old_abi(const std::filesystem::path& file) {
  static std::mutex mutex;
  static std::set<std::string> said;  // names: a plugin may be loaded by several paths
  const PluginNote note = read_notes(file);
  const std::string old = old_abi(note.abi_major);
  const std::lock_guard lock(mutex);
  if (!old.empty() && said.insert(note.name).second) log_warn("the plugin " + note.name + " " + old);
}

int make_event() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) fail("runner", "cannot make an event: " + errno_text());
  return fd;
}

// The expected wait status of a process that has noted its end on the board.
std::optional<int> status_told(const std::string& note) {
  if (starts_with(note, kItCalled)) return W_EXITCODE(0, SIGSYS);
  for (int number = 1; number < SIGRTMIN; ++number)
    if (starts_with(note + " ", signal_name(number) + " ")) return W_EXITCODE(0, number);
  int code = 0;
  if (std::sscanf(note.c_str(), "exit(%d)", &code) == 1) return W_EXITCODE(code & 0xff, 0);
  return std::nullopt;
}

}  // namespace

std::string RunnerFailure::sentence() const {
  // An op's own error begins with its place.
  return where.empty() || kind == "op_failed" ? text : text + ", in " + where;
}

Runner::Runner(Options options) : options_(std::move(options)) {
  life_s_ = now_seconds();
  try {
    start();
  } catch (const Error& e) {
    failure_ = RunnerFailure{"environment", /*where=*/"", e.what(), /*log=*/""};
  }
}

Runner::~Runner() {
  child_.reset();
  for (const int fd :
       {request_events_.data, request_events_.space, result_events_.data, result_events_.space})
    if (fd >= 0) ::close(fd);
  if (states_.fd >= 0) ::close(states_.fd);
}

void Runner::start() {
  shared_ = SharedMemory::create("fk-runner", kSharedBytes);
  board_ = static_cast<Board*>(shared_.data());
  request_events_ = {make_event(), make_event()};
  result_events_ = {make_event(), make_event()};
  requests_ = std::make_unique<RingWriter>(board_->requests, request_data(board_),
                                           kRequestRingBytes, request_events_);
  results_ = std::make_unique<RecordReader>(
      RingReader(board_->results, result_data(board_), kResultRingBytes, result_events_),
      options_.payload_bytes_max);
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
    fail("runner", "cannot make a socket: " + errno_text());
  channel_ = std::make_unique<Channel>(pair[0], options_.sends_fds);
  try {
    const auto parent = std::to_string(options_.agent ? options_.agent->pid() : ::getpid());
    const std::vector<std::string> words = {"__runner", parent};
    // Tools like compute-sanitizer find their processes by their own variables.
    const auto environment = options_.sandbox ? Environment::of_libraries : Environment::all;
    child_ = std::make_unique<ChildProcess>(options_.executable, words, pair[1], options_.agent,
                                            environment);
  } catch (...) {
    ::close(pair[1]);
    throw;
  }
  ::close(pair[1]);
  // The descriptors have the order in which the worker takes them.
  send(messages::Hello{.private_bytes_max = options_.private_bytes_max,
                       .own_user = options_.sandbox && options_.early_user,
                       .spin_s = options_.its_spin_s},
       {shared_.fd(), request_events_.data, request_events_.space, result_events_.data,
        result_events_.space},
       options_.open_patience_s);
}

// ---- control ----

std::optional<Json> Runner::wait_for_result(double patience_s, const OnProgress& progress) {
  while (!failed()) {
    if (auto result = hear(patience_s, progress)) return result;
    if (!failed()) sleep(kTick);
  }
  return std::nullopt;
}

bool Runner::say(const Json& message, const std::vector<int>& fds, double patience_s) {
  if (failed() || said_unasked()) return false;
  life_s_ = asked_s_ = now_seconds();
  missed_s_.reset();  // other ranks wait for the new work
  awaited_ = true;
  if (channel_->send(message, fds, patience_s)) return true;
  bury("hang", "it does not take messages" + place_of_hang());
  return false;
}

std::optional<Json> Runner::hear(double patience_s, const OnProgress& progress) {
  // Signs of life without an answer are limited to this many times the patience.
  constexpr double kLives = 60;
  const double end = asked_s_ + kLives * patience_s;
  try {
    while (auto reply = now_seconds() > end ? std::nullopt : channel_->receive()) {
      if (!handle(*reply)) return std::nullopt;
      if (ends_a_drive(*reply)) continue;
      // Only an answer or wanted progress is a sign of life: a thread of a hung process could send
      // other messages for ever.
      if (const auto result = reply->find(messages::kResult); result != reply->end())
        return life_s_ = now_seconds(), awaited_ = false, std::move(*result);
      const auto news = reply->find(messages::kProgress);
      if (!progress || news == reply->end()) return unasked(), std::nullopt;
      life_s_ = now_seconds();
      progress(*news);
    }
  } catch (const std::exception& e) {  // includes exceptions of `progress`
    bury("protocol", e.what());
    return std::nullopt;
  }
  if (check_alive(patience_s) && now_seconds() > end)
    bury("hang", "did not finish within " + human_duration(kLives * patience_s) + place_of_hang());
  return std::nullopt;
}

// Counts a "driven" message, at most one for each drive; its waiter may have gone.
bool Runner::ends_a_drive(const Json& message) {
  return message.contains(messages::kDriven) && ++ends_ <= run_;
}

void Runner::unasked() { bury("protocol", "it sent a message without a request"); }

// True, with a failure, for a message that came before any question: plugin code sent it.
bool Runner::said_unasked() {
  try {
    while (const auto message = channel_->receive()) {
      if (!handle(*message)) return true;
      if (ends_a_drive(*message)) continue;
      bury("protocol", "it answered another request");
      return true;
    }
    return false;
  } catch (const Error& e) {
    bury("protocol", e.what());
  }
  return true;
}

bool Runner::handle(const Json& message) {
  const auto it = message.find(messages::kError);
  if (it == message.end()) return true;
  messages::WorkerError error;
  try {
    read_fields(*it, error, "an error", {.text_bytes_max = 8192, .foreign = true, .kept = "\n"});
  } catch (const Error&) {
    error = {"protocol", "", "a malformed error"};
  }
  // The kind `environment` counts only if this process has an address limit too: a candidate may
  // report anything.
  const bool hosts = error.kind == "environment" && address_limit();
  const bool known = std::find(kErrors.begin(), kErrors.end(), error.kind) != kErrors.end();
  bury(hosts || known ? error.kind : "protocol", error.text);
  if (!failure_) return false;
  failure_->where = error.where;
  if (error.waited_s > 0) failure_->waited_s = std::min(error.waited_s, failure_->silent_s);
  return false;
}

std::optional<Loaded> Runner::load(const std::vector<PluginFile>& plugins) {
  messages::Load message{{}, options_.sandbox, options_.device, options_.read};
  for (const auto& p : plugins) {
    std::string copy, error;
    try {
      copy = std::filesystem::absolute(loadable_copy(p.path)).string();
      say_old_abi(p.path);
    } catch (const HostError& e) {
      bury("environment", e.what());
      return std::nullopt;
    } catch (const std::exception&) {  // the worker finds the reason and reports it with the file
    }
    // Checks the copy that is loaded, because the file may have been written since.
    if (p.trust == Trust::candidate && !copy.empty()) error = broken_rule(copy, p.trust);
    message.plugins.push_back(
        {p.path.string(), std::move(copy), error.empty() ? "" : "lint: " + error, p.trust});
  }
  // Only the first report counts: it is sent before a candidate's code runs.
  const auto on_progress = [&](const Json& progress) {
    if (protections_.empty())
      protections_ = from_fields<messages::Sealed>(progress, "news", kForeignMessage).sealed;
  };
  std::optional<Json> reply;
  for (bool asked = say(message_json(message), {}, options_.open_patience_s);
       asked && !reply && !failed();) {
    // A sealed worker is running the candidate's own constructors and entry, which have little
    // work.
    const double patience = protections_.empty()
                                ? options_.open_patience_s
                                : std::min(options_.patience_s, options_.open_patience_s);
    reply = hear(patience, on_progress);
    if (!reply && !failed()) sleep(kTick);
  }
  auto loaded = understand<Loaded>(reply, messages::Load::kName, kForeignText);
  if (!loaded || loaded->errors.size() == plugins.size()) return loaded;
  bury("protocol", "a malformed answer to loading");
  return std::nullopt;
}

messages::Perform Runner::perform(const std::string& name, const Json& arguments) {
  return {name, arguments, ++tasks_};
}

std::optional<Json> Runner::task(const std::string& name, const Json& arguments,
                                 const OnProgress& progress, const std::vector<int>& fds) {
  return send(perform(name, arguments), fds, options_.patience_s, progress);
}

bool Runner::tell(const std::string& name, const Json& arguments, const std::vector<int>& fds) {
  return say(message_json(perform(name, arguments)), fds, options_.patience_s);
}

// Restarts the clocks of patience too: the worker was silent because it waited for this sign.
void Runner::sign(bool go_on) {
  if (board_) board_->sign.store(2 * tasks_ + (go_on ? 1 : 0), std::memory_order_release);
  life_s_ = asked_s_ = now_seconds();
}

std::optional<Json> Runner::answer() { return wait_for_result(options_.patience_s, {}); }

std::optional<Json> Runner::heard() {
  if (failed()) return std::nullopt;
  child_->read_log();
  return hear(options_.patience_s, {});
}

bool Runner::freeze() {
  if (failed()) return false;
  if (child_->freeze()) return true;
  constexpr double kSoon = 0.2;  // another process may have to report the end
  if (!child_->wait(kSoon)) bury("protocol", "cannot be stopped: another process continues it");
  return false;
}

void Runner::thaw() {
  if (failed() || child_->thaw()) return;
  bury("protocol", "worked while it was stopped: another process continued it");
}

// Waits at most `seconds` for a message, output, results, or room in a full ring of requests.
void Runner::sleep(double seconds) {
  std::array<pollfd, 5> entries{
      pollfd{channel_->fd(), POLLIN, 0}, pollfd{child_->log_fd(), POLLIN, 0},
      pollfd{result_events_.data, POLLIN, 0}, pollfd{options_.waker, POLLIN, 0},
      pollfd{request_events_.space, POLLIN, 0}};
  const bool full = unsent_at_ < unsent_.size();
  if (!results_->sleep()) return;
  if (full && !requests_->sleep()) return;
  const timespec time{
      static_cast<time_t>(seconds),
      static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  const auto watched = std::span(entries).first(full ? 5 : 4);
  spin(watched, options_.spin_s);
  ::ppoll(watched.data(), watched.size(), &time, nullptr);
  if (entries[1].revents != 0) child_->read_log();
  if (entries[2].revents != 0) drain_event(result_events_.data);
  if (entries[4].revents != 0) drain_event(request_events_.space);
}

// ---- the end ----

bool Runner::check_alive(double patience_s) {
  if (channel_->closed()) {
    // It is dead or dying. The release of its device memory takes long, and no caller has to wait
    // if the board has the reason.
    constexpr double kSoon = 0.02, kLate = 2;
    auto status = child_->wait(kSoon);
    if (!status) status = status_told(bounded(board_->crash, sizeof board_->crash));
    if (!status) status = child_->wait(kLate);
    if (status)
      ended(*status);
    else
      bury("protocol", "it closed its connection");
    return false;
  }
  if (const auto status = child_->status()) {
    ended(*status);
    return false;
  }
  if (options_.given_up && options_.given_up())
    return bury("environment", "no caller waits for it"), false;
  if (options_.stopped && 1e3 * (now_seconds() - asked_s_) > tick_ms())
    if (const std::string why = options_.stopped(); !why.empty())
      return bury("crashed", "crashed: " + why), false;
  if (const std::string what = options_.missed ? options_.missed() : ""; !what.empty()) {
    // The other ranks' patience is over; this worker only has to report.
    constexpr double kSoon = 2;
    if (!missed_s_) missed_s_ = now_seconds();
    if (now_seconds() - *missed_s_ > kSoon)
      return bury("hang", what + " and was stopped" + place_of_hang()), false;
  } else {
    missed_s_.reset();
  }
  if (now_seconds() > stop_at_s_)
    return bury("stopped", "was stopped because another rank had failed"), false;
  if (now_seconds() - life_s_ > patience_s) {
    // Endless allocation may be too slow to reach the memory limit first.
    constexpr int64_t kMuch = int64_t{1} << 29;
    const int64_t held = private_bytes(child_->pid());
    bury("hang", "gave no sign of life for " + human_duration(patience_s) + " and was stopped" +
                     place_of_hang() +
                     (held > kMuch ? ", with " + human_bytes(held) + " of private memory" : ""));
    return false;
  }
  return true;
}

// " in mine.so+0x1139": the place of the hung worker's first thread. A signal asks its crash
// handler, which also prints the stack. The words are the process's own, as after a crash. Empty if
// it does not answer soon: it may block the signal, or hang in the handler.
std::string Runner::place_of_hang() {
  constexpr double kSoon = 0.2;
  if (!child_ || !board_ || !asks_place_) return "";
  std::memset(board_->crash, 0, sizeof board_->crash);
  child_->signal(SIGABRT);
  // It dies after its answer; with a device, the death takes longer than the answer.
  const auto told = [&] {
    return starts_with(bounded(board_->crash, sizeof board_->crash), kStopped);
  };
  for (const double end = now_seconds() + kSoon; !told() && now_seconds() < end;)
    if (child_->wait(2e-3)) break;
  child_->wait(5e-3);  // the text may be unfinished
  const std::string hint = bounded(board_->crash, sizeof board_->crash);
  return starts_with(hint, kStopped) ? hint.substr(std::strlen(kStopped)) : "";
}

void Runner::ended(int status) {
  const std::string note = bounded(board_->crash, sizeof board_->crash);
  const Ending ending = ending_of(status, note, static_cast<int64_t>(board_->data_bytes),
                                  options_.private_bytes_max, last_words());
  bury(ending.kind, ending.text);
  if (failure_->next.empty()) failure_->next = ending.next;
}

void Runner::another_failed(double stop_s) {
  asks_place_ = false;
  stop_at_s_ = std::min(stop_at_s_.load(), now_seconds() + stop_s);
}

void Runner::condemn(const std::string& kind, const std::string& text) {
  if (!failed()) bury(kind, text);
}

bool Runner::wait_for_end(double seconds) { return !child_ || child_->wait(seconds).has_value(); }

// Keeps the first failure, with the worker's place and output, and kills the process.
void Runner::bury(const std::string& kind, const std::string& text) {
  if (failed()) return;
  RunnerFailure failure{kind, /*where=*/"", text, /*log=*/""};
  failure.time_s = now_seconds();
  failure.silent_s = silent_s();
  if (board_) failure.where = place();
  // An error close to the memory limit follows from the limit.
  if (child_ && options_.private_bytes_max > 0 &&
      std::find(kErrors.begin(), kErrors.end(), kind) != kErrors.end() &&
      near_limit(private_bytes(child_->pid()), options_.private_bytes_max)) {
    failure.kind = "memory";
    failure.text = limit_text(options_.private_bytes_max) + ": " + text;
  }
  if (child_) {
    child_->kill();
    child_->read_log();
    failure.log = child_->log();
  }
  failure_ = std::move(failure);
  driving_ = false;
}

std::string Runner::log() {
  if (!child_) return {};
  child_->read_log();
  return child_->log();
}

// Output before the handler's own report: why a library or the host's code aborted.
std::string Runner::last_words() {
  child_->read_log();
  const std::string log = child_->log();
  const size_t end = log.rfind(kCrashReport);
  std::string line;
  std::istringstream lines(log.substr(0, end == std::string::npos ? log.size() : end));
  for (std::string next; std::getline(lines, next);)
    if (!next.empty()) line = next;
  return line.substr(0, 200);
}

// The place on the board, with every index checked; only a hint.
std::string Runner::place() const {
  for (size_t i = 0; i < std::min<size_t>(info_.phases.size(), kPhasesMax); ++i) {
    const int32_t node = board_->nodes[i];
    const auto& nodes = info_.phases[i].nodes;
    if (node < 0 || static_cast<size_t>(node) >= nodes.size()) continue;
    const auto& n = nodes[static_cast<size_t>(node)];
    return n.op + " (" + n.path + ")";
  }
  return bounded(board_->stage, sizeof board_->stage);
}

}  // namespace fk
