// SPDX-License-Identifier: Apache-2.0
// `fk-host serve --http`: jobs of clients over HTTP (core/service).
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace fk {

struct ServeHttpArguments {
  std::string address;
  std::filesystem::path tokens, certificate, key, queue;
  std::vector<std::string> devices;
  bool log_json = false;
  int client_jobs = 1000, body_mib = 32;
};

// Answers until it is interrupted.
int serve_http(const ServeHttpArguments& arguments);

}  // namespace fk
