// SPDX-License-Identifier: Apache-2.0
// Tokenizers of a build without PCRE2 or utf8proc: none can be read.
#include "core/text/tokenizer.hpp"

#include "core/base/error.hpp"

namespace fk::text {

struct Tokenizer::Parts {};

Tokenizer Tokenizer::read(std::string_view, const std::string& name) {
  fail(name, "this build has no tokenizers",
       "install libpcre2-dev and libutf8proc-dev and build again, or send ids of tokens");
}
Tokenizer Tokenizer::load(const std::filesystem::path& path) { return read({}, path.string()); }

// Nobody has a Tokenizer here.
std::vector<int32_t> Tokenizer::encode(std::string_view, bool) const { return {}; }
std::string Tokenizer::decode(std::span<const int32_t>, bool) const { return {}; }
std::string Tokenizer::decode_part(std::span<const int32_t>, bool) const { return {}; }
int32_t Tokenizer::size() const { return 0; }
std::optional<int32_t> Tokenizer::id(std::string_view) const { return std::nullopt; }
std::string Tokenizer::token(int32_t) const { return {}; }
bool Tokenizer::is_special(int32_t) const { return false; }
bool Tokenizer::knows(int32_t) const { return false; }
std::string Detokenizer::push(int32_t) { return {}; }
std::string Detokenizer::finish() { return {}; }

}  // namespace fk::text
