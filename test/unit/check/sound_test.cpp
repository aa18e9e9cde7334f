// SPDX-License-Identifier: Apache-2.0
// Mistakes in a contract's cases: each is named with its line before a plugin runs. A mistake that
// passes would be a plugin's fault.
#include "core/check/sound.hpp"

#include "core/base/error.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

namespace {

fk::Contract contract_with_case(const std::string& line, const std::string& flops = "T") {
  return fk::Contract::parse(
      "op: scaled\nrevision: 1\nsummary: out = x\naxes: {T: tokens, F: width}\n"
      "init:\n  - {name: size, type: int, axis: F}\n"
      "forward:\n  - {name: x, role: in, shape: [T, F], dtype: float}\n"
      "  - {name: ids, role: in, shape: [T], dtype: [i32], values: \"randint(0,F)\"}\n"
      "  - {name: out, role: out, shape: [T, F], dtype: x}\n"
      "cost: {flops: \"" +
          flops + "\"}\ntolerance: {numerics: elementwise}\ncases:\n  smoke:\n    - " + line + "\n",
      "scaled.yaml", 1, "test");
}

std::string fault_of(const fk::Contract& contract, bool contents = true) {
  return message_of<fk::Error>([&] { fk::need_sound_cases(contract, contents); });
}

}  // namespace

TEST_CASE("every case of the registry is a call that can be made") {
  for (const auto& op : catalog().ops())
    CHECK_NOTHROW(fk::need_sound_cases(catalog().at(op), true));
}

TEST_CASE("a mistake in a case has its file, its line and the case's name") {
  CHECK_NOTHROW(fk::need_sound_cases(contract_with_case("{T: 2, size: 4}"), true));
  const std::string place = "scaled.yaml:15";
  for (const auto& [line, part] :
       {std::pair("{size: 4}", "scaled case `smoke0`"),
        std::pair("{T: 2, size: 4, values: {x: 'normul(0,1)'}}", "did you mean `normal`?"),
        std::pair("{T: 2, size: 4, values: {x: 'normal(0)'}}", "normal takes 2 arguments"),
        std::pair("{T: 2, size: 4, values: {ids: 'randint(0)'}}", "randint takes 2 arguments")}) {
    INFO(line);
    CHECK_THAT(fault_of(contract_with_case(line)), ContainsSubstring(place));
    CHECK_THAT(fault_of(contract_with_case(line)), ContainsSubstring(part));
  }
  CHECK_THAT(fault_of(contract_with_case("{T: 2, size: 4}", "T/(F-4)"), false),
             ContainsSubstring(place));
}
