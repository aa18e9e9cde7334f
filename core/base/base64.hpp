// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace fk {

// Base64 of bytes, padded.
std::string base64_of(std::string_view bytes);

}  // namespace fk
