// SPDX-License-Identifier: Apache-2.0
// Which GPUs a plugin has code for, as its fat binaries say, which nvcc puts into the section
// .nv_fatbin; nothing is loaded. Without it a claim that is false is found by the first launch,
// which names neither.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace fk {

// Empty, or one sentence about the first of these compute capabilities (90 is 9.0) that no part of
// a fat binary is for: a cubin runs on GPUs of its major number that are not older than it, PTX on
// all that are not older. That code of 9.0a runs nowhere else than on 9.0 is not in these headers.
// Of a file without fat binaries nothing is said: device code may come in other forms. Error where
// the file's sections are damaged.
std::string missing_device_code(const std::filesystem::path& file, std::span<const int32_t> sm);

}  // namespace fk
