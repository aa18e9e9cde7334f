// SPDX-License-Identifier: Apache-2.0
// Signatures of receipts: Ed25519 (RFC 8032) through OpenSSL, if the host was built with it. The
// first use makes the key pair. The file holds the private key, 64 hex digits, readable by its
// owner only.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace fk {

// Empty, or the reason why this host can neither sign nor verify.
std::string no_signatures();

class Signer {
 public:
  // Reads the key, or makes one if the file is missing. Nothing, with `why`, if that fails: no
  // OpenSSL, a read-only folder, a file that others can read. Processes that make it at the same
  // time get the same key.
  static std::optional<Signer> open(const std::filesystem::path& file, std::string& why);

  const std::string& public_key() const { return public_key_; }  // 64 hex digits
  std::string sign(std::string_view bytes) const;                // 128 hex digits

 private:
  std::string private_key_, public_key_;
};

// True if `signature` is the signature of `bytes` by the owner of `public_key`; otherwise `why` has
// the fault.
bool verify_signature(std::string_view public_key, std::string_view bytes,
                      std::string_view signature, std::string& why);

}  // namespace fk
