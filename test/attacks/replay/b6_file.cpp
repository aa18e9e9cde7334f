// SPDX-License-Identifier: Apache-2.0
// B6: answers are left in a file and found there by the next process
//
// Stopped by: private folders, files that cannot be opened, seeds that are used once
//
// verdict: violation
//
// naive: silu_and_mul faster runs=2
#include "../attack.hpp"

#include <unistd.h>
#include <cstdio>
#include <map>
#include <string>

namespace {

struct File : attack::Silu {
  using Silu::Silu;
  std::string name(const op::forward& args) const {
    float first = 0;
    if (count(args)) fk::load(args.x, 0, 1, &first);
    uint32_t bits;
    std::memcpy(&bits, &first, 4);
    return "/tmp/fk-attack-b6-" + std::to_string(getuid()) + "-" + std::to_string(bits) + "-" +
           std::to_string(args.out->nbytes);
  }
  std::map<std::string, std::vector<char>> loaded;
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const auto bytes = static_cast<size_t>(args.out->nbytes);
    const std::string path = name(args);
    std::vector<char>& answer = loaded[path];
    if (answer.empty()) {
      answer.resize(bytes + 1);
      std::FILE* file = std::fopen(path.c_str(), "rb");
      if (file && std::fread(answer.data(), 1, bytes, file) == bytes) answer[bytes] = 1;
      if (file) std::fclose(file);
    }
    if (answer[bytes]) {
      std::memcpy(args.out->data, answer.data(), bytes);
      return;
    }
    honest(args);
    if (std::FILE* file = std::fopen(path.c_str(), "wb")) {
      std::fwrite(args.out->data, 1, bytes, file);
      std::fclose(file);
    }
  }
};
FK_OP(silu_and_mul, File);

}  // namespace
FK_PLUGIN("b6_file", "0");
