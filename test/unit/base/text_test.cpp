// SPDX-License-Identifier: Apache-2.0
//
// If these fail, messages suggest nonsense or show wrong numbers.

#include "core/base/text.hpp"

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "test/catch.hpp"

using namespace fk;

TEST_CASE("nearest_misspelt_finds", "[base]") {
  const std::vector<std::string> names = {"rms_norm", "layer_norm", "linear", "x"};
  CHECK(nearest("rms_nrom", names) == "rms_norm");
  CHECK(nearest("RMS_NORM", names) == "rms_norm");
  CHECK(nearest("lineer", names) == "linear");
  CHECK(nearest("attention", names).empty());
  CHECK(nearest("y", names).empty());
  CHECK(nearest("", names).empty());
  CHECK(nearest(std::string(100000, 'a'), names).empty());
  CHECK(did_you_mean("lineer", names) == "did you mean `linear`?");
  CHECK(did_you_mean("zzzzzz", {"a", "b"}) == "known: a, b");
  CHECK(did_you_mean("zzzzzz", {}).empty());
  // Names with common parts come first.
  CHECK(did_you_mean("fused_add_rms_norm", {"activation", "rms_norm", "layer_norm", "add"}) ==
        "known: rms_norm, add, layer_norm, activation");
  CHECK(did_you_mean("zzzzzz", std::vector<std::string>(15, "q")).ends_with(", and 3 more"));
}

TEST_CASE("text_helpers_plain_cases", "[base]") {
  CHECK(split("a,,b", ',') == std::vector<std::string>{"a", "", "b"});
  CHECK(split("", ',') == std::vector<std::string>{""});
  CHECK(join({"a", "b"}, ", ") == "a, b");
  CHECK(trim("  a b\n") == "a b");
  CHECK(trim(" \t").empty());
  CHECK(excerpt("a\nb") == "a\\x0ab");
  CHECK(printable("a\nb\x7F\t") == "a?b??");
  CHECK(printable("a\nb\x1b[1m", "\n") == "a\nb?[1m");
  CHECK(excerpt("\xC3\xA4\xC3\xA4\xC3\xA4", 5) == "\xC3\xA4...");
  CHECK(human_bytes(640) == "640 B");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(int64_t{93} << 30) == "93.0 GiB");
  CHECK(human_bytes(1048575) == "1.0 MiB");
  CHECK(human_bytes(INT64_MIN).starts_with("-8.0 EiB"));
  CHECK(human_count(950) == "950");
  CHECK(human_count(12345) == "12.3 k");
  CHECK(human_count(46700000000) == "46.7 G");
  CHECK(human_duration(812e-9) == "812 ns");
  CHECK(human_duration(12.1e-6) == "12.1 us");
  CHECK(human_duration(3.4e-3) == "3.40 ms");
  CHECK(human_duration(1.5) == "1.5 s");
  CHECK(human_duration(125) == "2 min 05 s");
  CHECK(human_duration(3 * 3600 + 7 * 60) == "3 h 07 min");
  CHECK(human_duration(-1.5) == "-1.5 s");
}

// Names and words of plugins and files may hold anything.
TEST_CASE("text_that_is_shown_has_nothing_that_a_terminal_obeys_or_that_turns_other_text",
          "[base]") {
  CHECK(printable("\xC2\x9B"
                  "31m") == "?31m");  // C1: a control sequence in one character
  CHECK(printable("a\x9B"
                  "b") == "a?b");  // the same byte, which is no UTF-8
  CHECK(printable("a\xE2\x80\xAE"
                  "so.exe") == "a?so.exe");                // U+202E turns what follows around
  CHECK(printable("\xE2\x81\xA6x\xE2\x81\xA9") == "?x?");  // isolates
  CHECK(printable("\xD8\x9Cx\xE2\x80\x8Fx\xEF\xBB\xBFx") == "?x?x?x");  // marks
  CHECK(printable("\xF3\xA0\x81\x81") == "?");                          // a tag
  // A long form, half of a pair, what is beyond the last character.
  CHECK(printable("\xC0\x8A\xED\xA0\x80\xF4\x90\x80\x80") == "????");
  CHECK(printable("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x99\x82") ==
        "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x99\x82");  // letters and signs stay
  CHECK(excerpt("a\xE2\x80\xAE"
                "b") == "a\\xe2\\x80\\xaeb");
  CHECK(excerpt("\xC2\x9B") == "\\xc2\\x9b");
  CHECK(begun_character("a\xE2\x80") == 2);
  CHECK(begun_character("a\xE2\x80\xAE") == 0);
  CHECK(begun_character("a") == 0);
}

TEST_CASE("error_parts_make_one_sentence", "[base]") {
  CHECK(std::string(Error("a", "b", "c").what()) == "a: b (c)");
  CHECK(std::string(Error("a", "b").what()) == "a: b");
  CHECK(std::string(Error("", "b").what()) == "b");
  CHECK(message_of<Error>([] { log_level_from("wran"); }) ==
        "log level: unknown level `wran` (did you mean `warn`?)");
  CHECK(log_level_from("ERROR") == LogLevel::error);
}

TEST_CASE("paths_environment_wins", "[base]") {
  CHECK(std::filesystem::is_directory(paths::executable_dir()));
  ::setenv("FK_HOME", "/proc", 1);
  CHECK(message_of<Error>([] { paths::home(); }) ==
        "FK_HOME: `/proc` has no folders registry/ops and scenarios");
  const auto home = std::filesystem::temp_directory_path() / "fk_paths_test";
  std::filesystem::create_directories(home / "registry" / "ops");
  std::filesystem::create_directories(home / "scenarios");
  ::setenv("FK_HOME", home.c_str(), 1);
  ::setenv("FK_REGISTRY_PATH", "/tmp", 1);
  CHECK(paths::home() == home);
  CHECK(paths::registry_dirs() == std::vector<std::filesystem::path>{home / "registry", "/tmp"});
  CHECK(paths::candidates_dir() == home / "candidates");
  ::setenv("FK_REGISTRY_PATH", "/no/such", 1);
  CHECK_THROWS_AS(paths::registry_dirs(), Error);
  ::setenv("FK_PLUGIN_PATH", "/no/such", 1);
  CHECK_THROWS_AS(paths::plugin_dirs(), Error);
  for (const char* name : {"FK_HOME", "FK_REGISTRY_PATH", "FK_PLUGIN_PATH"}) ::unsetenv(name);
  std::filesystem::remove_all(home);
}
