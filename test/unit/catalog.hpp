// SPDX-License-Identifier: Apache-2.0
// All contracts of registry/, read once.
#pragma once
#include "core/base/paths.hpp"
#include "core/contract/contract.hpp"

inline const fk::Catalog& catalog() {
  static const fk::Catalog all(fk::paths::registry_dirs());
  return all;
}
