// SPDX-License-Identifier: Apache-2.0
//
// Divided work on all threads that this process may use. The caller decides the parts, so results
// do not depend on the number of threads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace fk {

/// Calls body(i) for every i below `parts`, in any order, from several threads when there is more
/// than one part. Returns when all parts are done, then throws the first exception of a body. If
/// threads cannot be created, the existing ones do all of the work.
void in_parts(std::size_t parts, const std::function<void(std::size_t)>& body);

/// The same for `count` items: calls body(first, size) for pieces of `piece` items each. The last
/// piece may be smaller.
void in_pieces(int64_t count, int64_t piece,
               const std::function<void(int64_t first, int64_t size)>& body);

}  // namespace fk
