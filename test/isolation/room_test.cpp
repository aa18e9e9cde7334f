// SPDX-License-Identifier: Apache-2.0
// Whole runs on devices that are too small for their scenario (shadow.cpp). They end with the
// figures before anything is made, have fewer pages, or divide the oracle as well.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/json.hpp"
#include "test/folder.hpp"
#include "test/shell.hpp"

namespace {

using fk::Json;

struct SmallRun {
  int code = 0;
  Json report;
};

// A run of a tiny Llama with 512 pages, on a device with so many bytes.
SmallRun run_small(int64_t memory, const std::string& options = "", int64_t free = -1) {
  const Folder folder;
  const Shell out =
      shell("TMPDIR=" + folder.path.string() + " FK_SHADOW_MEMORY=" + std::to_string(memory) +
            (free < 0 ? "" : " FK_SHADOW_FREE=" + std::to_string(free)) +
            " FK_CANDIDATES=" + folder.path.string() +
            " timeout 100 " FK_SHADOW_HOST
            " run llama3.1 --profile tiny --workload single_request --device shadow:0 --json - " +
            options + " 2>/dev/null");
  CAPTURE(out.text);
  return {out.code, fk::parse_json(out.text, "report")};
}

std::string text_of(const SmallRun& run, const char* key) {
  return run.report.at(key).get<std::string>();
}

constexpr int64_t kMuch = int64_t{64} << 30;

}  // namespace

TEST_CASE("room_for_everything_changes_nothing") {
  const SmallRun run = run_small(kMuch);
  CHECK(run.code == 0);
  CHECK(text_of(run, "error") == "");
  CHECK(text_of(run, "room") == "");
  CHECK(run.report.at("too_large").is_null());
  CHECK(run.report.at("pages") == 512);
}

TEST_CASE("room_for_less_than_the_weights_is_told_with_figures") {
  const SmallRun run = run_small(1 << 20);
  CHECK(run.code == 3);
  CHECK_THAT(text_of(run, "error"), ContainsSubstring("it needs 4.0 GiB") &&
                                        ContainsSubstring(" for weights and ") &&
                                        ContainsSubstring("has 1.0 MiB (--tp 2 divides it"));
  const Json& lack = run.report.at("too_large");
  CHECK(lack.at("device_bytes") == 1 << 20);
  CHECK(lack.at("needs_bytes") > int64_t{4} << 30);
}

TEST_CASE("room_for_some_pages_only_gives_fewer_of_them") {
  const SmallRun run = run_small(kMuch, "", (int64_t{4} << 30) + (1 << 20));
  CHECK(text_of(run, "error") == "");
  CHECK(run.code == 0);
  const auto pages = run.report.at("pages").get<int64_t>();
  CHECK(pages > 16);
  CHECK(pages < 512);
  CHECK_THAT(text_of(run, "room"),
             ContainsSubstring("have " + std::to_string(pages) + " pages and not 512"));
  // A user's own number of pages stays, or gives the device's own error.
  const SmallRun exact = run_small(kMuch, "--pages 500", (int64_t{4} << 30) + (1 << 20));
  CHECK(exact.report.at("pages") == 500);
  CHECK(text_of(exact, "room") == "");
}

TEST_CASE("room_for_no_request_is_no_fault_of_a_device_that_has_it") {
  const SmallRun run = run_small(kMuch, "", int64_t{4} << 30);
  CHECK(run.code == 3);
  CHECK(run.report.at("too_large").is_null());
  CHECK_THAT(text_of(run, "error"), ContainsSubstring("the longest request needs") &&
                                        ContainsSubstring("4.0 GiB of cpu are free"));
}

// The divided oracle has to say the same.
TEST_CASE("room_for_a_rank_alone_divides_the_oracle") {
  const SmallRun none = run_small(1 << 20);
  const auto needs = none.report.at("too_large").at("needs_bytes").get<int64_t>();
  const SmallRun whole = run_small(needs, "--tp 2", kMuch);
  CHECK(text_of(whole, "error") == "");
  CHECK(text_of(whole, "room") == "");
  const SmallRun divided = run_small(needs - 1, "--tp 2", kMuch);
  CHECK(text_of(divided, "error") == "");
  CHECK(divided.code == 0);
  CHECK_THAT(text_of(divided, "room"),
             ContainsSubstring("The oracle is also divided between 2 ranks"));
  const auto error = [](const SmallRun& run) {
    return run.report.at("baseline").at("correctness").at("rms_of_spread").get<double>();
  };
  CHECK(error(divided) < 1e-5);
  CHECK(error(whole) < 1e-5);
}
