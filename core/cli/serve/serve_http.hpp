// SPDX-License-Identifier: Apache-2.0
// `fk-host serve --http`: jobs of clients over HTTP (core/service).
#pragma once
#include <sys/types.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
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
// contents are ready. Where another server's runs already, jobs ask that one. A killed one is
// started again, and jobs judge themselves meanwhile.
class ReadyJudge {
 public:
  explicit ReadyJudge(std::string device, bool checks = false);
  ~ReadyJudge();
  ReadyJudge(const ReadyJudge&) = delete;

 private:
  void keep();
  pid_t start() const;

  const std::string device_;
  const bool checks_;
  std::mutex mutex_;  // of all below
  std::condition_variable wake_;
  pid_t pid_ = -1;  // -1: none runs
  bool closing_ = false;
  std::thread thread_;  // the process ends with it
};

// All languages of candidates.
SourceLanguages source_languages();

// Answers until it is interrupted.
int serve_http(const ServeHttpArguments& arguments);

}  // namespace fk
