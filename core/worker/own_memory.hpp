// SPDX-License-Identifier: Apache-2.0
// Visits all readable memory in which code of this process may have left data. The caller evicts it
// from caches before a measurement.
#pragma once
#include <cstddef>
#include <functional>
#include <span>

namespace fk {

// Call it before the process is sealed off from the files that list its memory.
void open_own_memory();
// Calls `visit` with each part of resident memory that this process can read, or could read after
// asking the kernel. It visits mappings without a file, written parts of file mappings, and the
// whole file that contains `code`. It omits other files' code and constants, inaccessible pieces of
// 64 MiB and more, and `but`. False where the list cannot be read. One thread at a time; no other
// thread may release memory meanwhile.
bool visit_own_memory(const void* code, std::span<const std::span<const std::byte>> but,
                      const std::function<void(std::span<const std::byte>)>& visit);

}  // namespace fk
