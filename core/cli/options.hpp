// SPDX-License-Identifier: Apache-2.0
// The options of a verb. Avoids the headers of CLI11, which compile slower than any verb.
#pragma once
#include <cstdint>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fk {

// A declared option. Cheap to copy. Valid while the program parses and runs.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  const Option& required() const;
  // Takes one value per occurrence; the next word is not a second value.
  const Option& one_at_a_time() const;
  // The value may be missing.
  const Option& value_optional() const;
  // Bad usage for other values. The range includes `from` and `to`.
  const Option& range(int64_t from, int64_t to) const;
  const Option& positive() const;
  const Option& non_negative() const;
  const Option& existing_folder() const;

  // True after parsing when the option was given.
  bool given() const;

 private:
  CLI::Option* option_;
};

class Options {
 public:
  explicit Options(CLI::App& app) : app_(app) {}

  // `name` begins with "--", or is the name of a positional argument. `value` is the default, and
  // outlives the parsing: a text, a path, a number or a list of texts (types: options.cpp).
  template <class Value>
  Option add_option(const std::string& name, Value& value, const std::string& help = "") const;
  // "!--name" sets the value to false.
  Option add_flag(const std::string& name, bool& value, const std::string& help) const;
  // Text below the list of options.
  void footer(const std::string& text) const;

 private:
  CLI::App& app_;
};

}  // namespace fk
