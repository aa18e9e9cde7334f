// SPDX-License-Identifier: Apache-2.0

#include "core/text/decoder.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>

#include "core/base/text.hpp"
#include "core/text/byte_alphabet.hpp"
#include "core/text/pattern.hpp"
#include "core/text/unicode.hpp"

namespace fk::text {
namespace {

using Tokens = std::vector<std::string>;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

Tokens byte_level_text(const Tokens& tokens, bool whole) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += bytes_of(token).value_or(token);
  const std::size_t held = whole ? 0 : unfinished_bytes(bytes);
  const std::string_view text(bytes);
  return {valid_utf8(text.substr(0, text.size() - held)) +
          std::string(text.substr(text.size() - held))};
}

std::optional<char> byte_of(const std::string& token) {
  if (token.size() != 6 || !starts_with(token, "<0x") || token[5] != '>') return std::nullopt;
  unsigned char byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

// Tokens <0x0A> become bytes. A run of bytes which is not UTF-8 has one U+FFFD for each byte. A
// stream keeps the valid characters of such a run, because it has already returned them.
Tokens fallback_text(const Tokens& tokens, bool whole) {
  Tokens out;
  std::string run;
  const auto end_run = [&](bool last) {
    const std::size_t held = last && !whole ? unfinished_bytes(run) : 0;
    if (!whole) {
      const std::string_view text(run);
      run = valid_utf8(text.substr(0, text.size() - held)) +
            std::string(text.substr(text.size() - held));
    } else if (valid_bytes(run) < run.size()) {
      run = join(Tokens(run.size(), std::string(kReplacementText)), "");
    }
    if (!run.empty()) out.push_back(std::move(run));
    run.clear();
  };
  for (const std::string& token : tokens) {
    if (const auto byte = byte_of(token)) {
      run += *byte;
    } else {
      end_run(false);
      out.push_back(token);
    }
  }
  end_run(true);
  return out;
}

Decoder each(std::function<std::string(std::string, std::size_t index, std::size_t count)> change) {
  return [change = std::move(change)](Tokens tokens, bool) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = change(std::move(tokens[i]), i, tokens.size());
    }
    return tokens;
  };
}

Decoder metaspace_text(const Config& config) {
  const std::string sign = config.text("replacement", "\xE2\x96\x81");
  if (config.has("str_rep")) config.text("str_rep");
  const bool always = config.boolean("add_prefix_space", true);
  const bool drop = config.text("prepend_scheme", always ? "always" : "never") != "never";
  config.boolean("split", true);  // means nothing here
  return each([=](std::string token, std::size_t index, std::size_t) {
    replace_all(token, sign, index == 0 && drop ? "" : " ");
    return token;
  });
}

Decoder word_piece_text(const Config& config) {
  const std::string prefix = config.text("prefix", "##");
  const bool clean = config.boolean("cleanup", true);
  return each([=](std::string token, std::size_t index, std::size_t) {
    if (index > 0) {
      token = starts_with(token, prefix) ? token.substr(prefix.size()) : " " + token;
    }
    if (clean) {
      for (const auto& [from, to] :
           std::vector<std::pair<const char*, const char*>>{{" .", "."},
                                                            {" ?", "?"},
                                                            {" !", "!"},
                                                            {" ,", ","},
                                                            {" ' ", "'"},
                                                            {" n't", "n't"},
                                                            {" 'm", "'m"},
                                                            {" do not", " don't"},
                                                            {" 's", "'s"},
                                                            {" 've", "'ve"},
                                                            {" 're", "'re"}}) {
        replace_all(token, from, to);
      }
    }
    return token;
  });
}

Decoder strip_text(const Config& config) {
  const std::string content = config.text("content");
  const int64_t start = config.integer("start", 0), stop = config.integer("stop", 0);
  if (content.empty()) config.fail_at("content", "expected a character");
  return each([=](std::string token, std::size_t, std::size_t) {
    for (int64_t i = 0; i < start && starts_with(token, content); ++i) {
      token.erase(0, content.size());
    }
    for (int64_t i = 0; i < stop && ends_with(token, content); ++i) {
      token.resize(token.size() - content.size());
    }
    return token;
  });
}

Decoder replace_text(const Config& config) {
  return each([pattern = Pattern(config), content = config.text("content")](
                  std::string token, std::size_t, std::size_t) {
    const std::size_t valid = valid_bytes(token);
    return replaced(pattern, std::string_view(token).substr(0, valid), content) +
           token.substr(valid);
  });
}

Decoder suffix_text(const Config& config) {
  const std::string suffix = config.text("suffix", "</w>");
  if (suffix.empty()) config.fail_at("suffix", "expected at least one character");
  return each([=](std::string token, std::size_t index, std::size_t count) {
    replace_all(token, suffix, index + 1 == count ? "" : " ");
    return token;
  });
}

Decoder byte_level_decoder(const Config& config) {
  for (const char* key : {"trim_offsets", "add_prefix_space", "use_regex"}) config.ignore(key);
  return [](const Tokens& tokens, bool whole) { return byte_level_text(tokens, whole); };
}

Decoder in_order(const Config& config) {
  std::vector<Decoder> steps;
  for (const Config& step : config.children("decoders")) steps.push_back(read_decoder(step));
  return [steps](Tokens tokens, bool whole) {
    for (const Decoder& step : steps) tokens = step(std::move(tokens), whole);
    return tokens;
  };
}

const std::map<std::string, Decoder (*)(const Config&)>& decoder_kinds() {
  static const std::map<std::string, Decoder (*)(const Config&)> all = {
      {"BPEDecoder", suffix_text},
      {"ByteFallback", [](const Config&) { return Decoder(fallback_text); }},
      {"ByteLevel", byte_level_decoder},
      {"Fuse",
       [](const Config&) {
         return Decoder([](const Tokens& tokens, bool) { return Tokens{join(tokens, "")}; });
       }},
      {"Metaspace", metaspace_text},
      {"Replace", replace_text},
      {"Sequence", in_order},
      {"Strip", strip_text},
      {"WordPiece", word_piece_text},
  };
  return all;
}

}  // namespace

Decoder read_decoder(const Config& config) {
  const std::string type = config.text("type");
  const auto kind = decoder_kinds().find(type);
  if (kind == decoder_kinds().end()) {
    std::vector<std::string> names;
    for (const auto& [name, make] : decoder_kinds()) names.push_back(name);
    config.fail_at("type", fmt::format("the decoder `{}` is not supported", excerpt(type)),
                   did_you_mean(type, names));
  }
  return kind->second(config);
}

}  // namespace fk::text
