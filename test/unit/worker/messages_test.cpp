// SPDX-License-Identifier: Apache-2.0
//
// If these fail, a process does something else than it was asked, or dies of a message that nobody
// knows.

#include "core/base/handlers.hpp"

#include "core/worker/messages.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

struct AddMessage {
  static constexpr const char* kName = "add";
  using Answer = int64_t;
  int64_t a = 0, b = 0;
  FK_FIELDS(a, b)
};
struct ForgetMessage : Nothing {
  static constexpr const char* kName = "forget";
  using Answer = Nothing;
};

struct AdderHost {
  int64_t sum = 0;
  int64_t add(const AddMessage& m) { return sum += m.a + m.b; }
  Nothing forget(const ForgetMessage&) {
    sum = 0;
    return {};
  }
  Json answer(const Json& message) {
    static const auto handlers = Handlers<AdderHost>().on(&AdderHost::add).on(&AdderHost::forget);
    return handlers.answer(*this, message);
  }
};

}  // namespace

TEST_CASE("handlers_find_a_message_by_its_type") {
  AdderHost adder;
  CHECK(message_json(AddMessage{1, 2}) == Json{{"a", 1}, {"b", 2}, {"do", "add"}});
  CHECK(adder.answer(message_json(AddMessage{1, 2})) == 3);
  CHECK(adder.answer(message_json(AddMessage{4, 0})) == 7);
  CHECK(adder.answer(message_json(ForgetMessage{})) == Json::object());
  CHECK(adder.sum == 0);
}

TEST_CASE("handlers_refuse_an_unknown_message_with_the_nearest_name") {
  AdderHost adder;
  CHECK_THAT(message_of<UnknownMessage>([&] {
               adder.answer({{"do", "forgt"}});
             }),
             ContainsSubstring("nobody can do `forgt` (did you mean `forget`?)"));
  for (const Json& odd : {Json(5), Json::object(), Json{{"do", 3}}, Json{{"do", "a\nb"}}})
    CHECK_THROWS_AS(adder.answer(odd), UnknownMessage);
}

TEST_CASE("handlers_refuse_a_malformed_message_with_the_place") {
  AdderHost adder;
  CHECK_THAT(message_of<Error>([&] {
               adder.answer({{"do", "add"}, {"a", 1}});
             }),
             ContainsSubstring("add.b: is missing"));
  CHECK(adder.sum == 0);
}

TEST_CASE("a session's specification reaches another process whole") {
  SessionSpec spec;
  spec.arch = "llama";
  spec.config = Config(Json{{"layers", 2}}, "config.json");
  spec.limits.max_batch = 3;
  spec.limits.dtype = DType::bf16;
  spec.limits.parallel = {.tp = 2, .ep = 1, .rank = 1, .overlap = true};
  spec.policy.pins = {{"linear", "cpu"}};
  spec.policy.ranking["linear"] = {{{{.of = "T/B", .at_least = 2}}, {"a", "b"}}, {{}, {"c"}}};
  spec.policy.whole = true;
  spec.decode_sizes = {16, 32};
  spec.graphs = false;
  const Json json = to_fields(spec);
  const auto back = from_fields<SessionSpec>(Json::parse(json.dump()), "spec");
  CHECK(to_fields(back) == json);
  CHECK((back.config.where() == "config.json" && back.config.integer("layers") == 2));
  CHECK((back.limits.weights() == DType::bf16 && back.limits.parallel.overlap));
  CHECK((back.policy.ranking == spec.policy.ranking && back.decode_sizes == spec.decode_sizes));
}
