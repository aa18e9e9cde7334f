// SPDX-License-Identifier: Apache-2.0
// Reads pages which Nsight Compute exports as CSV.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/judge/verdict/kernel_profile.hpp"

namespace fk {

// Sections and metrics which `ncu` must collect for read_nsight().
std::vector<std::string> nsight_collects();

// The kernels of a report, in the order of their launches. `raw` is the output of `--page raw`,
// `source` that of `--page source`, both with `--csv`; the former in base units. Unknown metrics
// stay 0, because names differ between versions of the profiler. Empty: no table was found.
std::vector<KernelProfile> read_nsight(std::string_view raw, std::string_view source);

// Next steps that follow from the figures.
std::vector<std::string> profile_hints(const KernelProfile& kernel);

}  // namespace fk
