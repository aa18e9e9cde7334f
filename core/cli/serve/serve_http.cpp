// SPDX-License-Identifier: Apache-2.0
#include "core/cli/serve/serve_http.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <list>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/language.hpp"
#include "core/cli/verb.hpp"
#include "core/service/http.hpp"
#include "core/service/service.hpp"

namespace fk {

ReadyJudge::ReadyJudge(const std::string& device, bool checks) {
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail_host("serve", "cannot start a process: " + errno_text());
  if (pid_ > 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  const int null = ::open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, stream);
  ::execl("/proc/self/exe", "fk-host", "serve", "--device", device.c_str(),
          checks ? "--checks" : nullptr, nullptr);
  ::_exit(127);
}

ReadyJudge::~ReadyJudge() {
  ::kill(pid_, SIGTERM);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
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
