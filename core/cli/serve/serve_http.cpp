// SPDX-License-Identifier: Apache-2.0
#include "core/cli/serve/serve_http.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <list>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/language.hpp"
#include "core/cli/verb.hpp"
#include "core/service/http.hpp"
#include "core/service/service.hpp"
#include "core/worker/process.hpp"

namespace fk {

namespace {

// Between two starts: of a killed judge, and of one which ended because its device has another one.
constexpr auto kSoon = std::chrono::seconds(1), kLater = std::chrono::seconds(30);

}  // namespace

ReadyJudge::ReadyJudge(std::string device, bool checks)
    : device_(std::move(device)), checks_(checks), thread_([this] { keep(); }) {}

ReadyJudge::~ReadyJudge() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    if (pid_ > 0) ::kill(pid_, SIGTERM);
  }
  wake_.notify_all();
  thread_.join();
}

pid_t ReadyJudge::start() const {
  // The server's handler of SIGTERM would take the destructor's signal, and the judge would stay.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) ::signal(SIGTERM, SIG_DFL);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  const int null = ::open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, stream);
  ::close_range(STDERR_FILENO + 1, ~0U, 0);  // the server's sockets, when it is started again
  ::execl("/proc/self/exe", "fk-host", "serve", "--device", device_.c_str(),
          checks_ ? "--checks" : nullptr, nullptr);
  ::_exit(127);
}

void ReadyJudge::keep() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    const pid_t child = pid_ = start();
    if (child < 0) log_warn("a judge of " + device_ + " cannot be started: " + errno_text());
    lock.unlock();
    siginfo_t end{};
    while (child > 0 && ::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT) < 0 &&
           errno == EINTR) {
    }
    lock.lock();  // the destructor sends no signal to a number which is free again
    if (child > 0) ::waitpid(child, nullptr, 0);
    pid_ = -1;
    const bool killed = child > 0 && end.si_code != CLD_EXITED;
    if (killed && !closing_)
      log_warn("the judge of " + device_ + " was ended by " + signal_name(end.si_status) +
               ", and is started again");
    wake_.wait_for(lock, killed ? kSoon : kLater, [&] { return closing_; });
  }
}

SourceLanguages source_languages() {
  SourceLanguages out = {{"c", ".c"}, {"cpp", ".cpp"}, {"cuda", ".cu"}};
  for (const auto& language : languages()) out[language.name] = language.extension;
  return out;
}

int serve_http(const ServeHttpArguments& a) {
  Service::Options options;
  options.devices = a.devices;
  options.folder =
      std::filesystem::absolute(a.queue.empty() ? paths::data_dir() / "service" : a.queue);
  options.limits.jobs = a.client_jobs;
  options.body_most = static_cast<size_t>(a.body_mib) << 20;
  options.languages = source_languages();
  options.redis = a.redis;
  if (!a.redis.empty()) redis_place(a.redis);  // Error before any process begins
  HttpOptions http;
  http.address = a.address;
  if (!a.tokens.empty()) http.tokens = load_tokens(a.tokens);
  options.named_clients = !a.tokens.empty();
  http.certificate = a.certificate;
  http.key = a.key;
  if (a.log_json) log_as_json();
  std::list<ReadyJudge> judges;
  for (const auto& device : a.devices) {
    judges.emplace_back(device);
    if (device == kCheckedApart) judges.emplace_back(device, true);
  }
  Service service(options);
  HttpServer server(http, service);
  const std::string where = a.redis.empty()     ? join(a.devices, ", ")
                            : a.devices.empty() ? "workers elsewhere"
                                                : join(a.devices, ", ") + " and workers elsewhere";
  std::printf("judging on %s for clients of %s\n", where.c_str(), server.url().c_str());
  std::fflush(stdout);
  server.run();
  return kExitOk;
}

}  // namespace fk
