// SPDX-License-Identifier: Apache-2.0
// Suites and submissions: what is wrong is named with file and line.
#include "core/eval/suite.hpp"

#include <filesystem>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/eval/submission.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"
#include "test/unit/catalog.hpp"

using namespace fk;

namespace {

Suite suite_of(const std::string& text, const std::string& name = "mine") {
  const Folder folder;
  write_file_atomic(folder.path / (name + ".yaml"), text);
  return load_suite(folder.path / (name + ".yaml"), catalog());
}

std::string suite_error(const std::string& text) {
  try {
    suite_of(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Submission submission_of(const std::string& manifest) {
  const Folder folder;
  write_file_atomic(folder.path / "manifest.yaml", manifest);
  return load_submission(folder.path, catalog());
}

}  // namespace

TEST_CASE("suite_of_the_repository_can_be_read") {
  REQUIRE(suite_names().size() >= 3);
  for (const auto& name : suite_names()) {
    const Suite suite = load_suite(find_suite(name), catalog());
    CHECK(suite.name == name);
    CHECK_FALSE(suite.models.scenarios.empty());
  }
}

TEST_CASE("suite_keys_have_defaults_and_values") {
  const Suite suite = suite_of(
      "suite: mine\nseed: 7\nminutes: 3\nops: {size: smoke, only: [rms_norm], routing: skewed:2}\n"
      "models: {scenarios: [default], profile: tiny, workloads: [mixed]}\n");
  CHECK(suite.seed == 7);
  CHECK(suite.minutes == 3);
  CHECK(suite.ops.size == "smoke");
  CHECK(suite.ops.only == std::vector<std::string>{"rms_norm"});
  CHECK(suite.models.scenarios.size() > 5);  // a list stands for its entries
  CHECK(suite.models.profile == "tiny");
}

TEST_CASE("suite_mistakes_are_named_with_line_and_nearest_word") {
  const std::string models = "models: {scenarios: [mixtral]}\n";
  const auto says = [&](const std::string& text, const std::vector<const char*>& parts) {
    const std::string error = suite_error(text);
    for (const char* part : parts) CHECK_THAT(error, ContainsSubstring(part));
  };
  says("suite: mine\nmodels: {scenarios: [mixtrall]}\n",
       {"mine.yaml:2", "did you mean `mixtral`?"});
  says("suite: mine\nop: {}\n" + models, {"mine.yaml:2", "did you mean `ops`?"});
  says("suite: mine\nops: {size: smok}\n" + models, {"mine.yaml:2", "did you mean `smoke`?"});
  says("suite: mine\nops: {only: [rmsnorm]}\n" + models, {"did you mean `rms_norm`?"});
  says("suite: mine\nops: {routing: skew}\n" + models, {"mine.yaml:2"});
  says("suite: mine\nops: {families: [ordinary, ordinry]}\n" + models,
       {"mine.yaml:2", "`ordinry` is not known", "did you mean `ordinary`?"});
  says("suite: mine\nops: {recorded: nowhere}\n" + models, {"there is no recording"});
  says("suite: mine\nmodels: {scenarios: [mixtral, mixtral]}\n", {"in the suite twice"});
  says("suite: mine\nmodels: {scenarios: []}\n", {"there is no scenario"});
  says("suite: mine\nmodels: {scenarios: [mixtral], workloads: [mixd]}\n",
       {"did you mean `mixed`?"});
  says("suite: mine\nmodels: {scenarios: [mixtral], profile: tiny, processes: 3}\n",
       {"the profile tiny is not judged by speed"});
  says("suite: mine\nmodels: {scenarios: [mixtral], processes: 1}\n", {"it must be 2 to 16"});
  says("suite: other\n" + models, {"mine.yaml:1", "the file's name is the suite's"});
  CHECK_THROWS_WITH(find_suite("smoek"), ContainsSubstring("did you mean `smoke`?"));
}

TEST_CASE("submission_mistakes_are_named_with_line") {
  const std::string head = "submission: mine\nauthor: me\nkind: agent\n";
  CHECK_THROWS_WITH(
      submission_of(head + "plugins: {norm.so: [rms_norm]}\n"),
      ContainsSubstring("manifest.yaml:4") && ContainsSubstring("there is no plugin `norm.so`"));
  CHECK_THROWS_WITH(submission_of(head + "plugins: {}\n"), ContainsSubstring("has no plugin"));
  CHECK_THROWS_WITH(submission_of(head + "plugin: {}\n"),
                    ContainsSubstring("did you mean `plugins`?"));
  CHECK_THROWS_WITH(submission_of("submission: mine\nauthor: me\nkind: agnet\nplugins: {}\n"),
                    ContainsSubstring("did you mean `agent`?"));
  CHECK_THROWS_WITH(submission_of("submission: ../up\nauthor: me\nkind: agent\nplugins: {}\n"),
                    ContainsSubstring("is no name"));
  CHECK_THROWS_WITH(submission_of("submission: baseline\nauthor: me\nkind: agent\nplugins: {}\n"),
                    ContainsSubstring("reserved"));
  const Folder empty;
  CHECK_THROWS_WITH(load_submission(empty.path, catalog()),
                    ContainsSubstring("has no manifest.yaml") &&
                        ContainsSubstring("write there {submission: "));
  CHECK_THROWS_WITH(load_submission(empty.path / "none", catalog()),
                    ContainsSubstring("folder of plugins"));
}

TEST_CASE("submission_pairs_share_neither_name_nor_plugin") {
  Submission a, b;
  a.name = "a", b.name = "b";
  a.plugins = {{"a.so", "norm", "1", "11", {"rms_norm"}}};
  b.plugins = {{"b.so", "norm", "1", "22", {"rms_norm"}}};
  check_submissions({a, b});  // equal names of plugins do not meet in one model
  b.plugins[0].sha256 = "11";
  CHECK_THROWS_WITH(check_submissions({a, b}), ContainsSubstring("also in the submission `a`"));
  b.plugins[0].sha256 = "22";
  b.name = "a";
  CHECK_THROWS_WITH(check_submissions({a, b}), ContainsSubstring("the submission `a` is also in"));
}
