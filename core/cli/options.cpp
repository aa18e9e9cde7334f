// SPDX-License-Identifier: Apache-2.0
#include "core/cli/options.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <type_traits>
#include <vector>

#include "core/base/text.hpp"

namespace fk {

namespace {

// A text that CLI11 would misread: -1 for an unsigned type, a number that is too large, and NaN,
// which passes range tests.
template <class Number>
std::string odd_number(const std::string& text) {
  const char* const all = text.data() + text.size();
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  Number value{};
  const auto [end, code] = std::from_chars(begin, all, value);
  bool good = code == std::errc{} && end == all;
  if constexpr (std::is_floating_point_v<Number>) good = good && std::isfinite(value);
  if (good) return {};
  if (code == std::errc::result_out_of_range) return excerpt(text) + " is too large a number";
  return excerpt(text) + (std::is_floating_point_v<Number> ? " is no number"
                          : std::is_unsigned_v<Number>     ? " is no whole number from 0 on"
                                                           : " is no whole number");
}

// Numbers from 0 on; with `open` above 0. CLI11's own checks print the largest double, which has
// 309 digits.
CLI::Validator from_zero(bool open, const std::string& name) {
  const auto problem = [open](const std::string& text) {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && (open ? value > 0 : value >= 0);
    return good ? std::string() : excerpt(text) + (open ? " is not above 0" : " is below 0");
  };
  return CLI::Validator(problem, name);
}

}  // namespace

const Option& Option::required() const {
  option_->required();
  return *this;
}

const Option& Option::one_at_a_time() const {
  option_->allow_extra_args(false);
  return *this;
}

const Option& Option::value_optional() const {
  option_->expected(0, 1);
  return *this;
}

const Option& Option::range(int64_t from, int64_t to) const {
  option_->check(CLI::Range(from, to));
  return *this;
}

const Option& Option::positive() const {
  option_->check(from_zero(/*open=*/true, "POSITIVE"));
  return *this;
}

const Option& Option::non_negative() const {
  option_->check(from_zero(/*open=*/false, "NONNEGATIVE"));
  return *this;
}

const Option& Option::existing_folder() const {
  option_->check(CLI::ExistingDirectory);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

template <class Value>
Option Options::add_option(const std::string& name, Value& value, const std::string& help) const {
  CLI::Option* const option = app_.add_option(name, value, help);
  if constexpr (std::is_arithmetic_v<Value>)
    option->check([](const std::string& text) { return odd_number<Value>(text); }, "");
  return Option(option);
}

template Option Options::add_option(const std::string&, std::string&, const std::string&) const;
template Option Options::add_option(const std::string&, std::filesystem::path&,
                                    const std::string&) const;
template Option Options::add_option(const std::string&, std::vector<std::string>&,
                                    const std::string&) const;
template Option Options::add_option(const std::string&, int&, const std::string&) const;
template Option Options::add_option(const std::string&, int64_t&, const std::string&) const;
template Option Options::add_option(const std::string&, uint64_t&, const std::string&) const;
template Option Options::add_option(const std::string&, double&, const std::string&) const;

Option Options::add_flag(const std::string& name, bool& value, const std::string& help) const {
  return Option(app_.add_flag(name, value, help));
}

void Options::footer(const std::string& text) const { app_.footer(text); }

}  // namespace fk
