// SPDX-License-Identifier: Apache-2.0
// The GPUs that a plugin has code for, from its fat binaries, which nvcc puts into the section
// .nv_fatbin. Nothing is loaded. Without this check a false claim would surface at the first
// launch, with an error that names neither the plugin nor the GPU.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace fk {

// Empty, or one sentence about the first compute capability in `sm` (90 is 9.0) without a matching
// part in a fat binary. A cubin runs on GPUs of its major number that are not older; PTX runs on
// all that are not older. The headers do not tell code for 9.0a, which runs on 9.0 only, from code
// for 9.0. A file without fat binaries passes, because device code has other forms too. Error where
// the file's sections are damaged.
std::string missing_device_code(const std::filesystem::path& file, std::span<const int32_t> sm);

}  // namespace fk
