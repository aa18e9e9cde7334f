// SPDX-License-Identifier: Apache-2.0
// If these fail, the provider that was measured to be the best one is not the one that runs.
#include "core/runtime/ranking.hpp"

#include <cstdlib>
#include <fstream>

#include "core/base/error.hpp"
#include "core/device/device_files.hpp"
#include "core/runtime/peaks.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

namespace {

using Names = std::vector<std::string>;

// A registry with devices of its own beside those of this project.
struct RegistryOfDevices {
  Folder folder;
  RegistryOfDevices() { ::setenv("FK_REGISTRY_PATH", folder.path.c_str(), 1); }
  ~RegistryOfDevices() { ::unsetenv("FK_REGISTRY_PATH"); }
  void add(const std::string& device, const std::string& text) const {
    std::filesystem::create_directories(folder.path / "devices");
    std::ofstream(folder.path / "devices" / (device + ".yaml")) << "device: " << device << "\n"
                                                                << text;
  }
};

Names ranked_names(const fk::Ranking& ranking, const char* op, const char* phase) {
  const auto* found = fk::ranked(ranking, op, phase);
  return found ? *found : Names{};
}

std::string ranking_refused(const std::string& device_name) {
  return message_of<fk::Error>([&] { fk::ranking_of(device_name); });
}

}  // namespace

TEST_CASE("ranking_is_by_op_or_by_op_and_phase") {
  const RegistryOfDevices registry;
  registry.add("fake",
               "name: Fake 1\n"
               "ranking: {linear: [b, a], paged_attention: {prefill: [c, a], decode: [a]}}\n");
  const fk::Ranking ranking = fk::ranking_of("cuda:0 Fake 1");
  CHECK(fk::ranking_of("cuda:0 Fake 2").empty());
  CHECK(ranked_names(ranking, "linear", "") == Names{"b", "a"});
  CHECK(ranked_names(ranking, "linear", "decode") == Names{"b", "a"});
  CHECK(ranked_names(ranking, "paged_attention", "prefill") == Names{"c", "a"});
  CHECK(ranked_names(ranking, "paged_attention", "decode") == Names{"a"});
  CHECK(ranked_names(ranking, "paged_attention", "encode").empty());
  CHECK(ranked_names(ranking, "rms_norm", "decode").empty());
}

TEST_CASE("ranking_of_a_device_may_be_that_of_another_one") {
  const RegistryOfDevices registry;
  registry.add("measured", "name: Fake 1\nranking: {linear: [b, a]}\n");
  registry.add("alike", "name: Fake 2\nranking: measured\n");
  registry.add("third", "name: Fake 3\nranking: alike\n");
  for (const char* name : {"cuda:0 Fake 1", "cuda:0 Fake 2", "cuda:1 Fake 3"})
    CHECK(ranked_names(fk::ranking_of(name), "linear", "") == Names{"b", "a"});
}

TEST_CASE("ranking_of_no_device_or_in_a_circle_is_refused_with_the_place") {
  const RegistryOfDevices registry;
  registry.add("wrong", "name: Fake 1\nranking: h20\n");
  registry.add("own", "name: Fake 2\nranking: own\n");
  registry.add("there", "name: Fake 3\nranking: back\n");
  registry.add("back", "name: Fake 4\nranking: there\n");
  registry.add("bare", "name: Fake 5\n");
  registry.add("none", "name: Fake 6\nranking: bare\n");
  const std::string wrong = ranking_refused("cuda:0 Fake 1");
  CHECK_THAT(wrong, ContainsSubstring("wrong.yaml:3") && ContainsSubstring("no device `h20`"));
  CHECK_THAT(wrong, ContainsSubstring("h200"));
  CHECK_THAT(ranking_refused("cuda:0 Fake 2"),
             ContainsSubstring("own.yaml:3") && ContainsSubstring("own -> own"));
  CHECK_THAT(ranking_refused("cuda:0 Fake 3"),
             ContainsSubstring("back.yaml:3") && ContainsSubstring("there -> back -> there"));
  CHECK(fk::ranking_of("cuda:0 Fake 5").empty());
  CHECK_THAT(ranking_refused("cuda:0 Fake 6"),
             ContainsSubstring("none.yaml:3") && ContainsSubstring("`bare` has no ranking"));
}

// An H100 without it would run what comes first in the alphabet.
TEST_CASE("ranking_of_an_h100_is_that_of_an_h200") {
  const fk::Ranking h200 = fk::ranking_of("cuda:0 NVIDIA H200");
  CHECK(ranked_names(h200, "linear", "prefill") == Names{"cuda", "cublas"});
  for (const char* name :
       {"cuda:1 NVIDIA H100 80GB HBM3", "cuda:0 NVIDIA H100 80GB HBM3 MIG 7g.80gb"})
    CHECK(fk::ranking_of(name) == h200);
}

TEST_CASE("device_is_of_a_kind_whose_name_it_has_in_whole_words") {
  CHECK(fk::is_of_kind("NVIDIA H200", "NVIDIA H200"));
  CHECK(fk::is_of_kind("cuda:0 NVIDIA H200 NVL", "NVIDIA H200"));
  CHECK_FALSE(fk::is_of_kind("cuda:0 NVIDIA H2000", "NVIDIA H200"));
  CHECK_FALSE(fk::is_of_kind("cuda:0 NVIDIA GH200 480GB", "H200"));
  CHECK_FALSE(fk::is_of_kind("cpu", ""));
  CHECK(fk::peaks_of("cuda:0 NVIDIA H100 80GB HBM3 MIG 7g.80gb"));
  CHECK_FALSE(fk::peaks_of("cuda:0 NVIDIA H1000"));
}
