// SPDX-License-Identifier: Apache-2.0
// Which baselines a judge has on a device, by what their notes say of device code.
#include "core/check/plugin_set.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "test/catch.hpp"

namespace {

std::vector<std::string> names_on(const std::string& device, const char* plugins) {
  ::setenv("FK_PLUGIN_PATH", plugins, 1);
  const auto names = fk::PluginSet::of_baselines(device).ranked();
  ::unsetenv("FK_PLUGIN_PATH");
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::count(names.begin(), names.end(), name) > 0;
}

}  // namespace

TEST_CASE("a judge on the CPU leaves out baselines with device code") {
  CHECK(has(names_on("cuda:0", FK_DEVICE_CODE), "device_code"));
  CHECK_FALSE(has(names_on("cpu", FK_DEVICE_CODE), "device_code"));
}

TEST_CASE("the notes of our own providers tell those for GPUs from those for the CPU") {
  const auto on_cpu = names_on("cpu", FK_PLUGINS), on_gpu = names_on("cuda:0", FK_PLUGINS);
  CHECK(has(on_cpu, "reference"));
  for (const auto& name : on_gpu) {
    if (name == "opencl_reference") continue;  // its kernels are sources, so its file has no device code
    INFO(name);
    CHECK(has(on_cpu, name) == (name == "reference" || name == "cpu"));
  }
}

// If this fails, a slow plugin from outside stands in a run for the host's own provider, and every
// candidate looks faster than it is.
TEST_CASE("the host's own providers come before plugins of FK_PLUGIN_PATH, and oracles last") {
  const auto names = names_on("cpu", FK_SLOW);  // a_slow: before cpu by its name
  const auto place = [&](const char* name) {
    const auto at = std::find(names.begin(), names.end(), name);
    REQUIRE(at != names.end());
    return at - names.begin();
  };
  CHECK(place("cpu") < place("a_slow"));
  CHECK(place("a_slow") < place("reference"));
}

// If this fails, a plugin from outside takes the place of a provider of the host by its name alone.
TEST_CASE("a plugin of FK_PLUGIN_PATH with the name of the host's own provider is refused") {
  namespace fs = std::filesystem;
  // Files come in the order of their paths, so the folder must come before the host's own.
  const fs::path folder = fs::path("/tmp") / ("fk_a_impostor" + std::to_string(::getpid()));
  fs::create_directories(folder);
  fs::copy_file(FK_IMPOSTOR, folder / "impostor.so", fs::copy_options::overwrite_existing);
  ::setenv("FK_PLUGIN_PATH", folder.c_str(), 1);
  const fk::PluginSet plugin_set = fk::PluginSet::of_baselines("cpu");
  ::unsetenv("FK_PLUGIN_PATH");
  fs::remove_all(folder);
  CHECK(std::ranges::count_if(plugin_set.baselines, [](const fk::FoundPlugin& found) {
          return found.note.name == "reference" && found.own;
        }) == 1);
  REQUIRE(plugin_set.broken.size() == 1);
  CHECK(plugin_set.broken[0].path == folder / "impostor.so");
  CHECK_THAT(plugin_set.broken[0].error,
             ContainsSubstring("the host's own provider has the name `reference` too") &&
                 ContainsSubstring("give FK_PLUGIN another name"));
}

TEST_CASE("a candidate with the name of a baseline is refused wherever it lies") {
  namespace fs = std::filesystem;
  const fk::Catalog catalog(fk::paths::registry_dirs());
  const std::string word = "a baseline has the same name: ";
  // Plugins of one name come in the order of their paths.
  for (const char* name : {"a_candidates", "z_candidates"}) {
    const fs::path folder = fs::path(FK_PLUGINS).parent_path() / name;
    fs::create_directories(folder);
    fs::copy_file(FK_IMPOSTOR, folder / "impostor.so", fs::copy_options::overwrite_existing);
    ::setenv("FK_CANDIDATES", folder.c_str(), 1);
    const fk::PluginSet plugin_set = fk::PluginSet::find(catalog);
    ::unsetenv("FK_CANDIDATES");
    fs::remove_all(folder);
    REQUIRE(plugin_set.candidates.size() == 1);
    CHECK_THAT(plugin_set.candidates[0].error, ContainsSubstring(word));
  }
  const fk::PluginSet plugin_set = fk::PluginSet::find(catalog);
  CHECK_THAT(message_of<fk::Error>([&] { plugin_set.plugin(FK_IMPOSTOR); }),
             ContainsSubstring(word));
  CHECK(plugin_set.plugin(FK_PLUGINS "/reference.so").trust == fk::Trust::baseline);
}

// If this fails, `run --candidate` refuses a plugin outside of the folders of candidates, such as a
// winner of `evolve`.
TEST_CASE("a candidate from elsewhere is taken in by its file or folder") {
  namespace fs = std::filesystem;
  const fk::Catalog catalog(fk::paths::registry_dirs());
  const fs::path folder = fs::path(FK_PLUGINS).parent_path() / "elsewhere/good";
  fs::create_directories(folder);
  const auto none = message_of<fk::Error>([&] {
    std::vector<std::string> words = {folder.string()};
    fk::PluginSet::find(catalog).take_in(words, catalog);
  });
  CHECK_THAT(none, ContainsSubstring("it has not been built (fk-host build "));
  fs::copy_file(FK_GOOD, folder / "good.so", fs::copy_options::overwrite_existing);
  const std::string file = (folder / "good.so").string();
  for (const std::string& word : {file, folder.string(), folder.string() + "/"}) {
    fk::PluginSet plugin_set = fk::PluginSet::find(catalog);
    std::vector<std::string> words = {"nobody", word, word};
    plugin_set.take_in(words, catalog);
    CHECK(words == std::vector<std::string>{"nobody", "good", "good"});
    REQUIRE(plugin_set.candidate("good"));
    CHECK(fs::equivalent(plugin_set.candidate("good")->path, folder / "good.so"));
    CHECK(plugin_set.candidate("good")->error.empty());
  }
  fk::PluginSet plugin_set = fk::PluginSet::find(catalog);
  const auto refusal_of = [&](std::vector<std::string> words) {
    return message_of<fk::Error>([&] { plugin_set.take_in(words, catalog); });
  };
  CHECK_THAT(refusal_of({file, FK_GOOD}),
             ContainsSubstring("another candidate has the same name: " + file));
  CHECK_THAT(refusal_of({FK_PLUGINS "/reference.so"}),
             ContainsSubstring("it is the baseline `reference`"));
  CHECK_THAT(refusal_of({"/nowhere.so"}), ContainsSubstring("there is no such file"));
  fs::remove_all(folder.parent_path());
}
