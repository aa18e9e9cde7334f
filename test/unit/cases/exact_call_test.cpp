// SPDX-License-Identifier: Apache-2.0
// The call of an oracle on a device holds moved inputs. Otherwise large scores show no noise, and an
// honest attention of 16 bits is wrong by chance.
#include "core/cases/exact_call.hpp"

#include "core/cases/numerics/moved_inputs.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

TEST_CASE("an oracle's call on a device has moved inputs in float32, and others in their dtype") {
  const fk::Contract& contract = catalog().at("paged_attention");
  const auto source = std::ranges::find_if(
      contract.cases, [](const fk::Case& c) { return c.size == "smoke" && c.name == "low_128"; });
  REQUIRE(source != contract.cases.end());
  fk::Variant variant;
  variant.dtypes = {{"q", fk::DType::bf16}, {"k_cache", fk::DType::bf16}};
  const fk::ResolvedCase resolved = fk::resolve(contract, *source, variant);
  const fk::CaseValues values = fk::make_inputs(resolved, 1, 1);
  const fk::CaseValues moved = fk::moved_inputs(resolved, values, 0);
  const fk::Tensor &keys = values.at("k_cache")[0], &other = moved.at("k_cache")[0];
  // bf16 has a step of 1 at these keys, and the moves are a millionth of it.
  CHECK(fk::same_bytes(other.to(fk::DType::bf16), keys));
  CHECK_FALSE(fk::same_bytes(other, keys.to(fk::DType::f32)));

  CHECK(fk::exact_on_device(resolved, values) == fk::Exact::outputs);
  CHECK(fk::exact_on_device(resolved, moved) == fk::Exact::forward);
  const auto dtype_in = [&](const fk::CaseValues& of, const char* field) {
    const auto exact = fk::exact_on_device(resolved, of);
    return fk::exact_call(resolved, *source, variant, exact).find(field)->dtype;
  };
  CHECK(dtype_in(values, "k_cache") == fk::DType::bf16);
  for (const char* field : {"q", "k_cache", "v_cache", "out"})
    CHECK(dtype_in(moved, field) == fk::DType::f32);
}
