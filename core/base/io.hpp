// SPDX-License-Identifier: Apache-2.0
//
// Files, mappings and shared memory. Shared memory is a sealed memfd, in which controller, oracle
// and workers exchange tensors: no peer can shrink it while another process uses it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace fk {

/// The contents of a regular file. Error for a file that is missing, a folder, unreadable, or
/// larger than bytes_max.
std::string read_file(const std::filesystem::path& path,
                      std::size_t bytes_max = std::size_t{1} << 30);

/// Writes a temporary file beside `path` and renames it to `path`: a reader sees the old or the new
/// text and nothing between. Creates missing parent folders. Error when it cannot. The file gets
/// `mode`, independently of the umask.
void write_file_atomic(const std::filesystem::path& path, std::string_view text,
                       unsigned mode = 0644);

/// A read-only private mapping of a whole regular file; movable. An empty file has no bytes. Access
/// raises SIGBUS if another process truncates the mapped file: map only files that no process
/// rewrites in place.
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

/// Anonymous memory with a file descriptor that other processes can map; movable. The destructor
/// unmaps and closes it; the memory lives until the last process releases it.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// New zeroed memory, mapped writable, already sealed against shrinking and growing. `name`
  /// appears in /proc only. The descriptor is close-on-exec: pass it with SCM_RIGHTS or dup it.
  /// `gaps`: bytes that no process will touch and that therefore take no memory.
  static SharedMemory create(const std::string& name, std::size_t bytes, int64_t gaps = 0);
  /// New zeroed memory without a descriptor, shared by the threads of this process, for sealed
  /// workers, which may not create a memfd. fd() is -1.
  static SharedMemory anonymous(std::size_t bytes);
  /// Maps the first `bytes` of a received descriptor, which is duplicated: the caller keeps its
  /// own. Error unless it is a memfd of at least this size, sealed against shrinking. Without the
  /// seal its sender could kill this process with SIGBUS.
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

  /// Makes the memory read-only for all processes, for ever. A read-only mapping replaces this one
  /// (data() may change), then F_SEAL_WRITE is set. Error while any process still holds a writable
  /// mapping.
  void seal_read_only();
  /// Keeps existing writable mappings, this one included, and refuses new ones and write(). The
  /// owner goes on writing; receivers of the descriptor can only read. Cannot be undone.
  void seal_future_writes();
  /// Receivers of the descriptor can no longer seal it. A receiver's seal would restrict the next
  /// receiver.
  void seal_seals();
  /// Closes the descriptor; the mapping stays. For owners that pass the memory to no other process.
  void drop_descriptor();

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
  int fd_ = -1;
  bool writable_ = false;
};

}  // namespace fk
