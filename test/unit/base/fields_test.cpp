// SPDX-License-Identifier: Apache-2.0
//
// If these fail, a message loses a field, a malformed one is believed, or a schema says less than
// what is written.

#include "core/base/fields.hpp"

#include "core/base/schema.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

enum class FieldColour { red, green };
const std::vector<std::pair<FieldColour, std::string>>& json_names(FieldColour) {
  static const std::vector<std::pair<FieldColour, std::string>> names = {
      {FieldColour::red, "red"}, {FieldColour::green, "green"}};
  return names;
}

struct FieldLeaf {
  int32_t small = 0;
  std::string text;
  bool operator==(const FieldLeaf&) const = default;
  FK_FIELDS(small, text)
};

struct FieldTree {
  double number = 0;
  bool flag = false;
  FieldColour colour = FieldColour::red;
  std::optional<FieldLeaf> one;
  std::vector<FieldLeaf> list;
  std::map<std::string, int64_t> map;
  std::string rare;
};
template <class Visitor>
void fields(Visitor& v, FieldTree& t) {
  v("number", t.number, "a number");
  v("flag", t.flag, "a flag");
  v("colour", t.colour, "a colour");
  v("one", t.one, "a leaf or none");
  v("list", t.list, "leaves");
  v("map", t.map, "numbers by name");
  v.optional("rare", t.rare, !t.rare.empty(), "a key that may be missing");
}

FieldTree some_field_tree() {
  FieldTree t;
  t.number = 0.1;
  t.flag = true;
  t.colour = FieldColour::green;
  t.one = FieldLeaf{7, "a"};
  t.list = {{1, "x"}, {2, "y"}};
  t.map = {{"b", int64_t{1} << 60}};
  return t;
}

std::string fields_refusal(const Json& json, const Reading& how = kOwnMessage) {
  return message_of<Error>([&] { from_fields<FieldTree>(json, "x", how); });
}

}  // namespace

TEST_CASE("fields_come_back_as_they_were_written", "[base]") {
  const Json json = to_fields(some_field_tree());
  CHECK_FALSE(json.contains("rare"));
  const auto back = from_fields<FieldTree>(Json::parse(json.dump()), "x");
  CHECK(to_fields(back) == json);
  CHECK((back.number == 0.1 && back.flag && back.colour == FieldColour::green));
  CHECK((back.one == FieldLeaf{7, "a"} && back.list[1] == FieldLeaf{2, "y"}));
  CHECK(back.map.at("b") == int64_t{1} << 60);
}

TEST_CASE("fields_without_a_finite_number_are_null", "[base]") {
  FieldTree t;
  t.number = std::numeric_limits<double>::infinity();
  const Json json = to_fields(t);
  CHECK(json.at("number").is_null());
  CHECK(std::isnan(from_fields<FieldTree>(json, "x").number));
}

TEST_CASE("fields_of_a_wrong_type_are_refused_with_their_place", "[base]") {
  const auto changed = [](const char* pointer, const Json& value) {
    Json json = to_fields(some_field_tree());
    json[Json::json_pointer(pointer)] = value;
    return json;
  };
  CHECK_THAT(fields_refusal(changed("/number", "1")), ContainsSubstring("x.number: is no number"));
  CHECK_THAT(fields_refusal(changed("/flag", 1)), ContainsSubstring("x.flag: is neither"));
  CHECK_THAT(fields_refusal(changed("/colour", "gren")),
             ContainsSubstring("x.colour: is none of the names (did you mean `green`?)"));
  CHECK_THAT(fields_refusal(changed("/list/1/small", 1.5)),
             ContainsSubstring("x.list[2].small: is no whole number"));
  CHECK_THAT(fields_refusal(changed("/one/small", int64_t{1} << 40)),
             ContainsSubstring("x.one.small: is too large"));
  CHECK_THAT(fields_refusal(changed("/map/b", "1")), ContainsSubstring("x.map.b: is no whole"));
  CHECK_THAT(fields_refusal(changed("/list", 3)), ContainsSubstring("x.list: is no list"));
  CHECK_THAT(fields_refusal(5), ContainsSubstring("x: is no object"));
}

TEST_CASE("fields_that_are_missing_are_refused_in_messages_alone", "[base]") {
  Json json = to_fields(some_field_tree());
  json.erase("flag");
  CHECK_THAT(fields_refusal(json), ContainsSubstring("x.flag: is missing"));
  FieldTree t;
  t.flag = true;
  read_fields(json, t, "x");
  CHECK(t.flag);  // as it was
}

TEST_CASE("fields_of_foreign_processes_are_cut_and_cleaned", "[base]") {
  FieldTree t = some_field_tree();
  t.one->text = "a\n\x1b[2J" + std::string(10'000, 'y');
  const Json json = to_fields(t);
  CHECK(from_fields<FieldTree>(json, "x").one->text == t.one->text);
  const std::string line = from_fields<FieldTree>(json, "x", kForeignMessage).one->text;
  CHECK((line.size() == 8192 && line.starts_with("a??[2J")));
  CHECK(from_fields<FieldTree>(json, "x", kForeignText).one->text.starts_with("a\n?[2J"));
}

TEST_CASE("fields_have_a_schema_with_every_key", "[base]") {
  const Json schema = document_schema<FieldTree>("tree/1", "A tree");
  const Json& properties = schema.at("properties");
  CHECK(properties.at("schema") == Json{{"const", "tree/1"}});
  CHECK(properties.at("number") == Json{{"description", "a number"}, {"type", {"number", "null"}}});
  CHECK(properties.at("colour").at("enum") == Json{"red", "green"});
  CHECK(properties.at("one").at("type") == Json{"object", "null"});
  CHECK(properties.at("list").at("items").at("required") == Json{"small", "text"});
  CHECK(properties.at("map").at("additionalProperties") == Json{{"type", "integer"}});
  CHECK(properties.contains("rare"));
  CHECK(schema.at("required") == Json{"schema", "number", "flag", "colour", "one", "list", "map"});
  const Json document = to_document("tree/1", some_field_tree());
  for (const auto& key : schema.at("required")) CHECK(document.contains(key.get<std::string>()));
}
