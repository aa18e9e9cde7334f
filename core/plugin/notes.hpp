// SPDX-License-Identifier: Apache-2.0
// A plugin's description without running it: its ELF notes, and the lint of its ELF structure. The
// judging process reads only this and never maps the plugin's code.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/elf.hpp"
#include "core/contract/contract.hpp"

namespace fk {

struct OpNote {
  std::string op;
  uint32_t revision = 0;
  std::array<uint32_t, kSections> slots{};  // number of slots, by section
  std::array<uint64_t, kSections> hash{};   // over all slots of a section
};

struct PluginNote {
  std::filesystem::path path;
  std::string hash;  // of the file's content; slow, so some readers leave it empty
  std::string name, version, compiler, sm, build;
  uint32_t abi_major = 0, abi_minor = 0;
  std::vector<OpNote> ops;
};

// Reads the notes of an ELF file, bounds-checked. Error with the reason unless it is a 64-bit
// little-endian x86-64 or AArch64 shared object. Error too without an fk note of a major that this
// host loads.
PluginNote read_notes(const std::filesystem::path& file);

// Compares a note with this host's contract: empty, or one sentence with the reason why the op is
// unusable. A note has only the hash over all slots. So a plugin with fewer or more optional slots
// passes here, and is matched in full after loading.
std::string note_mismatch(const OpNote& note, const Catalog& catalog);

// The origin of a plugin decides its allowed libraries. A baseline may use any but a few. A
// candidate may use only libc's libraries, libstdc++, libgcc, libgomp and the CUDA runtime.
enum class Trust { baseline, candidate };
struct Finding {
  bool fatal;  // true: the plugin is refused
  std::string rule, text;
};
// Rules: one exported symbol, no UNIQUE or weak exports, no static TLS, only allowed NEEDED
// entries, no TEXTREL, no RPATH, BIND_NOW. Executes nothing.
std::vector<Finding> lint(const std::filesystem::path& file, Trust trust);
// The ABI major of the note of FK_PLUGIN; none for another note.
std::optional<uint32_t> major_of_note(const Elf::Note& note);
// Why the majors of the exported entries do not fit the note's major; empty: one entry, of this
// major.
std::string wrong_entry(const std::vector<uint32_t>& exported, uint32_t noted);
// The first fatal finding, as "rule: text", or the reason why the file cannot be read; empty: none.
std::string broken_rule(const std::filesystem::path& file, Trust trust);
// The needed libraries that a candidate may link.
std::vector<std::string> legal_libraries(const std::filesystem::path& file);

// A file found in a plugin folder.
struct FoundPlugin {
  std::filesystem::path path;
  Trust trust = Trust::baseline;
  bool own = false;   // the host's own provider, and not a baseline of FK_PLUGIN_PATH
  PluginNote note;    // when error is empty
  std::string error;  // why the plugin is unusable
};
// All *.so below build/plugins and FK_PLUGIN_PATH (baselines) and, if `candidates`, those of
// candidates/; by name. Only one baseline of a name is usable: the host's own, else the first of
// FK_PLUGIN_PATH.
std::vector<FoundPlugin> discover(bool candidates = true);

}  // namespace fk
