// SPDX-License-Identifier: Apache-2.0
// Values from a configuration, which is untrusted data. Sizes have bounds: products of two sizes
// stay far inside 64 bits, and a count of layers cannot ask for endless memory.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/base/json.hpp"
#include "core/base/text.hpp"

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

// Keys with one implemented value. Error for any other value. An absent key, or null, means this
// value.
inline void need_text(const Config& config, std::string_view key, const std::string& wanted) {
  const std::string value = config.text(key, wanted);
  if (value != wanted)
    config.fail_at(key, "`" + excerpt(value) + "` is not supported: it must be `" + wanted + "`");
}
inline void need_number(const Config& config, std::string_view key, double wanted) {
  if (config.number(key, wanted) != wanted)
    config.fail_at(key, "only " + fmt::format("{}", wanted) + " is supported");
}
inline void need_boolean(const Config& config, std::initializer_list<const char*> keys,
                         bool wanted) {
  for (const char* key : keys)
    if (config.boolean(key, wanted) != wanted)
      config.fail_at(key, wanted ? "only true is supported" : "only false is supported");
}

}  // namespace fk::parts
