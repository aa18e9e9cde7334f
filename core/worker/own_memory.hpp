// SPDX-License-Identifier: Apache-2.0
// All memory in which code in this process may have left something to read again, wherever it got
// it from: so that it can be made cold.
#pragma once
#include <cstddef>
#include <functional>
#include <span>

namespace fk {

// Before the process is sealed off from the files that list its memory.
void open_own_memory();
// Calls `visit` with each part of what lies in memory and this process can read, or could after it
// has asked the kernel to: what is mapped without a file, what of a file is written to, and all of
// the file that `code` is in. Left out are other files' code and constants, 64 MiB and more without
// access in one piece, and the parts `but`. False where the list cannot be read. By one thread at
// a time, and no other may give memory back meanwhile.
bool visit_own_memory(const void* code, std::span<const std::span<const std::byte>> but,
                      const std::function<void(std::span<const std::byte>)>& visit);

}  // namespace fk
