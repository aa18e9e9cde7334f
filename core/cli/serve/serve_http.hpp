// SPDX-License-Identifier: Apache-2.0
// `fk-host serve --http`: jobs of clients over HTTP (core/service).
#pragma once
#include <sys/types.h>
#include <filesystem>
#include <string>
#include <vector>

#include "core/service/request.hpp"

namespace fk {

struct ServeHttpArguments {
  std::string address;
  std::filesystem::path tokens, certificate, key, queue;
  std::vector<std::string> devices;
  std::string redis;  // empty: no workers elsewhere
  bool log_json = false;
  int client_jobs = 1000, body_mib = 32;
};

// A process `fk-host serve --device DEVICE`, which jobs ask for their verdicts: its oracle and its
// contents are ready. Where one runs already, or it ends, jobs judge themselves. Make it before any
// thread, on the thread that lives longest.
class ReadyJudge {
 public:
  explicit ReadyJudge(const std::string& device, bool checks = false);
  ~ReadyJudge();
  ReadyJudge(const ReadyJudge&) = delete;

 private:
  pid_t pid_ = -1;
};

// All languages of candidates.
SourceLanguages source_languages();

// Answers until it is interrupted.
int serve_http(const ServeHttpArguments& arguments);

}  // namespace fk
