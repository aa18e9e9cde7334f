// SPDX-License-Identifier: Apache-2.0
//
// From text to tokens and back, as a tokenizer.json of Hugging Face says. Ids are equal to those of
// the library `tokenizers`, but the file's `truncation` and `padding` are left to the caller.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fk::text {

/// Cheap to copy. Several threads may use one at the same time.
class Tokenizer {
 public:
  /// Reads the bytes of a tokenizer.json; `name` stands for the file in messages. Error for a part
  /// which is not known, and for a key which no reader knows.
  static Tokenizer read(std::string_view json, const std::string& name = "tokenizer.json");
  static Tokenizer load(const std::filesystem::path& path);

  /// The ids of a text. Bytes which are not UTF-8 count as U+FFFD. A special token in the text
  /// becomes its id. `add_special`: with the tokens which the file adds around a text.
  std::vector<int32_t> encode(std::string_view text, bool add_special) const;

  /// The text of ids: always UTF-8. Unknown ids have no text. `skip_special`: without special
  /// tokens.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  /// Like decode, but more ids follow: bytes at the end which begin a character are not replaced.
  std::string decode_part(std::span<const int32_t> ids, bool skip_special) const;

  /// One more than the highest id.
  int32_t size() const;
  std::optional<int32_t> id(std::string_view token) const;
  /// The token as the file writes it; empty if no token has this id.
  std::string token(int32_t id) const;
  /// The token is written in its text, and `skip_special` leaves it out.
  bool is_special(int32_t id) const;
  /// Some token has this id.
  bool knows(int32_t id) const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::string decoded(std::span<const int32_t> ids, bool skip_special, bool whole) const;

  std::shared_ptr<const Parts> parts_;
};

/// The text of ids which come one by one, in whole characters. All results together are the text of
/// all ids, if it has no U+FFFD. For one thread.
class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, bool skip_special = true)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  /// The text which the id completes; empty while a character is not complete.
  std::string push(int32_t id);
  /// The rest: U+FFFD for a character which was never completed. The next text may begin then.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<int32_t> window_;  // the last ids, enough to know the text of the next one
  std::size_t given_ = 0;        // bytes of the window's text which were returned
};

}  // namespace fk::text
