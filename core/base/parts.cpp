// SPDX-License-Identifier: Apache-2.0
// Threads take the number of the next part from a common counter until no part is left.
#include "core/base/parts.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/cores.hpp"

namespace fk {

void in_parts(std::size_t parts, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr first;
  const auto work = [&] {
    for (std::size_t i = next++; i < parts; i = next++) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t threads =
        parts > 1 ? std::min(parts, static_cast<std::size_t>(usable_cores())) : 1;
    try {
      while (others.size() + 1 < threads) others.emplace_back(work);
    } catch (const std::system_error&) {
      // A limit on threads: fewer threads do the work.
    }
    work();
  }
  if (first) std::rethrow_exception(first);
}

void in_pieces(int64_t count, int64_t piece,
               const std::function<void(int64_t first, int64_t size)>& body) {
  in_parts(static_cast<std::size_t>((count + piece - 1) / piece), [&](std::size_t part) {
    const int64_t first = static_cast<int64_t>(part) * piece;
    body(first, std::min(piece, count - first));
  });
}

}  // namespace fk
