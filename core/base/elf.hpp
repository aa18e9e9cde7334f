// SPDX-License-Identifier: Apache-2.0
// A shared object as data: headers, dynamic section and symbols, with bounds checks on every
// offset. It uses pread, because a linker may truncate and rewrite the file at any moment. Access
// to a mapping would then raise SIGBUS in the judging process.
#pragma once
#include <elf.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

class Elf {
 public:
  // Opens the file and checks its header. Error unless it is a 64-bit little-endian shared object
  // of this machine's architecture; the Error's where() is the path.
  explicit Elf(const std::filesystem::path& file);
  ~Elf();
  Elf(const Elf&) = delete;
  Elf& operator=(const Elf&) = delete;

  // Copies bytes out of the file; Error "truncated" when some lie beyond its end.
  std::vector<std::byte> read(uint64_t offset, uint64_t bytes) const;
  // The zero-terminated text at an offset, at most 4095 bytes.
  std::string text(uint64_t offset) const;

  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  // Entries up to DT_NULL; empty without a dynamic segment.
  const std::vector<Elf64_Dyn>& dynamic() const { return dynamic_; }
  // The value of the entry with this tag, or `otherwise`.
  uint64_t entry(int64_t tag, uint64_t otherwise = 0) const;
  bool has(int64_t tag) const;
  // Texts of all entries with this tag (DT_NEEDED, DT_RPATH ...).
  std::vector<std::string> entry_texts(int64_t tag) const;

  struct Symbol {
    std::string name;
    uint8_t type, binding;  // STT_..., STB_...
  };
  struct Section {
    uint64_t offset, bytes;  // both checked against the file's size
  };
  // A section by name; empty if it is absent, or if the file has no section table (a loader needs
  // none). Error where the table is damaged.
  std::optional<Section> section(std::string_view name) const;

  // Defined symbols that the dynamic loader can find, in table order.
  std::vector<Symbol> exports() const;

  struct Note {
    uint32_t type;
    std::vector<std::byte> desc;
  };
  // The notes with owner "FK" of every note segment. Error where one of them is garbled.
  std::vector<Note> notes() const;

  uint64_t file_bytes() const { return file_bytes_; }
  std::string where() const { return where_; }
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const;

 private:
  template <class T>
  std::vector<T> table(uint64_t offset, uint64_t count) const;
  uint64_t offset_of(uint64_t address) const;
  uint64_t symbol_count() const;
  uint64_t gnu_symbol_count(uint64_t base) const;
  void check_segments() const;
  void check_header(const Elf64_Ehdr& header) const;
  void read_dynamic();

  std::string where_;
  int fd_ = -1;
  uint64_t file_bytes_ = 0;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Dyn> dynamic_;
};

}  // namespace fk
