// SPDX-License-Identifier: Apache-2.0
// The search finds memory which code may have left in this process, at any place. It does not find
// memory of others.
#include "core/worker/own_memory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "test/catch.hpp"

using namespace fk;

namespace {

char of_this_program[5000] = {1};
constexpr size_t kBytes = 3 * 4096;

struct Pages {
  explicit Pages(int access)
      : data(static_cast<char*>(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    std::memset(data, 1, kBytes);
    ::mprotect(data, kBytes, access);
  }
  ~Pages() { ::munmap(data, kBytes); }
  char* const data;
};

// How much of this memory is visited, of which all can be read then.
size_t visited(const void* memory, size_t bytes,
               std::span<const std::span<const std::byte>> but = {}) {
  const auto* const begin = static_cast<const std::byte*>(memory);
  size_t found = 0;
  unsigned sum = 0;
  CHECK(visit_own_memory(reinterpret_cast<const void*>(&visited), but, [&](auto part) {
    for (size_t i = 0; i < part.size(); i += 64) {
      if (&part[i] < begin || &part[i] >= begin + bytes) continue;
      sum += static_cast<unsigned>(part[i]);
      found += 64;
    }
  }));
  return sum ? found : 0;
}

}  // namespace

TEST_CASE("own_memory_is_found_wherever_it_lies") {
  open_own_memory();
  std::vector<char> heap(1 << 20, 1), small(4096, 1);
  CHECK(visited(heap.data(), heap.size()) >= heap.size() - 64);
  CHECK(visited(small.data(), small.size()) >= small.size() - 64);
  char stack[4096];
  std::memset(stack, 1, sizeof stack);
  CHECK(visited(stack, sizeof stack) >= sizeof stack - 64);
  std::memset(of_this_program, 1, sizeof of_this_program);
  CHECK(visited(of_this_program, sizeof of_this_program) >= sizeof of_this_program - 128);
  const auto* const code = reinterpret_cast<const char*>(&visited);
  CHECK(visited(code, 256) >= 192);
  for (const int access : {PROT_READ, PROT_NONE, PROT_READ | PROT_EXEC}) {
    const Pages pages(access);
    CHECK(visited(pages.data, kBytes) == kBytes);
  }
  // Unreadable memory stays unreadable.
  const Pages hidden(PROT_NONE);
  visited(hidden.data, kBytes);
  CHECK(::madvise(hidden.data, kBytes, MADV_POPULATE_READ) != 0);
}

TEST_CASE("own_memory_leaves_what_may_only_be_written_as_it_was") {
  open_own_memory();
  constexpr size_t kLarge = size_t{65} << 20;  // of which without access nothing would be asked
  const Pages pages(PROT_WRITE);
  CHECK(visited(pages.data, kBytes) == kBytes);
  CHECK(::madvise(pages.data, kBytes, MADV_POPULATE_WRITE) == 0);
  auto* const large =
      static_cast<char*>(::mmap(nullptr, kLarge, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(large, 1, kBytes);
  CHECK(visited(large, kLarge) >= kBytes);
  CHECK(::madvise(large, kBytes, MADV_POPULATE_WRITE) == 0);
  ::munmap(large, kLarge);
}

TEST_CASE("own_memory_leaves_out_what_was_never_touched_and_what_it_is_told_to") {
  open_own_memory();
  auto* const reserved =
      ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(visited(reserved, 1 << 20) == 0);
  ::munmap(reserved, 1 << 20);
  const Pages pages(PROT_READ);
  const std::span<const std::byte> but[] = {
      {reinterpret_cast<const std::byte*>(pages.data), kBytes}};
  CHECK(visited(pages.data, kBytes, but) == 0);
  // Code of the C library.
  CHECK(visited(reinterpret_cast<const void*>(&::qsort), 64) == 0);
}
