// SPDX-License-Identifier: Apache-2.0
// The libraries that a candidate may link, and those that a GPU's driver brings by itself.
#pragma once
#include <string_view>

namespace fk {

// File names without their versions: libc's own, libm, libstdc++, libgcc, libgomp and the CUDA
// runtime.
constexpr std::string_view kLibrariesOfCandidates[] = {
    "libc.so.",
    "libm.so.",
    "libstdc++.so.",
    "libgcc_s.so.",
    "libgomp.so.",
    "ld-linux-x86-64.so.",
    "ld-linux-aarch64.so.",
    "libpthread.so.",
    "libdl.so.",
    "librt.so.",
    "libcudart.so.",
#if defined(__SANITIZE_ADDRESS__)
    "libasan.so.",
    "libubsan.so.",
#endif
};

// By its name alone, which the system's own folders are searched for, with a version and nothing
// more: with a path in it ("libm.so.d/mine.so", also "libm.so.${LIB}", which the loader makes one
// of) it would be a file of anybody's, and it is loaded before the process is sealed.
inline bool may_link(std::string_view file_name) {
  for (const auto library : kLibrariesOfCandidates)
    if (file_name.starts_with(library))
      return file_name.find_first_not_of("0123456789.", library.size()) == file_name.npos;
  return false;
}

// The driver, and what turns PTX into code: none of them has a kernel that could do somebody's
// work. They are loaded when they are needed, whoever calls.
constexpr std::string_view kLibrariesOfDriver[] = {
    "libcuda.so.",  "libcudadebugger.so.",   "libnvidia-",      "libnvJitLink.so.",
    "libnvrtc.so.", "libnvrtc-builtins.so.", "libnvfatbin.so.",
};

inline bool of_driver(std::string_view file_name) {
  for (const auto beginning : kLibrariesOfDriver)
    if (file_name.starts_with(beginning)) return true;
  return false;
}

}  // namespace fk
