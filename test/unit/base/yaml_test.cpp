// SPDX-License-Identifier: Apache-2.0
//
// If these fail, a mistake in a contract or scenario is accepted or reported at the wrong place.

#include "core/base/yaml.hpp"

#include <cmath>

#include "core/base/error.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

Yaml yaml(const std::string& text) { return Yaml::parse(text, "f.yaml"); }

std::string yaml_refusal(const std::string& text) {
  return message_of<Error>([&] { yaml(text); });
}

}  // namespace

TEST_CASE("yaml_valid_is_read_in_order", "[base]") {
  const Yaml root = yaml(
      "name: rms_norm\nrevision: 3\neps: 1.0e-6\non: true\nnone: ~\nhex: 0x1F\n"
      "text: \"12\"\nlist: [1, two, {a: b}]\nbig: -9223372036854775808\ninf: -.inf\n");
  CHECK(root.at("name").text() == "rms_norm");
  CHECK(root.at("revision").integer() == 3);
  CHECK(root.at("eps").number() == 1e-6);
  CHECK(root.at("on").boolean());
  CHECK(root.at("none").is_null());
  CHECK(root.at("hex").integer() == 31);
  CHECK(root.at("text").quoted());
  CHECK_FALSE(root.at("name").quoted());
  CHECK(root.at("big").integer() == INT64_MIN);
  CHECK(std::isinf(root.at("inf").number()));
  CHECK(root.at("list").items().size() == 3);
  CHECK(root.at("list").items()[2].at("a").text() == "b");
  CHECK(root.entries()[1].first == "revision");
  CHECK(root.keys().size() == 10);
  CHECK(root.at("list").items()[2].where() == "f.yaml:8:16");
  CHECK_FALSE(root.find("absent"));
  CHECK(root.integer_or("absent", 7) == 7);
  CHECK(root.text_or("name", "x") == "rms_norm");
  CHECK(yaml("").is_null());
  CHECK(yaml("# only a comment\n").items().empty());
}

TEST_CASE("yaml_wrong_type_says_what_and_where", "[base]") {
  const Yaml root =
      yaml("a: abc\nb: [1]\nc: {d: 1}\ne:\nf: \"3\"\ng: 99999999999999999999\nh: yes\n");
  CHECK(message_of<Error>([&] { root.at("a").integer(); }) ==
        "f.yaml:1:4: expected an integer, found `abc`");
  CHECK(message_of<Error>([&] { root.at("a").number(); }) ==
        "f.yaml:1:4: expected a number, found `abc`");
  CHECK(message_of<Error>([&] { root.at("h").boolean(); }) ==
        "f.yaml:7:4: expected true or false, found `yes`");
  CHECK(message_of<Error>([&] { root.at("b").text(); }) ==
        "f.yaml:2:4: expected text, found a list");
  CHECK(message_of<Error>([&] { root.at("c").items(); }) ==
        "f.yaml:3:4: expected a list, found a map");
  CHECK(message_of<Error>([&] { root.at("b").entries(); }) ==
        "f.yaml:2:4: expected a map, found a list");
  CHECK_THAT(message_of<Error>([&] { root.at("e").text(); }),
             ContainsSubstring("expected text, found nothing"));
  CHECK_THAT(message_of<Error>([&] { root.at("f").integer(); }),
             ContainsSubstring("found the quoted text `3`"));
  CHECK_THROWS_AS(root.at("g").integer(), Error);
  CHECK_THROWS_AS(root.at("a").at("x"), Error);
  for (const char* text : {"1_0", "0x", "0x-1", "- 1", "+-1", "nan", "inf", "1e", "--1", "1.2.3"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(yaml("a: '" + std::string(text) + "'").at("a").number(), Error);
    CHECK_THROWS_AS(yaml("a: " + std::string(text)).at("a").number(), Error);
  }
}

TEST_CASE("yaml_keys_missing_unknown_twice_are_refused", "[base]") {
  const Yaml root = yaml("shape: [T]\ndtpye: bf16\n");
  CHECK(message_of<Error>([&] { root.at("shap"); }) ==
        "f.yaml:1:1: the key `shap` is missing (did you mean `shape`?)");
  CHECK(message_of<Error>([&] {
          root.only({"shape", "dtype"});
        }) == "f.yaml:2:1: unknown key `dtpye` (did you mean `dtype`?)");
  CHECK_NOTHROW(root.only({"shape", "dtpye", "more"}));
  CHECK(yaml_refusal("a: 1\nb: 2\na: 3\n") ==
        "f.yaml:3:1: the key `a` is there twice (the first value is in line 1)");
}

TEST_CASE("yaml_unsupported_or_hostile_is_refused", "[base]") {
  CHECK_THAT(yaml_refusal("a: &x 1\nb: *x\n"), ContainsSubstring("anchors are not supported"));
  CHECK_THAT(yaml_refusal("a: !!binary abc\n"),
             ContainsSubstring("tag `tag:yaml.org,2002:binary`"));
  CHECK_THAT(yaml_refusal("? [a, b]\n: c\n"), ContainsSubstring("a key must be a plain word"));
  CHECK_THAT(yaml_refusal("~: c\n"), ContainsSubstring("a key must be a plain word"));
  CHECK_THAT(yaml_refusal("<<: {a: b}\n"), ContainsSubstring("merge keys"));
  CHECK_THAT(yaml_refusal("a: 1\n---\nb: 2\n"), ContainsSubstring("f.yaml:3:1: a second document"));
  CHECK_THAT(yaml_refusal("a: [1, 2\n"), ContainsSubstring("f.yaml:2:1: not valid YAML"));
  CHECK_THAT(yaml_refusal("a: b: c\n"), ContainsSubstring("not valid YAML"));
  CHECK_THAT(yaml_refusal(std::string("a: \0b", 5)), ContainsSubstring("zero byte"));
  CHECK_THAT(yaml_refusal(std::string(200, '[') + std::string(200, ']')),
             ContainsSubstring("deeper than 64"));
  CHECK_THROWS_AS(yaml(std::string(10000, '[')), Error);
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  CHECK_THAT(yaml_refusal(deep), ContainsSubstring("deeper than 64"));
  CHECK_THAT(message_of<Error>([] { Yaml::load("/no/such.yaml"); }),
             ContainsSubstring("/no/such.yaml: no such file"));
  CHECK_THAT(message_of<Error>([] { Yaml::load("/tmp"); }), ContainsSubstring("is a folder"));
}
