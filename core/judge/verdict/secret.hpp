// SPDX-License-Identifier: Apache-2.0
// The source of a verdict's seeds: one random secret of 256 bits, made for this verdict. Its
// SHA-256 is the commitment, made before the first call. The secret is published after the verdict:
// anyone can check that the seeds were not chosen to fit, and repeat them. A seed is derived from
// the secret and its purpose.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace fk {

class Secret {
 public:
  static Secret draw();  // from the kernel's generator; Error when there is none
  // From 64 hex digits, as printed. Error naming `where` for anything else.
  static Secret from_hex(std::string_view hex, const std::string& where);

  std::string hex() const;
  std::string commitment() const;  // SHA-256 of the 32 bytes, in hex
  // The first eight bytes, big-endian, of SHA-256(secret | purpose). No two uses share a purpose.
  // Example: "rms_norm/mixtral-decode/inputs/3".
  uint64_t seed(std::string_view purpose) const;

 private:
  std::string bytes_;
};

}  // namespace fk
