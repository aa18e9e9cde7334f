// SPDX-License-Identifier: Apache-2.0
//
// Work that falls into parts, on as many threads as this process may use. What the parts are is the
// caller's business, so that results do not depend on the number of threads.

#pragma once

#include <cstddef>
#include <functional>

namespace fk {

/// Calls body(i) for every i below `parts`, in any order, from several threads when there is more
/// than one part; returns when all are done. The first exception of a body is thrown then. Where
/// threads cannot be had, those that are there do all of it.
void in_parts(std::size_t parts, const std::function<void(std::size_t)>& body);

}  // namespace fk
