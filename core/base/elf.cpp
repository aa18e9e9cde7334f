// SPDX-License-Identifier: Apache-2.0
// Reads the same tables as the dynamic loader (program headers and the dynamic segment, never
// section headers). So a file cannot show one thing to the judge and another to the loader.
#include "core/base/elf.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr uint64_t kReadMax = uint64_t{1} << 28;  // above any header table
// Above any library: a file with larger claims costs neither time nor memory.
constexpr uint64_t kSymbolsMax = uint64_t{1} << 20, kNamesMax = uint64_t{1} << 26;
constexpr uint64_t kSegmentsMax = 256, kDynamicMax = 1024;
// The unit of segment maps. Files for larger pages are laid out for them.
constexpr uint64_t kFilePage = 4096;

#if defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
constexpr uint16_t kMachine = EM_X86_64;
#endif

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_386:
      return "32-bit x86";
    case EM_ARM:
      return "32-bit ARM";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC64:
      return "POWER";
    case EM_CUDA:
      return "CUDA device code";
    default:
      return "machine number " + std::to_string(machine);
  }
}

std::string type_name(uint16_t type) {
  switch (type) {
    case ET_REL:
      return "an object file";
    case ET_EXEC:
      return "a program";
    case ET_CORE:
      return "a core dump";
    default:
      return "of type " + std::to_string(type);
  }
}

}  // namespace

void Elf::fail(const std::string& what, const std::string& hint) const {
  fk::fail(where_, what, hint);
}

Elf::Elf(const std::filesystem::path& file) : where_(file.string()) {
  fd_ = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail("cannot be opened: " + errno_text());
  struct stat status {};
  if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd_);
    fail("is not a regular file");
  }
  file_bytes_ = static_cast<uint64_t>(status.st_size);
  try {
    if (status.st_size > kHashedBytesMax)
      fail("is larger than " + human_bytes(kHashedBytesMax) + ", which no plugin is");
    if (file_bytes_ < SELFMAG)
      fail("is not an ELF file: it has only " + human_bytes(status.st_size));
    const auto magic = read(0, SELFMAG);
    if (std::memcmp(magic.data(), ELFMAG, SELFMAG) != 0)
      fail("is not an ELF file: it starts with `" +
           excerpt({reinterpret_cast<const char*>(magic.data()), magic.size()}) + "`");
    const auto header = table<Elf64_Ehdr>(0, 1)[0];
    check_header(header);
    segments_ = table<Elf64_Phdr>(header.e_phoff, header.e_phnum);
    check_segments();
    read_dynamic();
    if (entry(DT_FLAGS_1) & DF_1_PIE)
      fail("is not a shared object but a program", "link it with -shared");
  } catch (...) {
    close(fd_);
    throw;
  }
}

Elf::~Elf() { close(fd_); }

void Elf::check_header(const Elf64_Ehdr& header) const {
  if (header.e_ident[EI_CLASS] != ELFCLASS64) fail("is not a 64-bit ELF file");
  if (header.e_ident[EI_DATA] != ELFDATA2LSB) fail("is not a little-endian ELF file");
  if (header.e_machine != kMachine) {
    fail("is for another architecture: " + machine_name(header.e_machine) + ", this host is " +
         machine_name(kMachine));
  }
  if (header.e_type != ET_DYN) {
    fail("is not a shared object but " + type_name(header.e_type), "link it with -shared");
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr))
    fail("is damaged: program headers of " + std::to_string(header.e_phentsize) + " bytes");
  if (header.e_phnum > kSegmentsMax)
    fail("is damaged: " + std::to_string(header.e_phnum) + " program headers");
}

void Elf::check_segments() const {
  uint64_t free = 0;  // the first address above the previous segments
  for (const auto& s : segments_) {
    if (s.p_type != PT_LOAD) continue;
    // The loader would map pages beyond the end of the file.
    if (s.p_offset > file_bytes_ || s.p_filesz > file_bytes_ - s.p_offset)
      fail("is truncated: a segment ends beyond its " + std::to_string(file_bytes_) + " bytes");
    // If two segments overlap, the loader's memory has the later one, in whole pages.
    if (s.p_vaddr / kFilePage * kFilePage < free || s.p_memsz < s.p_filesz ||
        s.p_memsz > UINT64_MAX - kFilePage - s.p_vaddr)
      fail("is damaged: segments that lie over each other, or out of order");
    free = (s.p_vaddr + s.p_memsz + kFilePage - 1) / kFilePage * kFilePage;
  }
}

