// SPDX-License-Identifier: Apache-2.0
// The options of a verb, without the headers of CLI11, which take longer to compile than any verb.
#pragma once
#include <cstdint>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fk {

// One option that was declared. Cheap to copy; valid as long as the program parses and runs.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  const Option& required() const;
  // One value each time that it is given: what follows is not taken for another one.
  const Option& one_at_a_time() const;
  // The value may be left out.
  const Option& value_optional() const;
  // Bad usage unless the value is that. `from` and `to` are among the good ones.
  const Option& range(int64_t from, int64_t to) const;
  const Option& positive() const;
  const Option& non_negative() const;
  const Option& existing_folder() const;

  // After parsing: it was given.
  bool given() const;

 private:
  CLI::Option* option_;
};

class Options {
 public:
  explicit Options(CLI::App& app) : app_(app) {}

  // `name` begins with "--", or it is that of a positional argument. `value` outlives the parsing
  // and is what holds where the option is not given: a text, a path, a number or a list of texts
  // (the types are listed in options.cpp).
  template <class Value>
  Option add_option(const std::string& name, Value& value, const std::string& help = "") const;
  // "!--name" makes it false.
  Option add_flag(const std::string& name, bool& value, const std::string& help) const;
  // Below the list of options.
  void footer(const std::string& text) const;

 private:
  CLI::App& app_;
};

}  // namespace fk
