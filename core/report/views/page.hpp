// SPDX-License-Identifier: Apache-2.0
// A view as one HTML page. The page loads nothing, and everything is readable without its script,
// which sorts and searches tables. Its policy (CSP) allows this one script by hash, so a text that
// escaped from its place could not run.
#pragma once
#include <string>

#include "core/report/views/view.hpp"

namespace fk {

std::string page_of(const View& view);

}  // namespace fk
