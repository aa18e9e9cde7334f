// SPDX-License-Identifier: Apache-2.0
// Sizes from a configuration, which is data from a stranger: bounded, so that products of two of
// them stay far inside 64 bits and a count of layers cannot ask for endless memory.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/json.hpp"

namespace fk::parts {

inline constexpr int64_t kSizeMax = int64_t{1} << 26;  // widths, vocabularies, positions
inline constexpr int64_t kCountMax = 1 << 14;          // layers, heads, experts

inline int64_t bounded(const Config& config, std::string_view key, int64_t value, int64_t most) {
  if (value < 1 || value > most) {
    config.fail_at(key, "it is " + std::to_string(value) + " but must be between 1 and " +
                            std::to_string(most));
  }
  return value;
}
inline int64_t read_size(const Config& config, std::string_view key) {
  return bounded(config, key, config.integer(key), kSizeMax);
}
inline int64_t read_count(const Config& config, std::string_view key) {
  return bounded(config, key, config.integer(key), kCountMax);
}

}  // namespace fk::parts
