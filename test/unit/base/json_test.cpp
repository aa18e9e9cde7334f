// SPDX-License-Identifier: Apache-2.0
//
// If these fail, a wrong configuration builds a wrong model, or a hostile one stops the host.

#include "core/base/json.hpp"

#include <unistd.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

std::string json_refusal(const std::string& text) {
  return message_of<Error>([&] { parse_json(text, "f.json"); });
}

Config config_of(const std::string& text) { return {parse_json(text, "f.json"), "f.json"}; }

}  // namespace

TEST_CASE("json_invalid_names_line_and_column", "[base]") {
  CHECK_THAT(json_refusal("{\n  \"a\": ,\n}"), ContainsSubstring("f.json:2:8: not valid JSON"));
  CHECK_THAT(json_refusal(""), ContainsSubstring("not valid JSON"));
  CHECK_THAT(json_refusal("{} x"), ContainsSubstring("not valid JSON"));
  CHECK_THAT(json_refusal("[NaN]"), ContainsSubstring("not valid JSON"));
  CHECK_THAT(json_refusal("\"\xFF\""), ContainsSubstring("not valid JSON"));
  CHECK_THAT(json_refusal("[1e999]"), ContainsSubstring("f.json"));
  CHECK(json_refusal("{\"a\": {\"b\": 1, \"b\": 2}}") == "f.json: the key `a.b` is there twice");
  CHECK_THAT(json_refusal(std::string(100000, '[')), ContainsSubstring("deeper than 64"));
  CHECK(parse_json("{\"z\": 1, \"a\": [1, {\"k\": null}]}", "").dump() ==
        "{\"z\":1,\"a\":[1,{\"k\":null}]}");
}

TEST_CASE("config_reads_infinity", "[base]") {
  const auto file =
      std::filesystem::temp_directory_path() / ("fk_json_test_" + std::to_string(::getpid()));
  write_file_atomic(file,
                    "{\"limit\": [0.0, Infinity], \"low\": -Infinity, \"text\": \"\\\"Infinity\","
                    "\"new\": {\"__float__\": \"Infinity\"}, \"odd\": {\"__float__\": \"NaN\"}}");
  const Config c = Config::load(file);
  std::filesystem::remove(file);
  CHECK(c.numbers("limit") == std::vector<double>{0, std::numeric_limits<double>::infinity()});
  CHECK(c.number("low") == -std::numeric_limits<double>::infinity());
  CHECK(c.text("text") == "\"Infinity");
  CHECK(c.number("new") == std::numeric_limits<double>::infinity());
  CHECK_THAT(message_of<Error>([&] { static_cast<void>(c.number("odd")); }),
             ContainsSubstring("expected a number, found an object"));
}

TEST_CASE("config_reads_types", "[base]") {
  const Config c = config_of(
      "{\"hidden_size\": 4096, \"eps\": 1e-5, \"act\": \"silu\", \"tie\": false, \"null\": null,"
      "\"rope\": {\"type\": \"yarn\"}, \"ids\": [1, 2], \"arch\": [\"Llama\"], \"f\": 10000.0,"
      "\"parts\": [{\"a\": 1}, {\"a\": \"x\"}]}");
  CHECK(c.integer("hidden_size") == 4096);
  CHECK(c.integer("f") == 10000);
  CHECK(c.number("eps") == 1e-5);
  CHECK(c.number("hidden_size") == 4096.0);
  CHECK(c.text("act") == "silu");
  CHECK_FALSE(c.boolean("tie"));
  CHECK_FALSE(c.has("null"));
  CHECK(c.integer("null", 5) == 5);
  CHECK(c.text("absent", "x") == "x");
  CHECK(c.child("rope").text("type") == "yarn");
  CHECK(c.integers("ids") == std::vector<int64_t>{1, 2});
  CHECK(c.texts("arch") == std::vector<std::string>{"Llama"});
  CHECK(c.integers("absent", {3}) == std::vector<int64_t>{3});
  CHECK(c.children("parts")[0].integer("a") == 1);
  CHECK(c.is_list("ids"));
  CHECK(c.keys().size() == 9);
  const Config tiny = c.with(parse_json("{\"hidden_size\": 64, \"rope\": {\"f\": 2}}", ""));
  CHECK(tiny.integer("hidden_size") == 64);
  CHECK(tiny.child("rope").text("type") == "yarn");
  CHECK(tiny.child("rope").integer("f") == 2);
  CHECK(c.integer("hidden_size") == 4096);
}

