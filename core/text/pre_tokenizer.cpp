// SPDX-License-Identifier: Apache-2.0

#include "core/text/pre_tokenizer.hpp"

#include <fmt/format.h>

#include <map>

#include "core/base/text.hpp"
#include "core/text/pattern.hpp"
#include "core/text/unicode.hpp"

namespace fk::text {
namespace {

// The parts of a piece. Empty ones are left out.
void add_parts(const Piece& piece, const std::vector<Range>& ranges, std::vector<Piece>& out) {
  for (const Range& range : ranges) {
    if (range.begin == range.end) continue;
    out.push_back(
        {piece.text.substr(range.begin, range.end - range.begin), piece.first && range.begin == 0});
  }
}

PreTokenizer split_by(Pattern pattern, Behavior behavior, bool invert) {
  return [=](const Piece& piece, Texts&, std::vector<Piece>& out) {
    thread_local std::vector<Range> ranges;
    ranges.clear();
    cover(pattern, piece.text, [&](Range range) {
      range.match ^= invert;
      ranges.push_back(range);
    });
    apply(behavior, ranges);
    add_parts(piece, ranges, out);
  };
}

// Cuts at characters of a class.
PreTokenizer split_by(bool (*in_class)(char32_t), Behavior behavior) {
  return [=](const Piece& piece, Texts&, std::vector<Piece>& out) {
    std::vector<Range> ranges;
    for (std::size_t at = 0; at < piece.text.size();) {
      const Character c = character_at(piece.text, at);
      const bool match = in_class(c.code);
      if (!match && !ranges.empty() && !ranges.back().match) {
        ranges.back().end = at + c.size;
      } else {
        ranges.push_back({at, at + c.size, match});
      }
      at += c.size;
    }
    apply(behavior, ranges);
    add_parts(piece, ranges, out);
  };
}

PreTokenizer chain(std::vector<PreTokenizer> steps) {
  return [steps = std::move(steps)](const Piece& piece, Texts& texts, std::vector<Piece>& out) {
    std::vector<Piece> now = {piece}, next;
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
      next.clear();
      for (const Piece& part : now) steps[i](part, texts, next);
      now.swap(next);
    }
    for (const Piece& part : now) steps.back()(part, texts, out);
  };
}

PreTokenizer sequence_of(const Config& config) {
  std::vector<PreTokenizer> steps;
  for (const Config& step : config.children("pretokenizers")) {
    steps.push_back(read_pre_tokenizer(step));
  }
  if (steps.empty()) config.fail_at("pretokenizers", "expected at least one");
  return chain(std::move(steps));
}

// Each byte becomes a letter when the model reads the words (byte_alphabet.hpp); here is the rest.
PreTokenizer byte_level(const Config& config) {
  const bool space = config.boolean("add_prefix_space", true);
  config.boolean("trim_offsets", true);  // changes no id
  PreTokenizer words = [](const Piece& piece, Texts&, std::vector<Piece>& out) {
    out.push_back(piece);
  };
  if (config.boolean("use_regex", true)) {
    words = split_by(Pattern(Regex("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                                   " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
                                   config.where())),
                     Behavior::isolated, false);
  }
  if (!space) return words;
  return [words](const Piece& piece, Texts& texts, std::vector<Piece>& out) {
    if (piece.text.front() == ' ') return words(piece, texts, out);
    words({texts.emplace_back(" " + std::string(piece.text)), piece.first}, texts, out);
  };
}

PreTokenizer metaspace(const Config& config) {
  const std::string sign = config.text("replacement", "\xE2\x96\x81");
  if (config.has("str_rep")) config.text("str_rep");  // the same, of older versions
  const bool always = config.boolean("add_prefix_space", true);
  const std::string scheme = config.text("prepend_scheme", always ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    config.fail_at("prepend_scheme", fmt::format("`{}` is not known", excerpt(scheme)),
                   did_you_mean(scheme, {"always", "first", "never"}));
  }
  const bool cut = config.boolean("split", true);
  return [=](const Piece& piece, Texts& texts, std::vector<Piece>& out) {
    std::string text;
    for (const char c : piece.text) {
      if (c == ' ') {
        text += sign;
      } else {
        text += c;
      }
    }
    const bool prepend = scheme == "always" || (scheme == "first" && piece.first);
    if (prepend && !starts_with(text, sign)) text.insert(0, sign);
    const Piece whole{texts.emplace_back(std::move(text)), piece.first};
    if (!cut) return out.push_back(whole);
    for (std::size_t begin = 0; begin < whole.text.size();) {
      const std::size_t end = std::min(whole.text.find(sign, begin + 1), whole.text.size());
      out.push_back({whole.text.substr(begin, end - begin), piece.first && begin == 0});
      begin = end;
    }
  };
}

PreTokenizer digits(const Config& config) {
  const bool each = config.boolean("individual_digits", false);
  return split_by(is_numeric, each ? Behavior::isolated : Behavior::contiguous);
}

PreTokenizer punctuation(const Config& config) {
  return split_by(is_punctuation,
                  config.has("behavior") ? read_behavior(config) : Behavior::isolated);
}

PreTokenizer split(const Config& config) {
  return split_by(Pattern(config), read_behavior(config), config.boolean("invert", false));
}

PreTokenizer at_spaces() { return split_by(is_space, Behavior::removed); }

PreTokenizer bert_words(const Config&) {
  return chain({at_spaces(), split_by(is_punctuation, Behavior::isolated)});
}

PreTokenizer at_delimiter(const Config& config) {
  const std::string delimiter = config.text("delimiter");
  if (delimiter.empty()) config.fail_at("delimiter", "expected a character");
  return [delimiter](const Piece& piece, Texts&, std::vector<Piece>& out) {
    std::vector<Range> ranges;
    for (std::size_t at = 0; at <= piece.text.size();) {
      const std::size_t end = std::min(piece.text.find(delimiter, at), piece.text.size());
      ranges.push_back({at, end, false});
      at = end + delimiter.size();
    }
    add_parts(piece, ranges, out);
  };
}

// Words, and runs of other characters which are no spaces.
PreTokenizer words_and_signs(const Config&) {
  return [](const Piece& piece, Texts&, std::vector<Piece>& out) {
    enum Kind { none, space, word, sign } last = none;
    std::vector<Range> ranges;
    for (std::size_t at = 0; at < piece.text.size();) {
      const Character c = character_at(piece.text, at);
      const Kind kind = is_word(c.code) ? word : is_space(c.code) ? space : sign;
      if (kind != space && kind == last) {
        ranges.back().end = at + c.size;
      } else if (kind != space) {
        ranges.push_back({at, at + c.size, false});
      }
      last = kind;
      at += c.size;
    }
    add_parts(piece, ranges, out);
  };
}

const std::map<std::string, PreTokenizer (*)(const Config&)>& pre_tokenizer_kinds() {
  static const std::map<std::string, PreTokenizer (*)(const Config&)> all = {
      {"BertPreTokenizer", bert_words},
      {"ByteLevel", byte_level},
      {"CharDelimiterSplit", at_delimiter},
      {"Digits", digits},
      {"Metaspace", metaspace},
      {"Punctuation", punctuation},
      {"Sequence", sequence_of},
      {"Split", split},
      {"Whitespace", words_and_signs},
      {"WhitespaceSplit", [](const Config&) { return at_spaces(); }},
  };
  return all;
}

}  // namespace

PreTokenizer read_pre_tokenizer(const Config& config) {
  const std::string type = config.text("type");
  const auto kind = pre_tokenizer_kinds().find(type);
  if (kind == pre_tokenizer_kinds().end()) {
    std::vector<std::string> names;
    for (const auto& [name, make] : pre_tokenizer_kinds()) names.push_back(name);
    config.fail_at("type", fmt::format("the pre-tokenizer `{}` is not supported", excerpt(type)),
                   did_you_mean(type, names));
  }
  return kind->second(config);
}

bool makes_bytes(const Config& config) {
  const std::string type = config.text("type");
  if (type == "ByteLevel") return true;
  if (type != "Sequence") return false;
  const std::vector<Config> steps = config.children("pretokenizers");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!makes_bytes(steps[i])) continue;
    if (i + 1 < steps.size()) steps[i].fail("`ByteLevel` must be the last pre-tokenizer");
    return true;
  }
  return false;
}

}  // namespace fk::text
