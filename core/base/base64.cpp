// SPDX-License-Identifier: Apache-2.0
#include "core/base/base64.hpp"

#include <boost/beast/core/detail/base64.hpp>

namespace fk {

std::string base64_of(std::string_view bytes) {
  namespace codec = boost::beast::detail::base64;
  std::string out(codec::encoded_size(bytes.size()), '\0');
  out.resize(codec::encode(out.data(), bytes.data(), bytes.size()));
  return out;
}

}  // namespace fk
