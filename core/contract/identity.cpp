// SPDX-License-Identifier: Apache-2.0
// The identity of a contract: a line for each slot, chained hashes (FNV-1a) of the lines, and the
// comparison with a plugin's contract. The line format is part of the ABI: a change would change
// every hash.
#include "core/contract/identity.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr const char* kKindNames[] = {"tensor", "int",   "float", "bool",
                                      "enum",   "dtype", "ints",  "comm"};
constexpr const char* kRoleNames[] = {"in", "out", "inout"};

uint64_t fnv1a(uint64_t hash, const std::string& text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

std::string number_text(double value) {
  char buffer[32];
  snprintf(buffer, sizeof buffer, "%.17g", value);
  return buffer;
}

std::string default_text(const Slot& slot) {
  return slot.kind == SlotKind::number ? number_text(slot.default_value.f)
                                       : std::to_string(slot.default_value.i);
}

const fk_section& section_of(const fk_contract& contract, int i) {
  const fk_section* sections[] = {&contract.init, &contract.weights, &contract.forward,
                                  &contract.plan};
  return *sections[i];
}

}  // namespace

std::string slot_line(const Slot& slot) {
  std::string line = std::string(section_name(slot.section)) + "." + slot.name + " " +
                     kKindNames[static_cast<int>(slot.kind)];
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) line += std::string(" ") + key + "=" + value;
  };
  if (slot.is_tensor()) {
    line += std::string(" ") + kRoleNames[static_cast<int>(slot.role)];
    std::vector<std::string> dims;
    for (const auto& dim : slot.shape) dims.push_back(dim.text());
    line += " shape=[" + join(dims, ",") + "]";
    if (slot.strided) line += " strided";
    add("writes", slot.writes);
    add("count", slot.count);
  }
  add("list", slot.list);
  add("axis", slot.axis);
  if (slot.capture) line += " capture";
  if (!slot.required()) line += " opt";
  add("group", slot.group);
  line += " |";
  add("enum", join(slot.choices, ","));
  if (slot.has_default) add("default", default_text(slot));
  std::vector<std::string> types;
  for (const DType t : slot.dtypes) types.emplace_back(name(t));
  add("dtype", slot.dtype_of.empty() ? join(types, ",") : slot.dtype_of);
  if (slot.since > 1) add("since", std::to_string(slot.since));
  return line;
}

Slot parse_line(const std::string& line) {
  Slot slot{};
  slot.line = line;
  const auto words = split(line, ' ');
  const auto dot = words.empty() ? std::string::npos : words[0].find('.');
  if (words.size() < 2 || dot == std::string::npos)
    fail("contract line", "`" + line + "` is not a slot");
  for (int i = 0; i < kSections; ++i) {
    if (words[0].substr(0, dot) == section_name(static_cast<SectionId>(i)))
      slot.section = static_cast<SectionId>(i);
  }
  slot.name = words[0].substr(dot + 1);
  for (int i = 0; i < 8; ++i)
    if (words[1] == kKindNames[i]) slot.kind = static_cast<SlotKind>(i);
  for (size_t i = 2; i < words.size(); ++i) {
    const auto eq = words[i].find('=');
    const std::string key = words[i].substr(0, eq),
                      value = eq == std::string::npos ? "" : words[i].substr(eq + 1);
    if (key == "opt") slot.optional = true;
    if (key == "enum") slot.choices = split(value, ',');
    if (key == "default") {
      slot.has_default = true;
      if (slot.kind == SlotKind::number)
        slot.default_value.f = std::strtod(value.c_str(), nullptr);
      else
        slot.default_value.i = std::strtoll(value.c_str(), nullptr, 10);
    }
  }
  return slot;
}

void seal(Contract& c) {
  for (int i = 0; i < kSections; ++i) {
    auto& prefix = c.prefix[static_cast<size_t>(i)];
    const std::string seed = c.op + "@" + std::to_string(c.revision) + " " +
                             section_name(static_cast<SectionId>(i)) + "\n";
    prefix = {fnv1a(0xcbf29ce484222325ULL, seed)};
    for (const auto& slot : c.sections[static_cast<size_t>(i)])
      prefix.push_back(fnv1a(prefix.back(), slot.hashed() + "\n"));
  }
}

