// SPDX-License-Identifier: Apache-2.0
// The forms of gelu that configurations name, as the enum words of contracts.
#pragma once
#include <string>
#include <string_view>

#include "core/base/json.hpp"
#include "core/base/text.hpp"

namespace fk::parts {

// `none` for the exact form, `tanh`; Error for another activation.
inline std::string read_gelu(const Config& config, std::string_view key) {
  const std::string name = config.text(key);
  if (name == "gelu") return "none";
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return "tanh";
  config.fail_at(key, "`" + name + "` is not supported",
                 did_you_mean(name, {"gelu", "gelu_new", "gelu_pytorch_tanh"}));
}

}  // namespace fk::parts
