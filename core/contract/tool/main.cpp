// SPDX-License-Identifier: Apache-2.0
// fk-header OUT_DIR CONTRACT.yaml...: writes OUT_DIR/<op>.h for each contract. It is a build step
// of its own, because plugins need the headers before the host exists.
#include <cstdio>
#include <filesystem>
#include <string>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/contract/header.hpp"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: fk-header OUT_DIR CONTRACT.yaml...\n");
    return 2;
  }
  try {
    std::filesystem::create_directories(argv[1]);
    for (int i = 2; i < argc; ++i) {
      const fk::Contract contract = fk::Contract::load(argv[i]);
      const auto file = std::filesystem::path(argv[1]) / (contract.op + ".h");
      const std::string text = fk::header_text(contract);
      // An unchanged header keeps its time: a new case or tolerance does not rebuild plugins.
      if (!std::filesystem::exists(file) || fk::read_file(file) != text)
        fk::write_file_atomic(file, text);
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fk-header: %s\n", e.what());
    return 1;
  }
}
