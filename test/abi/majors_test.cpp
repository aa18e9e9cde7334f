// SPDX-License-Identifier: Apache-2.0
// A plugin of an older major loads with a note. A plugin whose entries and note disagree about the
// major is refused in one sentence, by the lint and by the loader.
#include <unistd.h>

#include <cstring>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/plugin/abi_major.hpp"
#include "core/plugin/library.hpp"
#include "test/catch.hpp"

namespace {

const std::filesystem::path kMajors = std::filesystem::path(FK_ABI_DIR) / "frozen";

// The file with another major in its note.
std::filesystem::path with_major(const std::filesystem::path& plugin, uint32_t major) {
  std::string image = fk::read_file(plugin);
  for (size_t at = 0; at + sizeof(fk_note_plugin) < image.size(); at += 4) {
    auto* note = reinterpret_cast<fk_note_plugin*>(image.data() + at);
    if (note->name_bytes != 4 || note->type != FK_NOTE_PLUGIN ||
        std::memcmp(note->owner, "FK\0\0", 4) != 0)
      continue;
    note->abi_major = major;
    const auto made = std::filesystem::temp_directory_path() /
                      ("fk_major_" + std::to_string(getpid()) + "_" + plugin.filename().string());
    fk::write_file_atomic(made, image);
    return made;
  }
  FAIL("no note in " << plugin);
  return {};
}

std::string load_refusal(const std::filesystem::path& plugin) {
  const fk::Catalog catalog({std::filesystem::path(FK_SOURCE_DIR) / "registry"});
  fk::Plugins plugins(catalog);
  return message_of<fk::Error>([&] { plugins.load(plugin, fk::Trust::candidate); });
}

// Both ways to a plugin must refuse it: a baseline is loaded without the lint.
void refused(const std::filesystem::path& plugin, const std::string& why) {
  CHECK_THAT(load_refusal(plugin), ContainsSubstring("it " + why));
  CHECK(fk::broken_rule(plugin, fk::Trust::candidate) == "entry_symbol: " + why);
}

}  // namespace

TEST_CASE("majors_are_pinned") {
  CHECK(std::string(FK_PLUGIN_SYMBOL) == "fk_plugin_v1");
  CHECK(fk::entry_symbol(FK_ABI_MAJOR) == FK_PLUGIN_SYMBOL);
  CHECK(fk::kOldestAbiMajor == 0);
  const auto api = std::filesystem::path(FK_SOURCE_DIR) / "plugin_api";
  CHECK(fk::read_file(api / "fk/plugin.map") == "{ global: fk_plugin_v1; local: *; };\n");
  // Python calls plugins by the same majors.
  CHECK_THAT(fk::read_file(api / "adapters/torch/fk_plugin.py"),
             ContainsSubstring("MAJOR, OLDEST_MAJOR = " + std::to_string(FK_ABI_MAJOR) + ", " +
                               std::to_string(fk::kOldestAbiMajor) + " "));
}

#ifdef __x86_64__
TEST_CASE("majors_of_an_older_plugin_are_told_once") {
  const auto old = kMajors / "rms_norm.v0.so";
  std::vector<std::string> told;
  for (const auto& finding : fk::lint(old, fk::Trust::candidate)) {
    CHECK_FALSE(finding.fatal);
    if (finding.rule == "abi") told.push_back(finding.text);
  }
  REQUIRE(told.size() == 1);
  CHECK(told[0] ==
        "was built for ABI v0, which only this version still loads; build it again with this "
        "version's headers");
  const fk::Catalog catalog({std::filesystem::path(FK_SOURCE_DIR) / "registry"});
  fk::Plugins plugins(catalog);
  plugins.load(old, fk::Trust::candidate);
  CHECK(plugins.of("rms_norm").size() == 1);
  for (const auto& finding : fk::lint(kMajors / "cpp/rms_norm.v1.so", fk::Trust::candidate))
    CHECK(finding.rule != "abi");
}

TEST_CASE("majors_of_entry_and_note_agree") {
  refused(with_major(kMajors / "c/silu_and_mul.v1.so", 0),
          "exports fk_plugin_v1, but its note is of ABI v0; build it again with the headers of one "
          "version");
  refused(with_major(kMajors / "silu_and_mul.v0.so", 1),
          "exports fk_plugin_v0, but its note is of ABI v1; build it again with the headers of one "
          "version");
  CHECK_THAT(load_refusal(with_major(kMajors / "c/silu_and_mul.v1.so", 2)),
             ContainsSubstring("was built for fk_plugin_v2, this host speaks v0 and v1"));
}
#endif

TEST_CASE("majors_a_plugin_has_one_entry") {
  refused(std::filesystem::path(FK_GROWN_DIR) / "grown_both.so",
          "exports fk_plugin_v0 and fk_plugin_v1; a plugin has one entry");
}