std::vector<std::byte> Elf::read(uint64_t offset, uint64_t bytes) const {
  if (offset > file_bytes_ || bytes > file_bytes_ - offset) {
    fail("is truncated or damaged: " + std::to_string(bytes) + " bytes at offset " +
         std::to_string(offset) + " lie beyond its " + std::to_string(file_bytes_) + " bytes");
  }
  if (bytes > kReadMax) fail("is damaged: a header table of " + std::to_string(bytes) + " bytes");
  std::vector<std::byte> out(bytes);
  uint64_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        pread(fd_, out.data() + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot be read: " + errno_text());
    if (got == 0) fail("was truncated while it was read", "wait until the linker is done");
    done += static_cast<uint64_t>(got);
  }
  return out;
}

template <class T>
std::vector<T> Elf::table(uint64_t offset, uint64_t count) const {
  if (count > kReadMax / sizeof(T)) fail("is damaged: a table of " + std::to_string(count));
  const auto bytes = read(offset, count * sizeof(T));
  std::vector<T> out(count);
  if (count) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::string Elf::text(uint64_t offset) const {
  if (offset >= file_bytes_) fail("is damaged: a text at offset " + std::to_string(offset));
  const auto bytes = read(offset, std::min<uint64_t>(4096, file_bytes_ - offset));
  const auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
  if (end == bytes.end()) fail("is damaged: a text without end");
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(end - bytes.begin())};
}

uint64_t Elf::offset_of(uint64_t address) const {
  for (const auto& segment : segments_) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz)
      return segment.p_offset + (address - segment.p_vaddr);
  }
  fail("is damaged: address " + std::to_string(address) + " is in no segment");
}

// Finds the segment by its address, as the loader does. The loader takes the last of several
// entries or segments, and this reader the first, so only one is allowed.
void Elf::read_dynamic() {
  for (const auto& segment : segments_) {
    if (segment.p_type != PT_DYNAMIC || segment.p_filesz == 0) continue;
    if (!dynamic_.empty()) fail("is damaged: two dynamic segments");
    const uint64_t at = offset_of(segment.p_vaddr);
    if (offset_of(segment.p_vaddr + segment.p_filesz - 1) != at + segment.p_filesz - 1)
      fail("is damaged: a dynamic segment that is not in one piece");
    const uint64_t entries = segment.p_filesz / sizeof(Elf64_Dyn);
    if (entries > kDynamicMax) fail("is damaged: " + std::to_string(entries) + " dynamic entries");
    dynamic_ = table<Elf64_Dyn>(at, entries);
    const auto end = std::find_if(dynamic_.begin(), dynamic_.end(),
                                  [](const Elf64_Dyn& d) { return d.d_tag == DT_NULL; });
    if (end == dynamic_.end()) fail("is damaged: a dynamic segment without end");
    dynamic_.erase(end, dynamic_.end());
  }
  std::set<int64_t> once;
  for (const auto& d : dynamic_) {
    const bool listed = d.d_tag == DT_NEEDED || d.d_tag == DT_AUXILIARY || d.d_tag == DT_FILTER;
    if (!listed && !once.insert(d.d_tag).second)
      fail("is damaged: two dynamic entries with tag " + std::to_string(d.d_tag));
  }
}

uint64_t Elf::entry(int64_t tag, uint64_t otherwise) const {
  for (const auto& d : dynamic_)
    if (d.d_tag == tag) return d.d_un.d_val;
  return otherwise;
}

bool Elf::has(int64_t tag) const {
  return std::any_of(dynamic_.begin(), dynamic_.end(),
                     [&](const Elf64_Dyn& d) { return d.d_tag == tag; });
}

std::vector<std::string> Elf::entry_texts(int64_t tag) const {
  std::vector<std::string> out;
  if (!has(tag)) return out;
  const uint64_t texts = offset_of(entry(DT_STRTAB));
  for (const auto& d : dynamic_)
    if (d.d_tag == tag) out.push_back(text(texts + d.d_un.d_val));
  return out;
}

// The dynamic segment lacks the number of symbols. It comes from the hash table; of two tables,
// from the one that the loader uses.
uint64_t Elf::symbol_count() const {
  const bool gnu = has(DT_GNU_HASH);
  if (!gnu && !has(DT_HASH)) return 0;
  const uint64_t count = gnu ? gnu_symbol_count(offset_of(entry(DT_GNU_HASH)))
                             : table<uint32_t>(offset_of(entry(DT_HASH)), 2)[1];
  if (count > kSymbolsMax) fail("is damaged: " + std::to_string(count) + " symbols");
  return count;
}

