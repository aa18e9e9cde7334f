// SPDX-License-Identifier: Apache-2.0
#include "core/cli/options.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <vector>

namespace fk {

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
  option_->check(CLI::PositiveNumber);
  return *this;
}

const Option& Option::non_negative() const {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

const Option& Option::existing_folder() const {
  option_->check(CLI::ExistingDirectory);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

template <class Value>
Option Options::add_option(const std::string& name, Value& value, const std::string& help) const {
  return Option(app_.add_option(name, value, help));
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
