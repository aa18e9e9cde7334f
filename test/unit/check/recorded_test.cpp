// SPDX-License-Identifier: Apache-2.0
// What several ranks recorded, as one.
#include "core/check/recorded.hpp"

#include <nlohmann/json.hpp>

#include "test/catch.hpp"

using fk::Json;

namespace {

Json tensor(int64_t begin) { return {{"dtype", "i32"}, {"shape", {4}}, {"begin", begin}}; }
Json case_text(const std::string& name, const std::string& ids, int64_t count) {
  return {{"op", "add"},    {"phase", "decode"}, {"name", name},
          {"count", count}, {"path", "layer"},   {"tensors", {{"ids", {ids}}}}};
}
Json rank(std::vector<Json> cases, Json tensors, int64_t calls, int64_t left_out) {
  Json left = Json::array();
  if (left_out)
    left.push_back({{"op", "add"}, {"phase", "decode"}, {"calls", left_out}, {"why", "limit"}});
  Json ops = {{{"op", "add"},
               {"phase", "decode"},
               {"calls", calls},
               {"shapes", calls - 1},
               {"cases", cases.size()}}};
  return {{"ops", std::move(ops)},
          {"cases", std::move(cases)},
          {"left_out", std::move(left)},
          {"tensors", std::move(tensors)},
          {"bytes", 0}};
}

}  // namespace

TEST_CASE("recorded_of_ranks_is_one_case_where_it_is_equal") {
  const Json merged =
      fk::merge_recorded({rank({case_text("decode.0", "a", 3), case_text("decode.1", "b", 1)},
                               {{"a", tensor(0)}, {"b", tensor(16)}}, 5, 1),
                          rank({case_text("decode.0", "c", 2), case_text("decode.1", "a", 4)},
                               {{"c", tensor(0)}, {"a", tensor(16)}}, 8, 2)});
  const Json& cases = merged.at("cases");
  REQUIRE(cases.size() == 3);
  CHECK(cases[0].at("name") == "decode.0");
  CHECK(cases[0].at("count") == 7);  // 3 on the first rank, 4 under another name on the second
  CHECK_FALSE(cases[0].contains("rank"));
  CHECK(cases[2].at("name") == "decode.0.rank1");
  CHECK(cases[2].at("rank") == 1);
  CHECK(merged.at("tensors").at("a").at("rank") == 0);
  CHECK(merged.at("tensors").at("c").at("rank") == 1);
  CHECK(merged.at("bytes") == 3 * 16);
  REQUIRE(merged.at("ops").size() == 1);
  CHECK(merged.at("ops")[0].at("calls") == 13);
  CHECK(merged.at("ops")[0].at("shapes") == 7);
  CHECK(merged.at("ops")[0].at("cases") == 3);
  REQUIRE(merged.at("left_out").size() == 1);
  CHECK(merged.at("left_out")[0].at("calls") == 3);
}
