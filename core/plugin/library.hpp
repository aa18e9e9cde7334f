// SPDX-License-Identifier: Apache-2.0
// A loaded plugin. Only worker processes load plugins.
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

// The hello for a plugin's entry, of this host or of a host with another minor version.
fk_hello hello_of(fk_error& error, uint32_t minor = FK_ABI_MINOR);

// The copy of a plugin for loading; its name contains the content hash. The loader would return old
// code for a known path. A path of a copy is returned unchanged. Error when the file does not
// exist.
std::filesystem::path loadable_copy(const std::filesystem::path& file);
// The beginning of the copy's name: the file's stem, shortened, in plain characters. Other
// characters are escaped in /proc, or are not UTF-8 for a message.
std::string stem_of_copy(const std::filesystem::path& file);

// All plugins loaded into this process. They stay mapped until the process ends by _exit: their
// kernels, threads or destructors may still run, so unloading could crash.
class Plugins {
 public:
  explicit Plugins(const Catalog& catalog) : catalog_(catalog) {}
  // Loads `copy`, or loadable_copy(file), with NOW and LOCAL, through Boost.DLL. Throws Error for
  // the loader's message, an unknown ABI, or a table with null members. Ops that do not match are
  // kept in refused().
  void load(const std::filesystem::path& file, Trust trust, const std::filesystem::path& copy = {});
  // Providers of an op, in load order.
  const std::vector<const Provider*>& of(const std::string& op) const;
  struct Refused {
    std::string plugin, op, why;
  };
  const std::vector<Refused>& refused() const { return refused_; }
  std::vector<std::string> plugin_names() const;
  // The entry of a loaded plugin, by the plugin's name.
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
