// SPDX-License-Identifier: Apache-2.0
// Signatures of receipts: Ed25519 (RFC 8032) through OpenSSL, where the host was built with it. The
// key pair is made at first use; the file holds the private key, 64 hex digits, for its owner
// alone.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace fk {

// Empty, or why this host can neither sign nor verify.
std::string no_signatures();

class Signer {
 public:
  // Reads the key, or makes one where there is no file. Nothing with `why` where that cannot be
  // done: no OpenSSL, a folder that is not writable, a file that others can read. Processes that
  // come at the same time end up with the same key.
  static std::optional<Signer> open(const std::filesystem::path& file, std::string& why);

  const std::string& public_key() const { return public_key_; }  // 64 hex digits
  std::string sign(std::string_view bytes) const;                // 128 hex digits

 private:
  std::string private_key_, public_key_;
};

// Whether `signature` is that of `bytes` by the owner of `public_key`; `why` says what is amiss.
bool verify_signature(std::string_view public_key, std::string_view bytes,
                      std::string_view signature, std::string& why);

}  // namespace fk
