// SPDX-License-Identifier: Apache-2.0

#include "core/text/regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <utility>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk::text {
namespace {

constexpr std::size_t kExpressionMax = 64 * 1024;
constexpr uint32_t kDepthMax = 200;
constexpr uint32_t kStepsMax = 50'000'000;
constexpr std::size_t kStackBytes = std::size_t{64} << 20;

// White_Space as ranges. PCRE2's \s also has U+180E, which Oniguruma's \s lacks.
constexpr const char* kSpaces =
    "\\x09-\\x0D\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"
    "\\x{3000}";

// From Oniguruma's words to PCRE2's. Both agree on nearly all; the rest is replaced or refused.
class Translation {
 public:
  Translation(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  std::string run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\') {
        escape();
      } else if (c == '[') {
        open_class();
      } else if (c == ']' && classes_ > 0) {
        --classes_;
        take(1);
      } else if (c == '&' && classes_ > 0 && text_.substr(at_, 2) == "&&") {
        refuse("an intersection of classes (`&&`)");
      } else if (c == '(' && classes_ == 0) {
        group();
      } else if (c == '}' && classes_ == 0) {
        interval();
      } else {
        take(1);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(where_, fmt::format("the expression `{}` has {}, which is not supported",
                             excerpt(text_, 100), what));
  }

  void take(std::size_t count) {
    out_ += text_.substr(at_, count);
    at_ += count;
  }

  void escape() {
    const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (next == 's' || next == 'S') {
      if (classes_ > 0 && next == 'S') refuse("`\\S` inside a class");
      out_ += classes_ > 0 ? std::string(kSpaces)
                           : fmt::format("[{}{}]", next == 'S' ? "^" : "", kSpaces);
      at_ += 2;
    } else if (next == 'h' || next == 'H') {
      out_ += next == 'h' ? (classes_ > 0 ? "0-9A-Fa-f" : "[0-9A-Fa-f]") : "[^0-9A-Fa-f]";
      if (classes_ > 0 && next == 'H') refuse("`\\H` inside a class");
      at_ += 2;
    } else if (next != '\0' && std::string_view("RXKGgkyYOCMN").find(next) != std::string::npos) {
      refuse(fmt::format("`\\{}`", next));
    } else {
      take(2);
    }
  }

  void open_class() {
    if (text_.substr(at_, 2) == "[:" && classes_ > 0) {  // [[:alpha:]]
      const std::size_t end = text_.find(":]", at_);
      if (end == std::string_view::npos) refuse("an open `[:`");
      take(end + 2 - at_);
      return;
    }
    if (classes_ > 0) refuse("a class inside a class");
    ++classes_;
    take(1);
    if (at_ < text_.size() && text_[at_] == '^') take(1);
    if (at_ < text_.size() && text_[at_] == ']') take(1);
  }

  // Options of Ruby's syntax: `m` lets a point match a line's end.
  void group() {
    if (text_.substr(at_, 2) != "(?") return take(1);
    std::size_t end = at_ + 2;
    while (end < text_.size() && std::string_view("imx-").find(text_[end]) != std::string::npos) {
      ++end;
    }
    std::string options(text_.substr(at_, end - at_));
    for (char& c : options) c = c == 'm' ? 's' : c;
    out_ += options;
    at_ = end;
  }

  // `{1,3}+` repeats an interval for Oniguruma and is possessive for PCRE2.
  void interval() {
    take(1);
    const std::size_t open = text_.rfind('{', at_ - 1);
    const bool escaped = open != std::string_view::npos && open > 0 &&
                         std::string_view("pPx").find(text_[open - 1]) != std::string::npos;
    if (!escaped && at_ < text_.size() && text_[at_] == '+') refuse("`}+`");
  }

  std::string_view text_;
  const std::string& where_;
  std::string out_;
  std::size_t at_ = 0;
  int classes_ = 0;
};

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// Memory of a thread for matches.
struct Scratch {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, kStackBytes, nullptr);

  Scratch() {
    FK_CHECK(data != nullptr && context != nullptr && stack != nullptr, "no memory for a search");
    pcre2_set_match_limit(context, kStepsMax);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
};

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  std::string where;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view expression, std::string where) {
  if (expression.size() > kExpressionMax) {
    fail(where,
         fmt::format("the expression has {} bytes, at most {}", expression.size(), kExpressionMax));
  }
  const std::string text = Translation(expression, where).run();
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  FK_CHECK(context != nullptr, "no memory for an expression");
  pcre2_set_parens_nest_limit(context.get(), kDepthMax);
  int error = 0;
  PCRE2_SIZE at = 0;
  const auto code = std::make_shared<Code>();
  code->where = where;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &error, &at, context.get());
  if (code->code == nullptr) {
    fail(where, fmt::format("the expression `{}` is not valid: {}", excerpt(expression, 100),
                            message_of(error)));
  }
  // Where the processor has no JIT, the interpreter finds the same matches.
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
  code_ = code;
}

bool Regex::find(std::string_view utf8, std::size_t from, Match& match) const {
  thread_local Scratch scratch;
  const int count = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(utf8.data()), utf8.size(),
                                from, PCRE2_NO_UTF_CHECK, scratch.data, scratch.context);
  if (count == PCRE2_ERROR_NOMATCH) return false;
  if (count < 0) {
    fail(code_->where, "the expression cannot be searched in this text: " + message_of(count));
  }
  const PCRE2_SIZE* place = pcre2_get_ovector_pointer(scratch.data);
  match = {place[0], place[1]};
  return true;
}

}  // namespace fk::text