namespace {

// Compares one section and fills m. Returns an empty string, or the difference in words.
std::string match_section(const Contract& host, const fk_section& plugin, int i, Match& m) {
  const auto at = static_cast<size_t>(i);
  const auto& slots = host.sections[at];
  const auto& prefix = host.prefix[at];
  const auto known = static_cast<uint32_t>(slots.size());
  const uint32_t common = std::min(plugin.slots, known);
  const std::string section = section_name(static_cast<SectionId>(i));
  m.slots[at] = plugin.slots;
  if (plugin.prefix[common] != prefix[common]) {
    uint32_t j = 0;
    while (j < common && plugin.prefix[j + 1] == prefix[j + 1]) ++j;
    const std::string theirs = j < plugin.slots ? parse_line(plugin.lines[j]).hashed() : "nothing";
    const std::string ours = j < known ? slots[j].hashed() : "nothing";
    return section + " slot " + std::to_string(j) + " is `" + theirs + "` in the plugin and `" +
           ours + "` in this host; rebuild the plugin against this host's fk/ops/" + host.op + ".h";
  }
  for (uint32_t j = 0; j < plugin.slots; ++j) {
    const Slot theirs = parse_line(plugin.lines[j]);
    m.choices[at].push_back(theirs.choices.size());
    if (j >= known) {
      if (theirs.required()) {
        return "the plugin needs the " + section + " slot `" + theirs.name +
               "`, which this host does not have";
      }
      m.tail[at].push_back(theirs);
      continue;
    }
    const auto& ours = slots[j].choices;
    for (size_t k = 0; k < std::min(ours.size(), theirs.choices.size()); ++k) {
      if (ours[k] == theirs.choices[k]) continue;
      return section + " slot `" + theirs.name + "`: value " + std::to_string(k) + " is `" +
             theirs.choices[k] + "` in the plugin and `" + ours[k] + "` in this host";
    }
  }
  for (uint32_t j = plugin.slots; j < known; ++j) {
    if (slots[j].required()) {
      return "this host requires the " + section + " slot `" + slots[j].name +
             "`, which the plugin does not have";
    }
  }
  return "";
}

}  // namespace

Match match(const Contract& host, const fk_contract& plugin) {
  Match m;
  const std::string id = host.op + "@" + std::to_string(host.revision) + ": ";
  if (plugin.revision != host.revision) {
    m.why = id + "the plugin was built for revision " + std::to_string(plugin.revision) +
            ", this host has revision " + std::to_string(host.revision);
    return m;
  }
  for (int i = 0; i < kSections; ++i) {
    const std::string why = match_section(host, section_of(plugin, i), i, m);
    if (!why.empty()) {
      m.why = id + why;
      return m;
    }
  }
  m.ok = true;
  return m;
}

std::string fit(const Contract& host, const Match& m, SectionId section,
                const std::vector<fk_slot>& frame, std::vector<fk_slot>& out) {
  const auto at = static_cast<size_t>(section);
  const auto& slots = host.sections[at];
  out = frame;
  for (size_t j = m.slots[at]; j < frame.size(); ++j) {
    if (frame[j].i != slots[j].default_value.i) {
      return host.op + ": this call uses " + section_name(section) + "." + slots[j].name +
             ", which is newer than the plugin";
    }
  }
  for (size_t j = 0; j < std::min(frame.size(), m.choices[at].size()); ++j) {
    const size_t known = m.choices[at][j];
    if (known && slots[j].kind == SlotKind::choice && static_cast<size_t>(frame[j].i) >= known) {
      return host.op + ": " + slots[j].name + "=" +
             slots[j].choices[static_cast<size_t>(frame[j].i)] + " is newer than the plugin";
    }
  }
  out.resize(std::min(frame.size(), static_cast<size_t>(m.slots[at])));
  for (const auto& slot : m.tail[at]) out.push_back(slot.default_value);
  return "";
}

}  // namespace fk
