// SPDX-License-Identifier: Apache-2.0
// A folder of results: found again by their key alone, one holder at a time, and forged or damaged
// files are not used.
#include "core/store/results.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/store/signed.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

using namespace fk;

namespace {

VerdictKey result_key(const std::string& value) {
  VerdictKey key;
  key.add("what", value);
  return key;
}

std::filesystem::path result_file(const Folder& folder, const std::string& value) {
  return folder.path / "results" / (result_key(value).hash() + ".json");
}

}  // namespace

TEST_CASE("results_are_found_again_by_their_key") {
  const Folder folder;
  std::string why;
  const auto signer = Signer::open(folder.path / "key", why);
  const Signer* by = signer ? &*signer : nullptr;
  {
    ResultFolder results(folder.path, by, why);
    CHECK_FALSE(results.find(result_key("a")));
    results.put(result_key("a"), {{"n", 1}});
  }
  ResultFolder again(folder.path, by, why);
  REQUIRE(again.find(result_key("a")));
  CHECK((*again.find(result_key("a")))["n"] == 1);
  CHECK_FALSE(again.find(result_key("b")));
  CHECK(again.all().size() == 1);
  CHECK(again.notes().empty());
}

TEST_CASE("results_in_one_folder_have_one_holder") {
  const Folder folder;
  const ResultFolder first(folder.path, nullptr, "");
  CHECK_THROWS_WITH(ResultFolder(folder.path, nullptr, ""),
                    ContainsSubstring("another evaluation works in this folder"));
}

TEST_CASE("results_that_were_edited_are_not_used") {
  const Folder folder;
  std::string why;
  const auto signer = Signer::open(folder.path / "key", why);
  if (!signer) return;  // a host without signatures cannot tell
  ResultFolder results(folder.path, &*signer, "");
  results.put(result_key("a"), {{"ratio", 1.0}});
  const auto file = result_file(folder, "a");
  Json edited = load_json(file);
  edited["ratio"] = 2.0;
  write_file_atomic(file, edited.dump());
  CHECK_FALSE(results.find(result_key("a")));
  write_file_atomic(file, "{");
  CHECK_FALSE(results.find(result_key("a")));
  // Another's signature, and another question's answer.
  const auto other = Signer::open(folder.path / "other", why);
  Json theirs = with_signer({{"key", result_key("a").parts_json()}}, &*other, "");
  sign(theirs, &*other);
  write_file_atomic(file, theirs.dump());
  CHECK_FALSE(results.find(result_key("a")));
  results.put(result_key("b"), {{"ratio", 1.0}});
  std::filesystem::copy_file(result_file(folder, "b"), file,
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_FALSE(results.find(result_key("a")));
  CHECK(results.notes().size() == 4);
}

TEST_CASE("results_that_cannot_be_kept_are_the_hosts_fault") {
  const Folder folder;
  ResultFolder results(folder.path, nullptr, "");
  std::filesystem::remove(folder.path / "results");
  write_file_atomic(folder.path / "results", "a file in the way");
  CHECK_THROWS_AS(results.put(result_key("a"), {{"n", 1}}), HostError);
  CHECK_THROWS_WITH(results.put(result_key("a"), {{"n", 1}}),
                    ContainsSubstring("a result cannot be kept"));
}
