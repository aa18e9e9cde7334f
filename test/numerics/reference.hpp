// SPDX-License-Identifier: Apache-2.0
// All contracts, and the reference's ops.
#pragma once
#include <string>

#include "core/check/check.hpp"

struct Reference {
  Reference() {
    plugins.load(std::string(PLUGINS) + "/reference.so", fk::Trust::baseline);
    options.plugins = &plugins;
  }
  fk::Catalog catalog{{REGISTRY}};
  fk::Plugins plugins{catalog};
  fk::CheckOptions options;
};
