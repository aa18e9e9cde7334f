// SPDX-License-Identifier: Apache-2.0
// The error of a faulty contract file has the line and the nearest right word.
#include "core/contract/contract.hpp"

#include "core/base/error.hpp"
#include "core/contract/header.hpp"
#include "core/contract/identity.hpp"
#include "test/catch.hpp"

namespace {

const std::string kNorm = R"(op: norm
revision: 1
summary: a norm
axes: {T: tokens, C: channels}
init:
  - {name: hidden_size, type: int, axis: C, min: 1}
  - {name: eps, type: float, default: 1.0e-6}
weights:
  - {name: weight, shape: [C], dtype: float, optional: true}
forward:
  - {name: x, role: in, shape: [T, C], dtype: float}
  - {name: out, role: out, shape: [T, C], dtype: x}
cost: {flops: "4*T*C"}
tolerance: {numerics: reduction, length: C}
cases:
  smoke:
    - {T: 5, hidden_size: 64, with: [weight]}
)";

fk::Contract parse(const std::string& text) {
  return fk::Contract::parse(text, "norm.yaml", 1, "norm");
}

std::string refusal(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  try {
    parse(text);
  } catch (const fk::Error& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("contract_parse_reads_every_section") {
  const fk::Contract c = parse(kNorm);
  CHECK(c.section(fk::SectionId::init).size() == 2);
  CHECK(c.at("x").dtypes.size() == 3);
  CHECK(c.at("out").dtype_of == "x");
  CHECK(c.required_slots(fk::SectionId::init) == 1);
  CHECK(c.required_slots(fk::SectionId::weights) == 0);
  CHECK(c.cases.at(0).with == std::vector<std::string>{"weight"});
  CHECK(c.flops.eval({{"T", 2}, {"C", 3}}) == 24);
}

TEST_CASE("contract_mistakes_are_told_with_line_and_nearest_word") {
  const auto says = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) {
      INFO(text);
      CHECK(text.find(part) != std::string::npos);
    }
  };
  says(refusal(kNorm, "role: in", "rolle: in"), {"norm.yaml:11", "rolle", "role"});
  says(refusal(kNorm, "shape: [C]", "shape: [H]"), {"`H`", "weight"});
  says(refusal(kNorm, "dtype: x}", "dtype: y}"), {"dtype of out", "`y`"});
  says(refusal(kNorm, "with: [weight]", "with: [wieght]"), {"norm.yaml:17", "weight"});
  says(refusal(kNorm, "hidden_size: 64", "hiden_size: 64"), {"hiden_size", "hidden_size"});
  says(refusal(kNorm, "op: norm", "op: nrom"), {"nrom"});
  says(refusal(kNorm, "numerics: reduction", "numerics: reducton"), {"reduction"});
  says(refusal(kNorm, "type: float", "type: flaot"), {"float"});
  says(refusal(kNorm, "4*T*C", "4*T*"), {"4*T*", "ends too early"});
  says(refusal(kNorm, "name: eps", "name: hidden_size"), {"twice"});
}

TEST_CASE("contract_header_pins_the_slots_and_names_the_registration") {
  const std::string h = fk::header_text(parse(kNorm));
  CHECK(h.find("typedef struct fk_norm_init {") != std::string::npos);
  CHECK(h.find("fk_opt_in weight;") != std::string::npos);
  CHECK(h.find("FK_NORM_OP(NAME, CLAIMS)") != std::string::npos);
  CHECK(h.find("sizeof(fk_norm_forward) == 8 * (2)") != std::string::npos);
}

TEST_CASE("contract_identity_does_not_depend_on_dtypes_defaults_cases_or_docs") {
  const fk::Contract a = parse(kNorm);
  std::string text = kNorm;
  text.replace(text.find("1.0e-6"), 6, "1.0e-5");
  text.replace(text.find("a norm"), 6, "another");
  text.replace(text.find("dtype: float, optional"), 12, "dtype: [f32]");
  CHECK(parse(text).prefix == a.prefix);
  std::string changed = kNorm;
  changed.replace(changed.find("shape: [T, C], dtype: float"), 13, "shape: [C, T]");
  CHECK(parse(changed).prefix != a.prefix);
}

TEST_CASE("contract_line_reads_back") {
  const fk::Contract c = parse(kNorm);
  for (const auto& section : c.sections) {
    for (const auto& slot : section) {
      const fk::Slot back = fk::parse_line(slot.line);
      CHECK(back.name == slot.name);
      CHECK(back.section == slot.section);
      CHECK(back.kind == slot.kind);
      CHECK(back.default_value.i == slot.default_value.i);
      CHECK(back.hashed() == slot.hashed());
    }
  }
}

TEST_CASE("contract_elements_of_ints_are_axes_of_shapes") {
  const std::string text = R"(op: window
revision: 1
summary: a window
axes: {T: positions, KH: rows, KW: columns}
init:
  - {name: kernel, type: ints, axis: [KH, KW], min: 1}
forward:
  - {name: x, role: in, shape: [T], dtype: float}
  - {name: out, role: out, shape: [T, KH*KW], dtype: x}
cost: {flops: "T*KH*KW"}
tolerance: {numerics: exact}
)";
  const fk::Contract c = fk::Contract::parse(text, "window.yaml", 1, "conv");
  const fk::Slot& kernel = c.section(fk::SectionId::init)[0];
  CHECK(kernel.axis_names() == std::vector<std::string>{"KH", "KW"});
  CHECK(kernel.line.starts_with("init.kernel ints axis=KH,KW |"));
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    CHECK_THROWS_AS(fk::Contract::parse(other, "window.yaml", 1, "conv"), fk::Error);
  };
  refused("[KH, KW]", "[KH, KX]");
  refused("ints, axis", "int, axis");
}
