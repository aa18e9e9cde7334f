// SPDX-License-Identifier: Apache-2.0
// A worker of a server on another machine: it takes one task after the other from Redis
// (remote_messages.hpp). A second thread shows Redis that the worker lives. Tasks of a worker that
// died are taken over.
#pragma once
#include <atomic>
#include <filesystem>
#include <string>

#include "core/service/redis.hpp"
#include "core/service/request.hpp"

namespace fk {

struct RemoteWorkerOptions {
  std::string url, device;
  std::filesystem::path folder;  // with a folder for each worker
  SourceLanguages languages;
  double idle_s = 0;    // ends when no task came for so long; 0: never
  double claim_s = 30;  // a worker without a sign of life for so long loses its task
};

// Until `stop` is true: then the present task goes back to the server. Returns the number of tasks
// which it judged. HostError when the folder cannot be used, and when the server has another
// program. HostError too when this machine cannot run a task, which goes back to the server. Redis
// may come and go.
int64_t run_remote_worker(const RemoteWorkerOptions& options, const std::atomic<bool>& stop);

}  // namespace fk
