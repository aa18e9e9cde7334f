// SPDX-License-Identifier: Apache-2.0
#include "core/judge/verdict/secret.hpp"

#include <sys/random.h>

#include <cerrno>

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr size_t kBytes = 32;

std::span<const uint8_t> unsigned_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

Secret Secret::draw() {
  Secret out;
  out.bytes_.resize(kBytes);
  // Requests of up to 256 bytes are filled whole once the generator is seeded.
  while (::getrandom(out.bytes_.data(), kBytes, 0) != static_cast<ssize_t>(kBytes))
    if (errno != EINTR) fail("seeds", "the kernel gives no random numbers: " + errno_text());
  return out;
}

Secret Secret::from_hex(std::string_view hex, const std::string& where) {
  Secret out;
  out.bytes_ = bytes_of_hex(hex, kBytes, where);
  return out;
}

std::string Secret::hex() const { return hex_text(unsigned_bytes(bytes_)); }

std::string Secret::commitment() const { return sha256(bytes_); }

uint64_t Secret::seed(std::string_view purpose) const {
  Sha256 hash;
  hash.update(bytes_);
  hash.update("|");
  hash.update(purpose);
  const auto digest = hash.finish();
  uint64_t out = 0;
  for (size_t i = 0; i < 8; ++i) out = out << 8 | digest[i];
  return out;
}

}  // namespace fk
