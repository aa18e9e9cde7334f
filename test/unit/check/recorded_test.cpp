// SPDX-License-Identifier: Apache-2.0
// Joins the recordings of several ranks.
#include "core/check/recorded.hpp"

#include "test/catch.hpp"

using fk::RecordedCase;
using fk::Recording;

namespace {

fk::RecordedTensor tensor(int64_t begin) { return {"i32", {4}, begin, 0}; }
RecordedCase case_of(const std::string& name, const std::string& ids, int64_t count) {
  RecordedCase c;
  c.op = "add";
  c.phase = "decode";
  c.name = name;
  c.count = count;
  c.path = "layer";
  c.tensors["ids"] = {ids};
  return c;
}
Recording rank(std::vector<RecordedCase> cases, std::map<std::string, fk::RecordedTensor> tensors,
               int64_t calls, int64_t left_out) {
  Recording r;
  r.ops.push_back({.op = "add",
                   .phase = "decode",
                   .calls = calls,
                   .shapes = calls - 1,
                   .cases = static_cast<int64_t>(cases.size())});
  if (left_out)
    r.left_out.push_back({.op = "add", .phase = "decode", .calls = left_out, .why = "limit"});
  r.cases = std::move(cases);
  r.tensors = std::move(tensors);
  return r;
}

}  // namespace

TEST_CASE("recorded_of_ranks_is_one_case_where_it_is_equal") {
  const Recording merged =
      fk::merge_recorded({rank({case_of("decode.0", "a", 3), case_of("decode.1", "b", 1)},
                               {{"a", tensor(0)}, {"b", tensor(16)}}, 5, 1),
                          rank({case_of("decode.0", "c", 2), case_of("decode.1", "a", 4)},
                               {{"c", tensor(0)}, {"a", tensor(16)}}, 8, 2)});
  const auto& cases = merged.cases;
  REQUIRE(cases.size() == 3);
  CHECK(cases[0].name == "decode.0");
  CHECK(cases[0].count == 7);  // 3 on the first rank, 4 under another name on the second
  CHECK(cases[0].rank == 0);
  CHECK(cases[2].name == "decode.0.rank1");
  CHECK(cases[2].rank == 1);
  CHECK(merged.tensors.at("a").rank == 0);
  CHECK(merged.tensors.at("c").rank == 1);
  CHECK(merged.bytes == 3 * 16);
  REQUIRE(merged.ops.size() == 1);
  CHECK(merged.ops[0].calls == 13);
  CHECK(merged.ops[0].shapes == 7);
  CHECK(merged.ops[0].cases == 3);
  REQUIRE(merged.left_out.size() == 1);
  CHECK(merged.left_out[0].calls == 3);
}
