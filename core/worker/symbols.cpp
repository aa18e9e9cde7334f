// SPDX-License-Identifier: Apache-2.0
// Looks for each address in the symbol table of the plugin's file. The file and the text are a
// candidate's, so all sizes are bounded.
#include "core/worker/symbols.hpp"

#include <cxxabi.h>
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/base/elf.hpp"
#include "core/plugin/library.hpp"

namespace fk {

namespace {

constexpr uint64_t kSectionsMax = 4096, kTableBytesMax = 64 << 20;

// Most addresses that get a name. Each one is searched in all functions.
constexpr int kNamesMost = 64;

struct Function {
  uint64_t begin, end;
  uint64_t name;  // offset of the name in the file
};

template <class T>
std::vector<T> table(const Elf& elf, uint64_t offset, uint64_t bytes) {
  const auto raw = elf.read(offset, bytes / sizeof(T) * sizeof(T));
  std::vector<T> entries(raw.size() / sizeof(T));
  if (!raw.empty()) std::memcpy(entries.data(), raw.data(), raw.size());
  return entries;
}

// A mangled name may refer back to its earlier parts. Each part may repeat the previous part twice,
// so 300 characters can stand for 2^30.
bool may_be_endless(const std::string& name) {
  constexpr int kMost = 24;
  int back = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] != 'S' && name[i] != 'T') continue;
    const size_t end = name.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", i + 1);
    back += end != std::string::npos && name[end] == '_';
  }
  return back > kMost;
}

std::string readable(const std::string& name) {
  if (may_be_endless(name)) return excerpt(name, 120);
  int status = -1;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 ? text : name;
  std::free(text);
  return excerpt(out, 120);
}

// Elf checks every offset that it reads.
std::vector<Function> functions_of(const std::filesystem::path& file) {
  const Elf elf(file);
  const auto header = table<Elf64_Ehdr>(elf, 0, sizeof(Elf64_Ehdr)).at(0);
  std::vector<Function> functions;
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum > kSectionsMax) return functions;
  const auto sections = table<Elf64_Shdr>(elf, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr));
  for (const auto& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const auto& strings = sections[section.sh_link];
    if (section.sh_size > kTableBytesMax) continue;
    for (const auto& symbol : table<Elf64_Sym>(elf, section.sh_offset, section.sh_size)) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_size == 0) continue;
      if (symbol.st_name >= strings.sh_size) continue;
      functions.push_back(
          {symbol.st_value, symbol.st_value + symbol.st_size, strings.sh_offset + symbol.st_name});
    }
  }
  return functions;
}

}  // namespace

std::string with_symbols(const std::string& text, const std::filesystem::path& file) {
  try {
    // Parsed by hand: a plugin's text may be long and odd, and std::regex recurses per character.
    constexpr std::string_view kMark = ".so+0x";
    const std::string stem = stem_of_copy(file);
    std::vector<Function> functions;
    bool read = false;
    int names = 0;
    std::string out;
    size_t at = 0;
    for (size_t mark; (mark = text.find(kMark, at)) != std::string::npos;) {
      const size_t digits = mark + kMark.size();
      const size_t end = std::min(text.find_first_not_of("0123456789abcdef", digits), text.size());
      out.append(text, at, end - at);
      at = end;
      const size_t space = text.find_last_of(" \n", mark);
      const size_t begin = space == std::string::npos ? 0 : space + 1;
      const bool ours = text.compare(begin, stem.size(), stem) == 0 &&
                        text.find_first_not_of("0123456789abcdef-", begin + stem.size()) == mark;
      if (!ours || end == digits || end - digits > 16 || ++names > kNamesMost) continue;
      if (!read) functions = functions_of(file);
      read = true;
      // A return address may be the first byte after a function that ends in a call.
      const uint64_t address = std::strtoull(text.c_str() + digits, nullptr, 16) - 1;
      for (const auto& f : functions) {
        if (address < f.begin || address >= f.end) continue;
        out += " " + readable(Elf(file).text(f.name));
        break;
      }
    }
    return out.append(text, at);
  } catch (const std::exception&) {
    return text;  // only an optional help
  }
}

}  // namespace fk
