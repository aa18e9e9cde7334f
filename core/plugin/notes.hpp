// SPDX-License-Identifier: Apache-2.0
// What a plugin says about itself without being run: its ELF notes, and the lint of its ELF
// structure. Whoever judges a plugin reads only this and never maps the plugin's code.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"

namespace fk {

struct OpNote {
  std::string op;
  uint32_t revision = 0;
  std::array<uint32_t, kSections> slots{};
  std::array<uint64_t, kSections> hash{};
};

struct PluginNote {
  std::filesystem::path path;
  std::string hash;  // of the file's content where the reader fills it in: it takes long
  std::string name, version, compiler, sm, build;
  uint32_t abi_major = 0, abi_minor = 0;
  std::vector<OpNote> ops;
};

// Reads the notes of an ELF file, bounds-checked. Throws Error if it is not a 64-bit little-endian
// x86-64 or AArch64 shared object, has no fk note, or is of another ABI major, and says which.
PluginNote read_notes(const std::filesystem::path& file);

// Compares a note with this host's contract: empty, or one sentence why the op cannot be used. A
// note has only the hash over all slots, so a plugin with fewer or more optional slots than the
// host passes here and is matched in full after loading.
std::string note_mismatch(const OpNote& note, const Catalog& catalog);

// Who wrote a plugin decides what it may link: a baseline may use libraries, a candidate only
// libc's, libstdc++ and the CUDA runtime.
enum class Trust { baseline, candidate };
struct Finding {
  bool fatal;
  std::string rule, text;
};
// One exported symbol, no UNIQUE or weak exports, no static TLS, allowed NEEDED entries, no
// TEXTREL, no RPATH, BIND_NOW. Executes nothing.
std::vector<Finding> lint(const std::filesystem::path& file, Trust trust);
// The first of its fatal findings, as "rule: text", also where the file cannot be read; empty where
// there is none.
std::string broken_rule(const std::filesystem::path& file, Trust trust);
// Those of the libraries that it needs which a candidate may link.
std::vector<std::string> legal_libraries(const std::filesystem::path& file);

// A file that was found where plugins are looked for.
struct FoundPlugin {
  std::filesystem::path path;
  Trust trust = Trust::baseline;
  PluginNote note;    // when error is empty
  std::string error;  // why it is not a usable plugin
};
// All *.so below build/plugins and FK_PLUGIN_PATH (baselines) and, where they are wanted,
// candidates/ (candidates), by name.
std::vector<FoundPlugin> discover(bool candidates = true);

}  // namespace fk
