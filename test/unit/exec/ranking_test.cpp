// SPDX-License-Identifier: Apache-2.0
// If these fail, the provider that was measured to be the best one is not the one that runs.
#include "core/exec/ranking.hpp"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/device/device_files.hpp"
#include "core/exec/peaks.hpp"
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

Names ranked_names(const fk::Ranking& ranking, const char* op, const fk::Axes& axes = {}) {
  const auto* found = fk::ranked(ranking, op, axes);
  return found ? *found : Names{};
}

std::string ranking_refused(const std::string& device_name) {
  return message_of<fk::Error>([&] { fk::ranking_of(device_name); });
}

}  // namespace

TEST_CASE("ranking_is_by_op_or_by_op_and_sizes") {
  const RegistryOfDevices registry;
  registry.add(
      "mutant",
      "name: Mutant 1\n"
      "ranking:\n"
      "  linear: [b, a]\n"
      "  paged_attention:\n"
      "    - {where: {T: {at_least: 64, at_most: 128}, W*Z: {at_most: 8}}, providers: [c]}\n"
      "    - {where: {T/B: {at_least: 2}}, providers: [d, a]}\n"
      "  fused_moe: [{where: {T: {at_most: 8}}, providers: [a]}, [b]]\n");
  const fk::Ranking ranking = fk::ranking_of("cuda:0 Mutant 1");
  CHECK(fk::ranking_of("cuda:0 Mutant 2").empty());
  CHECK(ranked_names(ranking, "linear") == Names{"b", "a"});
  const auto attention = [&](int64_t tokens, int64_t requests, int64_t pages) {
    return ranked_names(ranking, "paged_attention",
                        {{"T", tokens}, {"B", requests}, {"W", pages}, {"Z", 4}});
  };
  CHECK(attention(64, 64, 2) == Names{"c"});
  CHECK(attention(128, 1, 2) == Names{"c"});
  CHECK(attention(129, 1, 2) == Names{"d", "a"});
  CHECK(attention(128, 1, 3) == Names{"d", "a"});
  CHECK(attention(63, 32, 2).empty());
  CHECK(ranked_names(ranking, "fused_moe", {{"T", 8}}) == Names{"a"});
  CHECK(ranked_names(ranking, "fused_moe", {{"T", 9}}) == Names{"b"});
  CHECK(ranked_names(ranking, "rms_norm").empty());
  CHECK(fk::Json(ranking).get<fk::Ranking>() == ranking);  // as a session's process gets it
}

TEST_CASE("ranking_by_sizes_that_says_nothing_is_refused_with_the_place") {
  const RegistryOfDevices registry;
  auto refused = [&, n = 0](const std::string& text) mutable {
    const std::string mutant = "Mutant " + std::to_string(++n);
    registry.add("f" + std::to_string(n),
                 "name: " + mutant + "\nranking: {linear: " + text + "}\n");
    return ranking_refused("cuda:0 " + mutant);
  };
  CHECK_THAT(refused("[[a], [b]]"), ContainsSubstring("f1.yaml:3") &&
                                        ContainsSubstring("comes after a list without `where`"));
  CHECK_THAT(refused("[{where: {T: {at_leest: 2}}, providers: [a]}]"),
             ContainsSubstring("f2.yaml:3") && ContainsSubstring("at_least"));
  CHECK_THAT(refused("[{where: {T: {}}, providers: [a]}]"), ContainsSubstring("no bound of `T`"));
  CHECK_THAT(refused("[{where: {T+: {at_least: 2}}, providers: [a]}]"),
             ContainsSubstring("f4.yaml:3"));
  CHECK_THAT(refused("[{where: {T: {at_least: 2}}}]"), ContainsSubstring("providers"));
  CHECK_THAT(refused("[]"), ContainsSubstring("no provider"));
}

// If this fails, a mistyped op leaves the op without its ranking, and nobody notices.
TEST_CASE("ranking_of_an_unknown_op_is_refused_with_the_place_and_the_nearest_op") {
  const RegistryOfDevices registry;
  registry.add("typo", "name: Mutant 1\nranking:\n  linear: [a]\n  rms_nrm: [a]\n");
  CHECK_THAT(ranking_refused("cuda:0 Mutant 1"),
             ContainsSubstring("typo.yaml:5") &&
                 ContainsSubstring("the ranking names the op `rms_nrm`, which does not exist") &&
                 ContainsSubstring("did you mean `rms_norm`"));
}

TEST_CASE("ranking_of_a_device_may_be_that_of_another_one") {
  const RegistryOfDevices registry;
  registry.add("measured", "name: Mutant 1\nranking: {linear: [b, a]}\n");
  registry.add("alike", "name: Mutant 2\nranking: measured\n");
  registry.add("third", "name: Mutant 3\nranking: alike\n");
  for (const char* name : {"cuda:0 Mutant 1", "cuda:0 Mutant 2", "cuda:1 Mutant 3"})
    CHECK(ranked_names(fk::ranking_of(name), "linear") == Names{"b", "a"});
}

TEST_CASE("ranking_of_no_device_or_in_a_circle_is_refused_with_the_place") {
  const RegistryOfDevices registry;
  registry.add("wrong", "name: Mutant 1\nranking: h20\n");
  registry.add("own", "name: Mutant 2\nranking: own\n");
  registry.add("there", "name: Mutant 3\nranking: back\n");
  registry.add("back", "name: Mutant 4\nranking: there\n");
  registry.add("bare", "name: Mutant 5\n");
  registry.add("none", "name: Mutant 6\nranking: bare\n");
  const std::string wrong = ranking_refused("cuda:0 Mutant 1");
  CHECK_THAT(wrong, ContainsSubstring("wrong.yaml:3") && ContainsSubstring("no device `h20`"));
  CHECK_THAT(wrong, ContainsSubstring("h200"));
  CHECK_THAT(ranking_refused("cuda:0 Mutant 2"),
             ContainsSubstring("own.yaml:3") && ContainsSubstring("own -> own"));
  CHECK_THAT(ranking_refused("cuda:0 Mutant 3"),
             ContainsSubstring("back.yaml:3") && ContainsSubstring("there -> back -> there"));
  CHECK(fk::ranking_of("cuda:0 Mutant 5").empty());
  CHECK_THAT(ranking_refused("cuda:0 Mutant 6"),
             ContainsSubstring("none.yaml:3") && ContainsSubstring("`bare` has no ranking"));
}

// An H100 without it would run what comes first in the alphabet.
TEST_CASE("ranking_of_an_h100_is_that_of_an_h200") {
  const fk::Ranking h200 = fk::ranking_of("cuda:0 NVIDIA H200");
  CHECK(ranked_names(h200, "linear") == Names{"cuda", "cublas"});
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
