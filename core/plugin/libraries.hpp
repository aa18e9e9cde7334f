// SPDX-License-Identifier: Apache-2.0
// The libraries that a candidate may link, and the libraries that come with a GPU's driver.
#pragma once
#include <string_view>

namespace fk {

// File names without their versions: libc's own, libm, libstdc++, libgcc, libgomp, the CUDA
// runtime and the OpenCL loader. libmvec is libm for vectors: loops compiled with -ffast-math call
// it.
constexpr std::string_view kLibrariesOfCandidates[] = {
    "libc.so.",       "libm.so.",     "libmvec.so.",         "libstdc++.so.",
    "libgcc_s.so.",   "libgomp.so.",  "ld-linux-x86-64.so.", "ld-linux-aarch64.so.",
    "libpthread.so.", "libdl.so.",    "librt.so.",           "libcudart.so.",
    "libOpenCL.so.",
#if defined(__SANITIZE_ADDRESS__)
    "libasan.so.",    "libubsan.so.",
#endif
};

// Only a plain name with a version is accepted, which the loader searches in the system's folders.
// With a path in it ("libm.so.d/mine.so", or "libm.so.${LIB}", which the loader expands) any user's
// file could be loaded, before the process is sealed.
inline bool may_link(std::string_view file_name) {
  for (const auto library : kLibrariesOfCandidates)
    if (file_name.starts_with(library))
      return file_name.find_first_not_of("0123456789.", library.size()) == file_name.npos;
  return false;
}

// The driver, and the compilers of PTX. None of them has a kernel that could do a candidate's work.
// Any caller may cause their load, at any time.
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
