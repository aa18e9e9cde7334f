// SPDX-License-Identifier: Apache-2.0
// Where the seeds of a verdict come from: one secret of 256 bits, drawn for it alone. Its SHA-256
// is the commitment, made before the first call; the secret itself is told after the verdict, so
// that anybody can see that the seeds were not chosen to fit, and repeat them. A seed is derived
// from the secret and what it is for.
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
  // The first eight bytes, big-endian, of SHA-256(secret | purpose). `purpose` is for instance
  // "rms_norm/mixtral-decode/inputs/3": no two uses share one.
  uint64_t seed(std::string_view purpose) const;

 private:
  std::string bytes_;
};

}  // namespace fk
