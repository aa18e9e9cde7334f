// SPDX-License-Identifier: Apache-2.0
// fk-host work: judges jobs of `fk-host serve --http --redis` on this machine.
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/serve/serve_http.hpp"
#include "core/cli/verb.hpp"
#include "core/device/rank_device.hpp"
#include "core/service/remote_worker.hpp"

namespace fk {
namespace {

struct WorkArguments {
  std::string redis, device = "cpu";
  double idle_s = 0, claim_s = 30;
  bool log_json = false;
};

std::atomic<bool> work_stops = false;

int work(WorkArguments& a) {
  RemoteWorkerOptions options;
  options.url = a.redis.empty() ? environment("FK_REDIS") : a.redis;
  if (options.url.empty())
    fail("--redis", "there is no address of Redis",
         "--redis redis://:PASSWORD@HOST:PORT, or the variable FK_REDIS");
  const std::string place = redis_place(options.url).text();
  check_device_name(a.device);
  if (a.log_json) log_as_json();
  options.device = a.device;
  options.folder = std::filesystem::absolute(paths::data_dir()) / "workers";
  options.languages = source_languages();
  options.idle_s = a.idle_s;
  options.claim_s = a.claim_s;
  struct sigaction action {};
  action.sa_handler = [](int) { work_stops = true; };
  const ReadyJudge judge(a.device);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  std::printf("judging on %s for the server at %s\n", a.device.c_str(), place.c_str());
  std::fflush(stdout);
  const int64_t judged = run_remote_worker(options, work_stops);
  std::printf("%lld stages of jobs ended here\n", static_cast<long long>(judged));
  return kExitOk;
}

std::function<int()> add_work(const Options& app) {
  auto a = std::make_shared<WorkArguments>();
  app.add_option("--redis", a->redis,
                 "the database of a server, redis://:PASSWORD@HOST:PORT/NUMBER; default: the "
                 "variable FK_REDIS. REDISCLI_AUTH may have the password");
  app.add_option("--device", a->device, "cpu (the default) or cuda:0");
  app.add_option("--idle", a->idle_s, "end after so many seconds without a job; default: never")
      .positive();
  app.add_option("--claim", a->claim_s,
                 "seconds until the job of a worker without a sign of life is taken over; the same "
                 "for all workers")
      .positive();
  app.add_flag("--log-json", a->log_json,
               "standard error has a JSON object for each event, by FK_LOG's level");
  app.footer(
      "One worker has one device, and judges one job at a time. SIGTERM gives its job back to the "
      "server. Start several, also by a job array of Slurm. docs/service.md has more.");
  return [a] { return work(*a); };
}

FK_VERB(work, "judge jobs of a server on another machine (`serve --http --redis`)", add_work);

}  // namespace
}  // namespace fk
