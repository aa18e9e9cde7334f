// SPDX-License-Identifier: Apache-2.0
#include "core/judge/memory_account.hpp"

#include <algorithm>

namespace fk {

namespace {

constexpr int64_t kForCode = int64_t{1} << 30;    // for code and handles
constexpr int64_t kContext = int64_t{256} << 20;  // least bytes of a process on a device

int64_t at(const std::vector<int64_t>& bytes, size_t place) {
  return place < bytes.size() ? bytes[place] : 0;
}

}  // namespace

void MemoryAccount::begin(MemoryLooks looks) {
  begun_ = std::move(looks);
  lent_.clear();
}

void MemoryAccount::lend(std::vector<int64_t> bytes) {
  lent_ = bytes;
  given_ = std::move(bytes);
}

std::optional<MemoryAccount::Taken> MemoryAccount::taken(const MemoryLooks& now) const {
  std::optional<Taken> out;
  for (size_t i = 0; i < std::min(begun_.size(), now.size()); ++i) {
    const MemoryLook &before = begun_[i], &after = now[i];
    const int64_t more = after.all - before.all - at(lent_, i);
    if (before.all == 0 || after.all == 0 || more < kForCode) continue;
    Taken one{i, more, Whose::unknown};
    if (before.own && after.own)
      one.whose = *after.own - *before.own - at(lent_, i) >= kForCode ? Whose::candidate
                                                                      : Whose::somebody_else;
    if (!out || one.whose < out->whose) out = one;
  }
  return out;
}

bool MemoryAccount::came_back(const Taken& taken, const MemoryLooks& before,
                              const MemoryLooks& after) const {
  const size_t i = taken.place;
  return before.at(i).all - after.at(i).all >= at(given_, i) + kContext + taken.bytes / 2;
}

}  // namespace fk
