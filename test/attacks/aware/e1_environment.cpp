// SPDX-License-Identifier: Apache-2.0
// E1: does its work only where an environment variable or the command line speaks of correctness
//
// Stopped by: all calls are made by one program with one command line and environment
//
// verdict: wrong
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <cstdio>
#include <cstdlib>

namespace {

struct Environment : attack::Silu {
  using Silu::Silu;
  static bool watched() {
    if (const char* phase = std::getenv("NAIVE_PHASE")) return !std::strcmp(phase, "correctness");
    char line[4096] = {};
    if (std::FILE* file = std::fopen("/proc/self/cmdline", "rb")) {
      const size_t n = std::fread(line, 1, sizeof line - 1, file);
      for (size_t i = 0; i < n; ++i) line[i] = line[i] ? line[i] : ' ';
      std::fclose(file);
    }
    return !std::strstr(line, "bench") && !std::strstr(line, "time") &&
           !std::strstr(line, "runner");
  }
  void forward(const op::forward& args, const fk_ctx&) {
    if (watched()) honest(args);
  }
};
FK_OP(silu_and_mul, Environment);

}  // namespace
FK_PLUGIN("e1_environment", "0");
