// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/judge/verdict/kernel_profile.hpp"

namespace fk {

// A share, as "45 %".
std::string percent_text(double share);

// Profiles of kernels as a few lines each; empty without kernels.
std::string kernel_text(const std::vector<KernelProfile>& kernels);

}  // namespace fk
