// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4), for names of contents that an attacker may want to forge: judged files,
// commitments to seeds, receipts. The processor's SHA instructions are used if it has them, because
// a file is hashed before every answer.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace fk {

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  /// `portable`: without the processor's own instructions; the result is the same.
  explicit Sha256(bool portable = false);
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// Ends the message; the object must not be used afterwards.
  Digest finish();

 private:
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> block_{};
  uint64_t length_ = 0;
  bool portable_;
};

/// Lower-case hex digits.
std::string hex_text(std::span<const uint8_t> bytes);
/// The reverse; Error naming `where` for anything but pairs of hex digits of `bytes` bytes.
std::string bytes_of_hex(std::string_view hex, std::size_t bytes, const std::string& where);

/// 64 hex digits.
std::string sha256(std::string_view text);
/// HMAC (RFC 2104) of a message under a key, as bytes.
Sha256::Digest hmac_sha256(std::string_view key, std::string_view message);
/// SHA-256 of a file's contents. They are read, not mapped, because a linker may truncate the file
/// meanwhile. Error when the file is missing, no regular file, unreadable or larger than
/// kHashedBytesMax: a file may claim more bytes than its disk has. Hashing that many bytes takes
/// half a second.
constexpr int64_t kHashedBytesMax = int64_t{1} << 30;
std::string sha256_file(const std::filesystem::path& path);

}  // namespace fk
