// SPDX-License-Identifier: Apache-2.0
// Two editions of a contract against each other. Compatible changes work in both directions. Others
// are refused with a sentence that names the slot.
#include "core/base/error.hpp"
#include "core/contract/identity.hpp"
#include "test/catch.hpp"

namespace {

const std::string kOld = R"(op: norm
revision: 1
summary: a norm
axes: {T: tokens, C: channels}
init:
  - {name: hidden_size, type: int, axis: C}
  - {name: mode, type: enum, choices: [plain, gemma], default: plain}
weights:
  - {name: weight, shape: [C], dtype: float, optional: true}
forward:
  - {name: x, role: in, shape: [T, C], dtype: float}
  - {name: out, role: out, shape: [T, C], dtype: x}
)";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
const std::string kGain = "default: plain}\n", kRms = "dtype: x}\n";
std::string newer() {
  std::string text =
      with(kOld, kGain, kGain + "  - {name: gain, type: float, default: 1.0, since: 2}\n");
  text = with(text, "[plain, gemma]", "[plain, gemma, zero]");
  return with(
      text, kRms,
      kRms +
          "  - {name: row_rms, role: out, shape: [T], dtype: [f32], optional: true, since: 2}\n");
}

// A contract as a plugin would carry it.
struct Carried {
  explicit Carried(const std::string& text)
      : contract(fk::Contract::parse(text, "norm.yaml", 1, "norm")) {
    fk_section* sections[] = {&c.init, &c.weights, &c.forward, &c.plan};
    c.struct_size = FK_END(fk_contract, plan);
    c.revision = contract.revision;
    c.op = contract.op.c_str();
    for (size_t i = 0; i < 4; ++i) {
      for (const auto& slot : contract.sections[i]) lines[i].push_back(slot.line.c_str());
      *sections[i] = {static_cast<uint32_t>(contract.sections[i].size()),
                      static_cast<uint32_t>(contract.required_slots(static_cast<fk::SectionId>(i))),
                      contract.prefix[i].data(), lines[i].data()};
    }
  }
  fk::Contract contract;
  std::vector<const char*> lines[4];
  fk_contract c{};
};

fk_slot integer(int64_t v) {
  fk_slot s{};
  s.i = v;
  return s;
}
fk_slot number(double v) {
  fk_slot s{};
  s.f = v;
  return s;
}

}  // namespace

TEST_CASE("match_old_plugin_in_new_host_works_while_new_slots_are_at_their_defaults") {
  const Carried plugin(kOld), host(newer());
  const fk::Match m = fk::match(host.contract, plugin.c);
  INFO(m.why);
  REQUIRE(m.ok);
  std::vector<fk_slot> out;
  CHECK(fk::fit(host.contract, m, fk::SectionId::init, {integer(8), integer(1), number(1.0)}, out)
            .empty());
  CHECK(out.size() == 2);
  CHECK(fk::fit(host.contract, m, fk::SectionId::init, {integer(8), integer(0), number(2.0)}, out)
            .find("init.gain") != std::string::npos);
  CHECK(fk::fit(host.contract, m, fk::SectionId::init, {integer(8), integer(2), number(1.0)}, out)
            .find("mode=zero") != std::string::npos);
}

TEST_CASE("match_new_plugin_in_old_host_gets_defaults_for_what_the_host_lacks") {
  const Carried plugin(newer()), host(kOld);
  const fk::Match m = fk::match(host.contract, plugin.c);
  INFO(m.why);
  REQUIRE(m.ok);
  std::vector<fk_slot> out;
  CHECK(fk::fit(host.contract, m, fk::SectionId::init, {integer(8), integer(0)}, out).empty());
  REQUIRE(out.size() == 3);
  CHECK(out[2].f == 1.0);
  CHECK(fk::fit(host.contract, m, fk::SectionId::forward, {integer(0), integer(0)}, out).empty());
  REQUIRE(out.size() == 3);
  CHECK(out[2].p == nullptr);
}

TEST_CASE("match_refusals_name_the_slot") {
  const Carried host(kOld);
  const auto why = [&](const std::string& text) {
    const Carried plugin(text);
    const fk::Match m = fk::match(host.contract, plugin.c);
    CHECK_FALSE(m.ok);
    return m.why;
  };
  CHECK(why(with(kOld, "out, shape: [T, C]", "out, shape: [C, T]"))
            .find("forward slot 1 is `forward.out tensor out shape=[C,T]`") != std::string::npos);
  CHECK(why(with(kOld, "name: out,", "name: y,")).find("forward slot 1") != std::string::npos);
  CHECK(why(with(kOld, "revision: 1", "revision: 2")).find("revision 2") != std::string::npos);
  CHECK(why(with(kOld, "[plain, gemma]", "[gemma, plain]")).find("mode") != std::string::npos);
  CHECK(why(with(kOld, kRms, kRms + "  - {name: extra, role: in, shape: [T], dtype: [f32]}\n"))
            .find("extra") != std::string::npos);
}
