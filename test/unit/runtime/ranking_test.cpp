// SPDX-License-Identifier: Apache-2.0
// If these fail, the provider that was measured to be the best one is not the one that runs.
#include "core/runtime/ranking.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "test/catch.hpp"

TEST_CASE("ranking_is_by_op_or_by_op_and_phase") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("fk-ranking-" + std::to_string(::getpid()));
  fs::create_directories(root / "devices");
  std::ofstream(root / "devices" / "fake.yaml")
      << "device: fake\nname: Fake 1\n"
         "ranking: {linear: [b, a], paged_attention: {prefill: [c, a], decode: [a]}}\n";
  ::setenv("FK_REGISTRY_PATH", root.c_str(), 1);
  const fk::Ranking ranking = fk::ranking_of("cuda:0 Fake 1");
  const fk::Ranking other = fk::ranking_of("cuda:0 Fake 2");
  ::unsetenv("FK_REGISTRY_PATH");
  fs::remove_all(root);
  CHECK(other.empty());

  using Names = std::vector<std::string>;
  const auto names = [&](const char* op, const char* phase) {
    const auto* found = fk::ranked(ranking, op, phase);
    return found ? *found : Names{};
  };
  CHECK(names("linear", "") == Names{"b", "a"});
  CHECK(names("linear", "decode") == Names{"b", "a"});
  CHECK(names("paged_attention", "prefill") == Names{"c", "a"});
  CHECK(names("paged_attention", "decode") == Names{"a"});
  CHECK(names("paged_attention", "encode").empty());
  CHECK(names("rms_norm", "decode").empty());
}