TEST_CASE("config_refuses_keys_that_nobody_asked_for", "[base]") {
  const Config c = config_of(
      "{\"a\": 1, \"rope\": {\"factor\": 2, \"type\": null}, \"list\": [{\"b\": 1}], \"note\": "
      "{\"x\": 1}}");
  const Config watched = c.watched();
  const auto why = [&] { return message_of<Error>([&] { c.refuse_unread(watched, {"note"}); }); };
  CHECK_THAT(why(), ContainsSubstring("f.json: `a`: "));
  watched.integer("a");
  CHECK_FALSE(watched.has("alpha"));
  CHECK_THAT(why(), ContainsSubstring("`rope`"));
  watched.or_else({{"z", 1}}).child("rope").number("factors", 1);
  CHECK_THAT(why(), ContainsSubstring("f.json: rope: `factor`"));
  CHECK_THAT(why(), ContainsSubstring("did you mean `factors`"));
  watched.child("rope").number("factor");
  CHECK_THAT(why(), ContainsSubstring("`type`"));
  watched.ignore("rope");
  CHECK_THAT(why(), ContainsSubstring("`list`"));
  watched.children("list")[0].with({{"c", 1}}).has("b");
  CHECK_NOTHROW(c.refuse_unread(watched, {"note"}));
}

TEST_CASE("config_defaults_fill_absent_keys_alone", "[base]") {
  const Config c =
      config_of("{\"a\": 1, \"n\": null, \"o\": {\"x\": 1}}")
          .or_else(parse_json("{\"a\": 2, \"n\": 3, \"o\": {\"y\": 1}, \"d\": 4}", ""));
  CHECK(c.integer("a") == 1);
  CHECK(c.integer("d") == 4);
  CHECK_FALSE(c.has("n"));
  CHECK_THAT(message_of<Error>([&] { c.integer("n"); }), ContainsSubstring("`n`: it is null"));
  CHECK_FALSE(c.child("o").has("y"));
}

TEST_CASE("config_errors_name_file_and_key", "[base]") {
  const Config c =
      config_of("{\"hidden_size\": \"big\", \"n\": 1.5, \"l\": [1, \"x\"], \"o\": {}}");
  CHECK(message_of<Error>([&] { c.integer("hiden_size"); }) ==
        "f.json: `hiden_size` is missing (did you mean `hidden_size`?)");
  CHECK(message_of<Error>([&] { c.integer("hidden_size"); }) ==
        "f.json: `hidden_size`: expected an integer, found `\"big\"`");
  CHECK_THAT(message_of<Error>([&] { c.integer("n"); }), ContainsSubstring("found `1.5`"));
  CHECK(message_of<Error>([&] { c.integers("l"); }) ==
        "f.json: `l[1]`: expected an integer, found `\"x\"`");
  CHECK_THAT(message_of<Error>([&] { c.child("l"); }), ContainsSubstring("expected an object"));
  CHECK_THAT(message_of<Error>([&] { c.child("o").text("x"); }),
             ContainsSubstring("f.json: o: `x` is missing"));
  CHECK_THAT(message_of<Error>([&] { c.boolean("n"); }), ContainsSubstring("true or false"));
  CHECK_THAT(message_of<Error>([&] { config_of("[1]"); }),
             ContainsSubstring("f.json: expected an object, found a list"));
  CHECK_THROWS_AS(config_of("{\"a\": 18446744073709551615}").integer("a"), Error);
  CHECK_THROWS_AS(load_json("/no/such.json"), Error);
}
