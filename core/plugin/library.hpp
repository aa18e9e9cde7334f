// SPDX-License-Identifier: Apache-2.0
// A loaded plugin. Loading is for runner processes only.
#pragma once
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/contract/identity.hpp"
#include "core/plugin/notes.hpp"
#include "fk/plugin.h"

namespace fk {

// One op of one loaded plugin that matches this host's contract.
struct Provider {
  std::string plugin;  // the plugin's name, as in reports
  Trust trust = Trust::baseline;
  const fk_op* op = nullptr;
  const Contract* contract = nullptr;
  Match match;
  std::filesystem::path path;
};

// What a plugin's entry is told of this host, or of one of another minor.
fk_hello hello_of(fk_error& error, uint32_t minor = FK_ABI_MINOR);

// The copy of a plugin that is loaded, under a name with its content hash: for a path that it has
// seen the loader would give back the old code. Of a copy, itself. Everybody may read it. Error
// when there is no such file.
std::filesystem::path loadable_copy(const std::filesystem::path& file);
// The beginning of that name: the file's without its ending, as far as it is short and plain. What
// else a name may hold is not what /proc says of it, or is no UTF-8 for a message.
std::string stem_of_copy(const std::filesystem::path& file);

// Everything that is loaded into this process. Plugins stay mapped until the process ends by _exit:
// unloading code whose kernels, threads or destructors may still run is not survivable.
class Plugins {
 public:
  explicit Plugins(const Catalog& catalog) : catalog_(catalog) {}
  // Loads `copy`, or else loadable_copy(file), NOW and LOCAL, through Boost.DLL. Throws Error: what
  // the loader said, an ABI the host does not speak, a table with null members. Ops that do not
  // match are kept in refused().
  void load(const std::filesystem::path& file, Trust trust, const std::filesystem::path& copy = {});
  // Providers of an op, in the order in which they were loaded.
  const std::vector<const Provider*>& of(const std::string& op) const;
  struct Refused {
    std::string plugin, op, why;
  };
  const std::vector<Refused>& refused() const { return refused_; }
  std::vector<std::string> plugin_names() const;
  // Of a plugin that was loaded, by its name.
  fk_plugin_entry entry(const std::string& plugin) const { return entries_.at(plugin); }
  const Catalog& catalog() const { return catalog_; }

 private:
  const Catalog& catalog_;
  std::deque<Provider> providers_;
  std::map<std::string, std::vector<const Provider*>> by_op_;
  std::vector<Refused> refused_;
  std::vector<std::string> names_;
  std::map<std::string, fk_plugin_entry> entries_;
};

}  // namespace fk
