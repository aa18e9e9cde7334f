// SPDX-License-Identifier: Apache-2.0
// The frozen binary of silu_and_mul as a provider, and inputs for its first case. For x86-64.
#pragma once
#include "core/cases/execute.hpp"

struct FrozenSilu {
  fk::Catalog catalog{{std::filesystem::path(FK_SOURCE_DIR) / "registry"}};
  fk::Plugins plugins{catalog};
  fk::ResolvedCase resolved;
  fk::CaseValues values;
  FrozenSilu() {
    plugins.load(std::filesystem::path(FK_ABI_DIR) / "frozen/c/silu_and_mul.v1.so",
                 fk::Trust::candidate);
    resolved = fk::resolve(*provider().contract, provider().contract->cases.at(0), {});
    values = fk::make_inputs(resolved, 1, 1);
  }
  const fk::Provider& provider() const { return *plugins.of("silu_and_mul").at(0); }
};