uint64_t Elf::gnu_symbol_count(uint64_t base) const {
  const auto head = table<uint32_t>(base, 4);  // buckets, first symbol, bloom words, shift
  const uint64_t buckets_at = base + 16 + uint64_t{head[2]} * 8;
  const auto buckets = table<uint32_t>(buckets_at, head[0]);
  uint64_t last = 0;
  for (const uint32_t b : buckets) last = std::max<uint64_t>(last, b);
  if (last < head[1]) return head[1];
  const uint64_t chains_at = buckets_at + uint64_t{head[0]} * 4;
  for (; last < kSymbolsMax; ++last)
    if (table<uint32_t>(chains_at + (last - head[1]) * 4, 1)[0] & 1) break;
  return last + 1;
}

std::optional<Elf::Section> Elf::section(std::string_view name) const {
  const auto header = table<Elf64_Ehdr>(0, 1)[0];
  if (header.e_shoff == 0 || header.e_shnum == 0 || header.e_shstrndx >= header.e_shnum) return {};
  if (header.e_shentsize != sizeof(Elf64_Shdr))
    fail("is damaged: section headers of " + std::to_string(header.e_shentsize) + " bytes");
  const auto sections = table<Elf64_Shdr>(header.e_shoff, header.e_shnum);
  const Elf64_Shdr& names = sections[header.e_shstrndx];
  for (const auto& s : sections) {
    if (s.sh_type == SHT_NOBITS || s.sh_name >= names.sh_size) continue;
    if (text(names.sh_offset + s.sh_name) != name) continue;
    if (s.sh_offset > file_bytes_ || s.sh_size > file_bytes_ - s.sh_offset)
      fail("is truncated or damaged: a section ends beyond its " + std::to_string(file_bytes_) +
           " bytes");
    return Section{s.sh_offset, s.sh_size};
  }
  return {};
}

std::vector<Elf::Symbol> Elf::exports() const {
  std::vector<Symbol> out;
  if (!has(DT_SYMTAB) || !has(DT_STRTAB)) return out;
  const uint64_t texts = offset_of(entry(DT_STRTAB));
  uint64_t names = 0;
  for (const auto& s : table<Elf64_Sym>(offset_of(entry(DT_SYMTAB)), symbol_count())) {
    if (s.st_shndx == SHN_UNDEF || ELF64_ST_BIND(s.st_info) == STB_LOCAL) continue;
    out.push_back({text(texts + s.st_name), static_cast<uint8_t>(ELF64_ST_TYPE(s.st_info)),
                   static_cast<uint8_t>(ELF64_ST_BIND(s.st_info))});
    if (names += out.back().name.size(); names > kNamesMax)
      fail("is damaged: names of symbols of more than " + human_bytes(kNamesMax));
  }
  return out;
}

std::vector<Elf::Note> Elf::notes() const {
  constexpr uint64_t kBytesMax = 1 << 20;  // each segment may claim the same part of a large file
  std::vector<Note> out;
  uint64_t all = 0;
  for (const auto& segment : segments_) {
    if (segment.p_type != PT_NOTE) continue;
    if (segment.p_filesz > kBytesMax || (all += segment.p_filesz) > kBytesMax)
      fail("has garbled notes: more than " + human_bytes(kBytesMax) + " of them");
    const auto bytes = read(segment.p_offset, segment.p_filesz);
    const uint64_t align = segment.p_align == 8 ? 8 : 4;
    const auto padded = [&](uint64_t n) { return (n + align - 1) / align * align; };
    uint64_t at = 0;
    while (bytes.size() - at >= sizeof(Elf64_Nhdr)) {
      Elf64_Nhdr head;
      std::memcpy(&head, bytes.data() + at, sizeof head);
      const uint64_t name_at = at + sizeof head, desc_at = name_at + padded(head.n_namesz);
      const bool ours = bytes.size() - name_at >= 4 && head.n_namesz == 4 &&
                        std::memcmp(&bytes[name_at], "FK\0\0", 4) == 0;
      if (desc_at > bytes.size() || head.n_descsz > bytes.size() - desc_at) {
        if (ours) fail("has garbled notes: one reaches beyond its segment");
        break;  // a foreign note, whose padding may differ
      }
      if (ours) {
        out.push_back({head.n_type,
                       {bytes.begin() + static_cast<int64_t>(desc_at),
                        bytes.begin() + static_cast<int64_t>(desc_at + head.n_descsz)}});
      }
      at = std::min<uint64_t>(bytes.size(), desc_at + padded(head.n_descsz));
    }
  }
  return out;
}

}  // namespace fk
