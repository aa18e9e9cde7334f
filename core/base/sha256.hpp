// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4): what names contents that somebody may want to forge: files that were
// judged, commitments to seeds, receipts. Where the processor has instructions for it they are
// used, because a file is hashed before every answer.

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
  /// Ends the message; the object is not to be used afterwards.
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
/// Of a file's contents, which are read and not mapped: a linker may truncate it meanwhile. Error
/// when it is missing, no regular file, unreadable or larger than anything that is loaded or kept
/// here: a file may claim to have more bytes than its disk. That much is read in half a second.
constexpr int64_t kHashedBytesMax = int64_t{1} << 30;
std::string sha256_file(const std::filesystem::path& path);

}  // namespace fk
