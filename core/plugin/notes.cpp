// SPDX-License-Identifier: Apache-2.0
// Reads the fk notes of a plugin's file: its name, its ops, and the hashes of their contracts. The
// input is untrusted: sizes and texts are checked before use.
#include "core/plugin/notes.hpp"

#include <cctype>
#include <cstring>
#include <optional>
#include <set>

#include "core/base/elf.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/plugin/abi_major.hpp"
#include "fk/plugin.h"

namespace fk {

namespace {

using RawNote = Elf::Note;

template <size_t N>
std::string field(const Elf& elf, const char (&text)[N], const char* what) {
  const size_t n = strnlen(text, N);
  if (n == N) elf.fail(std::string("has garbled notes: its ") + what + " has no end");
  for (size_t i = 0; i < n; ++i) {
    if (static_cast<unsigned char>(text[i]) < 0x20 || static_cast<unsigned char>(text[i]) > 0x7e)
      elf.fail(std::string("has garbled notes: its ") + what + " is `" + excerpt({text, n}) + "`");
  }
  return {text, n};
}

bool is_name(const std::string& text) {
  for (const char c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("_-.+", c)) return false;
  return !text.empty() && text[0] != '.';
}

// Copies a note's description into the struct that has header and description. The header has 16
// bytes: an Elf64_Nhdr and the owner. A later minor may append to a note.
template <class T>
T whole(const Elf& elf, const RawNote& raw, const char* what) {
  T note{};
  if (raw.desc.size() < sizeof(T) - 16) {
    elf.fail(std::string("has garbled notes: the ") + what + " note has " +
             std::to_string(raw.desc.size()) + " bytes instead of " +
             std::to_string(sizeof(T) - 16));
  }
  std::memcpy(reinterpret_cast<std::byte*>(&note) + 16, raw.desc.data(), sizeof(T) - 16);
  return note;
}

void read_plugin(const Elf& elf, const RawNote& raw, PluginNote& out) {
  const std::optional<uint32_t> major = major_of_note(raw);
  if (!major) elf.fail("has garbled notes: the plugin note names no ABI");
  std::string spoken;
  bool loaded = false;
  for (uint32_t known = kOldestAbiMajor; known <= FK_ABI_MAJOR; ++known) {
    loaded |= *major == known;
    spoken += (spoken.empty() ? "v" : " and v") + std::to_string(known);
  }
  if (!loaded)
    elf.fail("was built for " + entry_symbol(*major) + ", this host speaks " + spoken,
             "rebuild it with this host's headers");
  const auto note = whole<fk_note_plugin>(elf, raw, "plugin");
  out.abi_major = note.abi_major;
  out.abi_minor = note.abi_minor;
  out.name = field(elf, note.name, "name");
  out.version = field(elf, note.version, "version");
  out.compiler = field(elf, note.compiler, "compiler");
  out.sm = field(elf, note.sm, "list of compute capabilities");
  out.build = field(elf, note.build, "build id");
  if (!is_name(out.name))
    elf.fail("has garbled notes: `" + excerpt(out.name) + "` is no name of a plugin",
             "letters, digits and _ - . + make a name");
}

OpNote read_op(const Elf& elf, const RawNote& raw) {
  const auto note = whole<fk_note_op>(elf, raw, "op");
  OpNote out;
  out.op = field(elf, note.op, "op name");
  if (!is_name(out.op))
    elf.fail("has garbled notes: `" + excerpt(out.op) + "` is no name of an op");
  out.revision = note.revision;
  for (size_t i = 0; i < kSections; ++i) {
    out.slots[i] = note.slots[i];
    out.hash[i] = note.hash[i][0] | uint64_t{note.hash[i][1]} << 32;
  }
  return out;
}

}  // namespace

// Every version of the plugin's note begins with the major, so any size will do.
std::optional<uint32_t> major_of_note(const Elf::Note& raw) {
  uint32_t major = 0;
  if (raw.type != FK_NOTE_PLUGIN || raw.desc.size() < sizeof major) return std::nullopt;
  std::memcpy(&major, raw.desc.data(), sizeof major);
  return major;
}

PluginNote read_notes(const std::filesystem::path& file) {
  const Elf elf(file);
  const auto raw = elf.notes();
  if (raw.empty()) {
    elf.fail("is not an fk plugin: no .note.fk",
             "a plugin has one FK_PLUGIN(name, version) and is linked with -shared");
  }
  PluginNote out;
  out.path = file;
  bool named = false;
  for (const auto& note : raw) {
    if (note.type != FK_NOTE_PLUGIN) continue;
    if (named) elf.fail("has garbled notes: two FK_PLUGIN in one file");
    read_plugin(elf, note, out);
    named = true;
  }
  if (!named)
    elf.fail("has ops, but no FK_PLUGIN(name, version)", "add it once, at the end of a source");
  std::set<std::string> once;
  for (const auto& note : raw) {
    if (note.type != FK_NOTE_OP) continue;
    out.ops.push_back(read_op(elf, note));
    // An op's second note would make its cases be judged twice.
    if (const std::string& op = out.ops.back().op; !once.insert(op).second)
      elf.fail("has two notes of the op `" + op + "`",
               "an op is registered once: one FK_OP(" + op + ", ...)");
  }
  if (out.ops.empty()) elf.fail("has no ops", "add FK_OP(op, Class) to a source");
  return out;
}

std::string wrong_entry(const std::vector<uint32_t>& exported, uint32_t noted) {
  if (exported.empty()) return "does not export the function " + entry_symbol(noted);
  if (exported.size() > 1)
    return "exports " + entry_symbol(exported[0]) + " and " + entry_symbol(exported[1]) +
           "; a plugin has one entry";
  if (exported[0] == noted) return "";
  return "exports " + entry_symbol(exported[0]) + ", but its note is of ABI v" +
         std::to_string(noted) + "; build it again with the headers of one version";
}

std::string note_mismatch(const OpNote& note, const Catalog& catalog) {
  const Contract* contract = catalog.find(note.op);
  if (!contract) {
    const std::string hint = did_you_mean(note.op, catalog.ops());
    return note.op + ": the registry has no contract for it" +
           (hint.empty() ? "" : " (" + hint + ")");
  }
  const std::string id = note.op + "@" + std::to_string(contract->revision) + ": ";
  if (note.revision != contract->revision) {
    return id + "the plugin was built for revision " + std::to_string(note.revision) +
           ", this host has revision " + std::to_string(contract->revision);
  }
  for (size_t i = 0; i < kSections; ++i) {
    const auto& prefix = contract->prefix[i];
    const auto section = static_cast<SectionId>(i);
    const auto required = static_cast<uint32_t>(contract->required_slots(section));
    if (note.slots[i] < required) {
      return id + "this host requires the " + section_name(section) + " slot `" +
             contract->section(section)[required - 1].name + "`, which the plugin does not have";
    }
    if (note.slots[i] < prefix.size() && prefix[note.slots[i]] != note.hash[i]) {
      return id + "its " + section_name(section) +
             " slots are not those of this host; rebuild the plugin against this host's fk/ops/" +
             note.op + ".h";
    }
  }
  return "";
}

}  // namespace fk
