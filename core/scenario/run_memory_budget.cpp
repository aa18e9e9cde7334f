// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/run_memory_budget.hpp"

#include <algorithm>

#include "core/base/text.hpp"
#include "core/device/device.hpp"
#include "core/scenario/memory_budget.hpp"
#include "core/scenario/model_oracle.hpp"

namespace fk {

namespace {

constexpr int64_t kOfSide = kProcessBytes + kSessionBytes;

}  // namespace

std::optional<DeviceMemoryBudget> room_of(const std::string& device) {
  const auto opened = open_device(device);
  const auto memory = opened->memory_bytes(), free = opened->free_bytes();
  if (!memory || !free) return std::nullopt;
  return DeviceMemoryBudget{opened->name(), *memory, *free};
}

RunMemoryBudget::RunMemoryBudget(const Model& model, const Catalog& catalog, const Limits& limits,
                                 int64_t longest, int64_t ranks_there)
    : model_(model),
      catalog_(catalog),
      limits_(limits),
      longest_(longest),
      ranks_there_(ranks_there) {}

TooLarge RunMemoryBudget::too_large(const DeviceMemoryBudget& device, int64_t weights,
                                    int64_t states, int64_t beside,
                                    const std::string& whose) const {
  const int64_t needs = weights + states + beside;
  std::string what = "it needs " + human_bytes(needs) + ", " + human_bytes(weights) +
                     " for weights and " + human_bytes(states) + " for " + whose + ", and " +
                     device.name + " has " + human_bytes(device.memory);
  if (limits_.parallel.ranks() == 1 && model_.refusal({2, 1, 0, false}).empty())
    what += " (--tp 2 divides it between two)";
  return {std::move(what), needs, device.memory};
}

RunMemoryBudget::Oracle RunMemoryBudget::oracle(const DeviceMemoryBudget& whole,
                                                const DeviceMemoryBudget& rank) const {
  const int64_t ranks = limits_.parallel.ranks();
  const auto lacks = [&](bool divided,
                         const DeviceMemoryBudget& device) -> std::optional<TooLarge> {
    const Limits limits = ModelOracle::limits_of(limits_, longest_, divided);
    const int64_t times = divided ? ranks_there_ : 1;
    const int64_t weights = times * weights_bytes(model_, catalog_, limits),
                  states = times * states_bytes(model_, catalog_, limits);
    if (weights + states + times * kOfSide <= device.memory) return std::nullopt;
    return too_large(device, weights, states, times * kOfSide, "the oracle's caches");
  };
  Oracle oracle;
  oracle.too_large = lacks(false, whole);
  if (!oracle.too_large || ranks == 1) return oracle;
  oracle.note = "The oracle is also divided between " + std::to_string(ranks) +
                " ranks: of the whole model, " + oracle.too_large->what + ".";
  oracle.too_large = lacks(true, rank);
  oracle.divided = !oracle.too_large;
  if (!oracle.divided) oracle.note.clear();
  return oracle;
}

int64_t RunMemoryBudget::wanted_bytes(int sides) const {
  return ranks_there_ * (states_bytes(model_, catalog_, limits_) + sides * kOfSide);
}

RunMemoryBudget::Pages RunMemoryBudget::pages(const DeviceMemoryBudget& rank, int sides) const {
  const CacheRoom room(model_, catalog_, limits_);
  if (!room.has_pages()) return {limits_.pages, "", "", {}};
  const int64_t pages = room.pages_in(rank.free / ranks_there_ - sides * kOfSide);
  if (pages == room.wanted()) return {limits_.pages, "", "", {}};
  const std::string are_free = human_bytes(rank.free) + " of " + rank.name + " are free";
  // The longest request must fit, and the writes of a step behind it.
  constexpr int64_t kBehind = 4;
  const int64_t least =
      std::min(room.wanted(), (longest_ + limits_.page_size - 1) / limits_.page_size + kBehind);
  if (pages >= least)
    return {pages,
            "The caches have " + std::to_string(pages) + " pages and not " +
                std::to_string(room.wanted()) + ": memory is too small (" + are_free +
                "): fewer requests run at the same time.",
            "",
            {}};
  const int64_t states = ranks_there_ * room.bytes(least),
                weights = ranks_there_ * weights_bytes(model_, catalog_, limits_);
  const TooLarge lack =
      too_large(rank, weights, states, ranks_there_ * sides * kOfSide, "the shortest caches");
  if (lack.needs_bytes > lack.device_bytes) return {0, "", lack.what, lack};
  return {0,
          "",
          "the longest request needs " + human_bytes(states) + " of caches, and " + are_free,
          {}};
}

}  // namespace fk
