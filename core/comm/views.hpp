// SPDX-License-Identifier: Apache-2.0
// Helpers for the views (tensors) in calls of communicators.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "core/comm/meeting.hpp"
#include "fk/comm.h"

namespace fk {

// Size of the signal pad at the beginning of a symmetric buffer.
inline constexpr int64_t kPadBytes = FK_SIGNALS * static_cast<int64_t>(sizeof(uint32_t));

inline const std::byte* data_of(const fk_in& view) {
  return static_cast<const std::byte*>(view.data);
}
inline std::byte* data_of(const fk_out& view) { return static_cast<std::byte*>(view.data); }

// Bytes of x divided by x_parts. Error unless x and out are dense and of one dtype, and out has
// `out_parts` for every `x_parts` of x.
int64_t part_bytes(const fk_in& x, const fk_out& out, int64_t x_parts, int64_t out_parts);
// The announcement of a call with x in the meeting.
CommCall call_of(const char* op, const fk_in& x, int64_t detail = 0);
// The bytes of every rank, by rank, through a communicator of the CPU. Error when that fails.
std::vector<std::string> gather_bytes(const fk_comm& host, const void* mine, size_t bytes);

}  // namespace fk
