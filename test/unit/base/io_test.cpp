// SPDX-License-Identifier: Apache-2.0
//
// If these fail, processes can disturb each other through shared memory, or files are half written.

#include "core/base/io.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "core/base/error.hpp"
#include "core/base/machine.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

using namespace fk;

namespace {}  // namespace

TEST_CASE("file_written_is_read_back", "[base]") {
  const Folder folder;
  const auto file = folder.path / "sub" / "a.txt";
  write_file_atomic(file, "one");
  write_file_atomic(file, "two\n");
  CHECK(read_file(file) == "two\n");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path / "sub"), {}) == 1);
  CHECK(Mapping(file).bytes().size() == 4);
  write_file_atomic(file, "");
  CHECK(Mapping(file).bytes().empty());
  CHECK_FALSE(read_file("/proc/self/status").empty());
}

TEST_CASE("file_errors_say_why", "[base]") {
  const Folder folder;
  CHECK(message_of<Error>([] { read_file("/no/such"); }) == "/no/such: no such file");
  CHECK_THAT(message_of<Error>([&] { read_file(folder.path); }), ContainsSubstring("is a folder"));
  CHECK_THAT(message_of<Error>([] { read_file("/dev/null"); }),
             ContainsSubstring("not a regular file"));
  CHECK_THAT(message_of<Error>([] { Mapping("/no/such"); }), ContainsSubstring("no such file"));
  write_file_atomic(folder.path / "a", "12345");
  CHECK_THAT(message_of<Error>([&] { read_file(folder.path / "a", 4); }),
             ContainsSubstring("is larger than 4 B"));
  CHECK_THAT(message_of<Error>([] { write_file_atomic("/proc/no/a", ""); }),
             ContainsSubstring("cannot be created"));
  CHECK_THAT(message_of<Error>([&] { write_file_atomic(folder.path / "a" / "b", ""); }),
             ContainsSubstring("cannot be"));
}

// If this fails, a model that is too large ends some process of the machine instead of the run.
TEST_CASE("shared_memory_that_is_not_there_is_refused", "[base]") {
  const auto free = free_memory();
  REQUIRE(free.has_value());
  CHECK_THAT(
      message_of<Error>([&] { SharedMemory::create("fk-test", 2 * static_cast<size_t>(*free)); }),
      ContainsSubstring("of memory are free"));
}

TEST_CASE("shared_memory_seals_hold", "[base]") {
  SharedMemory owner = SharedMemory::create("fk-test", 10000);
  std::memcpy(owner.data(), "hello", 5);
  SharedMemory peer = SharedMemory::from_fd(owner.fd(), 10000, true);
  CHECK(std::memcmp(peer.data(), "hello", 5) == 0);
  CHECK(::ftruncate(peer.fd(), 1) != 0);
  CHECK_THAT(message_of<Error>([&] { SharedMemory::from_fd(owner.fd(), 10001, false); }),
             ContainsSubstring("has 10000 bytes where 10001 are needed"));

  CHECK_THAT(message_of<Error>([&] { owner.seal_read_only(); }),
             ContainsSubstring("some process still has it mapped"));
  peer = SharedMemory();
  { const SharedMemory gone = std::move(peer); }
  owner.seal_read_only();
  CHECK(std::memcmp(owner.data(), "hello", 5) == 0);
  CHECK_FALSE(owner.writable());
  CHECK_THROWS_AS(SharedMemory::from_fd(owner.fd(), 10000, true), Error);

  SharedMemory writer = SharedMemory::create("fk-test", 100);
  writer.seal_future_writes();
  const SharedMemory reader = SharedMemory::from_fd(writer.fd(), 100, false);
  CHECK_THROWS_AS(SharedMemory::from_fd(writer.fd(), 100, true), Error);
  std::memcpy(writer.data(), "later", 5);
  CHECK(std::memcmp(reader.data(), "later", 5) == 0);

  const int open_fd = ::memfd_create("fk-unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(::ftruncate(open_fd, 100) == 0);
  CHECK_THAT(message_of<Error>([&] { SharedMemory::from_fd(open_fd, 100, false); }),
             ContainsSubstring("not sealed against shrinking"));
  ::close(open_fd);
  CHECK_THROWS_AS(SharedMemory::from_fd(-1, 1, false), Error);
  CHECK_THROWS_AS(SharedMemory::create("x", 0), Error);
}
