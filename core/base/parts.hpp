// SPDX-License-Identifier: Apache-2.0
//
// Work that falls into parts, on as many threads as this process may use. What the parts are is the
// caller's business, so that results do not depend on the number of threads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace fk {

/// Calls body(i) for every i below `parts`, in any order, from several threads when there is more
/// than one part; returns when all are done. The first exception of a body is thrown then. Where
/// threads cannot be had, those that are there do all of it.
void in_parts(std::size_t parts, const std::function<void(std::size_t)>& body);

/// The same for `count` of something: body(first, size) for pieces of `piece` each, of which the
/// last may be smaller.
void in_pieces(int64_t count, int64_t piece,
               const std::function<void(int64_t first, int64_t size)>& body);

}  // namespace fk
