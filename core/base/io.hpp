// SPDX-License-Identifier: Apache-2.0
//
// Files, mappings and shared memory. Shared memory is a sealed memfd, because it is how the broker,
// the oracle and the runners exchange tensors: no peer can shrink it under another one's feet.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace fk {

/// The contents of a regular file. Error says whether it is missing, a folder or unreadable, or
/// larger than bytes_max.
std::string read_file(const std::filesystem::path& path,
                      std::size_t bytes_max = std::size_t{1} << 30);

/// Writes a temporary file beside `path` and renames it over it, so that a reader sees the old or
/// the new text and nothing between. Creates missing parent folders. Error when it cannot. `mode`
/// is what the file has whatever the umask is.
void write_file_atomic(const std::filesystem::path& path, std::string_view text,
                       unsigned mode = 0644);

/// A read-only private mapping of a whole regular file; movable. An empty file has no bytes. A file
/// that is truncated by somebody else while mapped raises SIGBUS on access: map only files that
/// nobody rewrites in place.
class Mapping {
 public:
  Mapping() = default;
  /// Error when the file is missing, no regular file, or cannot be mapped.
  explicit Mapping(const std::filesystem::path& path);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Anonymous memory with a file descriptor that other processes can map; movable; unmapped and
/// closed on destruction (the memory lives until the last process lets go).
class SharedMemory {
 public:
  SharedMemory() = default;
  /// New zeroed memory, mapped writable, already sealed against shrinking and growing. `name` shows
  /// up in /proc only. The descriptor is close-on-exec: pass it with SCM_RIGHTS or dup it.
  /// Nobody touches so many of the bytes (`gaps`): they take no memory.
  static SharedMemory create(const std::string& name, std::size_t bytes, int64_t gaps = 0);
  /// New zeroed memory without a descriptor, which the threads of this process share: a sealed
  /// runner may have no other. fd() is -1.
  static SharedMemory anonymous(std::size_t bytes);
  /// Maps the first `bytes` of a descriptor from elsewhere, which is duplicated: the caller keeps
  /// its own. Error unless it is a memfd of at least that size that is sealed against shrinking
  /// (otherwise its sender could kill this process with SIGBUS).
  static SharedMemory from_fd(int fd, std::size_t bytes, bool writable);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  void* data() const { return data_; }
  std::size_t bytes() const { return size_; }
  int fd() const { return fd_; }
  bool writable() const { return writable_; }

  /// Makes the memory read-only for everybody, for ever: this mapping is replaced by a read-only
  /// one (data() may change), then F_SEAL_WRITE is set, which fails with an Error while any process
  /// still holds a writable mapping.
  void seal_read_only();
  /// Leaves existing writable mappings, this one included, and refuses new ones and write():
  /// the owner goes on writing, and everybody who receives the descriptor can only read. Cannot be
  /// undone.
  void seal_future_writes();
  /// From now on nobody who receives the descriptor can seal it: one who could would decide what
  /// the next one may do with it.
  void seal_seals();
  /// Closes the descriptor; the mapping stays. For who hands nothing on.
  void drop_descriptor();

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
  int fd_ = -1;
  bool writable_ = false;
};

}  // namespace fk
