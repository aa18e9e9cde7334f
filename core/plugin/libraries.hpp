// SPDX-License-Identifier: Apache-2.0
// The libraries that a candidate may link.
#pragma once
#include <string_view>

namespace fk {

// Beginnings of file names: libc's own, libm, libstdc++, libgcc, libgomp and the CUDA runtime.
constexpr std::string_view kLibrariesOfCandidates[] = {
    "libc.so.",    "libm.so.",      "libstdc++.so.", "libgcc_s.so.", "libgomp.so.",
    "ld-linux-",   "libpthread.so", "libdl.so.",     "librt.so.",    "libcudart.so.",
#if defined(__SANITIZE_ADDRESS__)
    "libasan.so.", "libubsan.so.",
#endif
};

inline bool may_link(std::string_view file_name) {
  for (const auto beginning : kLibrariesOfCandidates)
    if (file_name.starts_with(beginning)) return true;
  return false;
}

}  // namespace fk
