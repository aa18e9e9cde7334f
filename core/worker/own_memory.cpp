// SPDX-License-Identifier: Apache-2.0
// Walks the kernel's list of this process's mappings. mincore() tells which pages are resident.
#include "core/worker/own_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

namespace {

int list_of_memory = -1;  // /proc/self/maps, opened before the sandbox closes its path
constexpr uintptr_t kMappedPage = 4096;

// The kernel's list of mappings: "7f00-7f10 rw-p 00000000 08:01 1234   /usr/lib/libm.so".
std::string list_text() {
  std::string out;
  for (;;) {
    const size_t at = out.size();
    out.resize(at + (size_t{1} << 16));
    const ssize_t got =
        ::pread(list_of_memory, out.data() + at, out.size() - at, static_cast<off_t>(at));
    out.resize(at + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) return out;
  }
}

struct MappedRange {
  uintptr_t begin = 0, end = 0;
  std::string_view access, file, path;  // file: device and inode
};

bool parse(std::string_view line, MappedRange& out) {
  unsigned long begin = 0, end = 0;
  int access = 0, file = 0, file_end = 0, path = 0;
  const std::string text(line);
  if (std::sscanf(text.c_str(), "%lx-%lx %n%*s %*s %n%*s %*s%n %n", &begin, &end, &access, &file,
                  &file_end, &path) < 2 ||
      access == 0 || file_end <= file || path < file_end)
    return false;
  const auto part = [&](int from, int to) {
    return line.substr(static_cast<size_t>(from), static_cast<size_t>(to - from));
  };
  const int length = static_cast<int>(line.size());
  out = {begin, end, part(access, access + 4), part(file, file_end),
         part(std::min(path, length), length)};
  return true;
}

int access_of(const MappedRange& m) {
  return (m.access[0] == 'r' ? PROT_READ : 0) | (m.access[1] == 'w' ? PROT_WRITE : 0) |
         (m.access[2] == 'x' ? PROT_EXEC : 0);
}

// True if code of this process may have left data in the range.
bool may_hold(const MappedRange& m, std::string_view own_file) {
  // Ranges above kMost are only reserved, as by sanitizers. Inaccessible ranges of kMostHidden and
  // more surround guarded buffers, and take long to query. On most processors, write-only and
  // execute-only memory is readable too.
  constexpr uintptr_t kMost = uintptr_t{1} << 36, kMostHidden = uintptr_t{64} << 20;
  if (m.end - m.begin >= (m.access.starts_with("---") ? kMostHidden : kMost)) return false;
  if (m.path.starts_with("[v")) return false;  // [vdso] and the like belong to the kernel
  const bool file = m.path.starts_with("/") && !m.path.starts_with("/memfd:");
  return !file || m.file == own_file || m.access[1] == 'w';
}

// Visits the resident parts of the range, outside of `but`. Makes hidden pages readable meanwhile.
void visit_resident(const MappedRange& m, std::span<const std::span<const std::byte>> but,
                    const std::function<void(std::span<const std::byte>)>& visit) {
  constexpr uintptr_t kAtOnce = 4096 * kMappedPage;
  static std::vector<unsigned char> there(kAtOnce / kMappedPage);
  const bool hidden = m.access[0] != 'r';
  for (uintptr_t from = m.begin; from < m.end; from += kAtOnce) {
    const uintptr_t to = std::min(m.end, from + kAtOnce);
    if (::mincore(reinterpret_cast<void*>(from), to - from, there.data()) != 0) continue;
    for (uintptr_t at = from; at < to;) {
      uintptr_t next = at;
      while (next < to && (there[(next - from) / kMappedPage] & 1)) next += kMappedPage;
      const auto* const data = reinterpret_cast<const std::byte*>(at);
      if (next == at) {
        at += kMappedPage;
        continue;
      }
      const bool known = std::any_of(but.begin(), but.end(), [&](const auto& part) {
        return data >= part.data() && data < part.data() + part.size();
      });
      auto* const pages = reinterpret_cast<void*>(at);
      const bool shown =
          !hidden || (!known && ::mprotect(pages, next - at, access_of(m) | PROT_READ) == 0);
      if (!known && shown) visit({data, next - at});
      if (hidden && shown && !known) ::mprotect(pages, next - at, access_of(m));
      at = next;
    }
  }
}

}  // namespace

void open_own_memory() {
  if (list_of_memory < 0) list_of_memory = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
}

bool visit_own_memory(const void* code, std::span<const std::span<const std::byte>> but,
                      const std::function<void(std::span<const std::byte>)>& visit) {
  const std::string text = list_of_memory < 0 ? "" : list_text();
  std::vector<MappedRange> all;
  std::string_view own_file;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    MappedRange one;
    if (parse(std::string_view(text).substr(at, end - at), one)) {
      all.push_back(one);
      const auto place = reinterpret_cast<uintptr_t>(code);
      if (place >= one.begin && place < one.end) own_file = one.file;
    }
    at = end + 1;
  }
  // Memory that this function has allocated since is not in the list.
  for (const MappedRange& one : all)
    if (may_hold(one, own_file)) visit_resident(one, but, visit);
  return !all.empty();
}

}  // namespace fk
