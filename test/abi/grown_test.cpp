// SPDX-License-Identifier: Apache-2.0
// Tables of other minors: longer and shorter ones work, what cannot is refused in one sentence.
#include "core/base/error.hpp"
#include "core/check/check.hpp"
#include "core/plugin/instance.hpp"
#include "test/catch.hpp"

namespace {

const fk::Catalog& catalog() {
  static const fk::Catalog made({std::filesystem::path(FK_SOURCE_DIR) / "registry"});
  return made;
}
std::filesystem::path plugin(const std::string& name) {
  return std::filesystem::path(FK_GROWN_DIR) / ("grown_" + name + ".so");
}

// Conformance stands for every call of the host into a plugin.
void passes(const std::string& name) {
  fk::Plugins plugins(catalog());
  plugins.load(plugin(name), fk::Trust::candidate);
  REQUIRE(plugins.of("add").size() == 1);
  fk::CheckOptions options;
  options.plugins = &plugins;
  const fk::CheckReport report = fk::check_provider(*plugins.of("add")[0], {}, options);
  CHECK(report.passed());
  CHECK(report.count(fk::CheckStatus::unjudged) > 0);
  for (const auto& row : report.rows) {
    INFO(row.case_name << " " << row.variant << ": " << row.rule << " " << row.text);
    CHECK((row.status == fk::CheckStatus::unjudged || row.status == fk::CheckStatus::unsupported));
  }
}

std::string refusal(const std::string& name) {
  fk::Plugins plugins(catalog());
  return message_of<fk::Error>([&] { plugins.load(plugin(name), fk::Trust::candidate); });
}

}  // namespace

TEST_CASE("grown_tables_with_members_that_the_host_does_not_know_work") { passes("younger"); }
TEST_CASE("grown_tables_that_end_before_younger_members_work") { passes("older"); }
TEST_CASE("grown_plugins_that_cannot_work_are_refused_in_one_sentence") {
  CHECK_THAT(refusal("minor"), ContainsSubstring("needs ABI minor 1, this host has 0"));
  CHECK_THAT(refusal("short"), ContainsSubstring("op table is too short"));
  CHECK_THAT(refusal("refuses"), ContainsSubstring("this plugin wants a younger host"));
  CHECK_THAT(refusal("reserved"),
             ContainsSubstring("add: `reserved` of its table is 1, and must be 0"));
  CHECK_THAT(refusal("contract"), ContainsSubstring("add: the table of its contract is too short"));
}
