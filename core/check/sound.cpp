// SPDX-License-Identifier: Apache-2.0
#include "core/check/sound.hpp"

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/inputs.hpp"

namespace fk {

namespace {

void make_case(const Contract& contract, const Case& source, bool contents) {
  const ResolvedCase resolved = resolve(contract, source, {});
  (void)contract.flops.eval(resolved.axes);
  (void)contract.tolerance.length.eval(resolved.axes);
  if (contract.bytes) (void)contract.bytes->eval(resolved.axes);
  if (contents && source.size == "smoke") (void)make_inputs(resolved, 1, 1);
}

}  // namespace

void need_sound_cases(const Contract& contract, bool contents) {
  for (const Case& source : contract.cases) {
    try {
      make_case(contract, source, contents);
    } catch (const Error& error) {
      const std::string of_case = contract.op + " case `" + source.name + "`: ";
      const bool named = starts_with(error.what_text(), of_case);
      fail(source.where, (named ? "" : of_case) + error.what_text(), error.hint());
    }
  }
}

}  // namespace fk
