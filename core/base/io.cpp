// SPDX-License-Identifier: Apache-2.0
//
// Files, mappings and sealed memory over the Linux calls.

#include "core/base/io.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/machine.hpp"
#include "core/base/text.hpp"

#ifndef F_SEAL_FUTURE_WRITE  // Linux 5.1, missing from older C library headers
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace fk {
namespace {

std::string reason(int code) { return std::strerror(code); }

class File {
 public:
  explicit File(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), name_(path.string()) {
    if (fd_ < 0) fail(name_, errno == ENOENT ? "no such file" : "cannot be read: " + reason(errno));
    struct stat info {};
    const bool known = ::fstat(fd_, &info) == 0;
    if (!known || !S_ISREG(info.st_mode)) {
      const bool folder = known && S_ISDIR(info.st_mode);
      ::close(fd_);
      fail(name_, folder ? "is a folder, not a file" : "is not a regular file");
    }
    size_ = static_cast<std::size_t>(info.st_size);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(fd_); }

  int fd() const { return fd_; }
  std::size_t size() const { return size_; }

  // 0 at the end of the file.
  std::size_t read(void* target, std::size_t count) const {
    for (;;) {
      const ssize_t got = ::read(fd_, target, count);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) fail(name_, "cannot be read: " + reason(errno));
    }
  }

 private:
  int fd_;
  std::string name_;
  std::size_t size_ = 0;
};

void write_all(int fd, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail_host(name, "cannot be written: " + reason(errno));  // such as a full disk
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::size_t bytes_max) {
  const File file(path);
  const auto refuse = [&] {
    fail(path.string(),
         fmt::format("is larger than {}", human_bytes(static_cast<int64_t>(bytes_max))));
  };
  if (file.size() > bytes_max) refuse();
  // The size is a hint: files of /proc say 0, and a file may grow while it is read.
  std::string text;
  std::size_t filled = 0;
  for (;;) {
    const std::size_t step = filled == 0 ? file.size() + 1 : std::size_t{1} << 16;
    text.resize(filled + step);
    const std::size_t got = file.read(text.data() + filled, text.size() - filled);
    filled += got;
    if (filled > bytes_max) refuse();
    if (got == 0) break;
  }
  text.resize(filled);
  return text;
}

void write_file_atomic(const std::filesystem::path& path, std::string_view text, unsigned mode) {
  const std::filesystem::path folder = path.parent_path();
  if (!folder.empty()) {
    std::error_code code;
    std::filesystem::create_directories(folder, code);
    if (code) fail(folder.string(), "cannot be created: " + code.message());
  }
  std::string temporary = path.string() + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) fail(path.string(), "cannot be written: " + reason(errno));
  try {
    write_all(fd, text, path.string());
    // mkostemp gives 0600; other users have to be able to read a report as far as `mode` allows.
    if (::fchmod(fd, mode) != 0) fail(path.string(), "cannot be written: " + reason(errno));
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      fail(path.string(), "cannot be written: " + reason(errno));
    }
  } catch (...) {
    ::close(fd);
    ::unlink(temporary.c_str());
    throw;
  }
  ::close(fd);
}

Mapping::Mapping(const std::filesystem::path& path) {
  const File file(path);
  if (file.size() == 0) return;
  void* data = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (data == MAP_FAILED) fail(path.string(), "cannot be mapped: " + reason(errno));
  data_ = data;
  size_ = file.size();
}
Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}
Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

SharedMemory SharedMemory::create(const std::string& name, std::size_t bytes, int64_t gaps) {
  const std::string where = "shared memory " + name;
  if (bytes == 0) fail(where, "must have at least one byte");
  need_memory(where, static_cast<int64_t>(bytes) - gaps);
  SharedMemory memory;
  memory.fd_ = ::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory.fd_ < 0) fail_host(where, "cannot be created: " + reason(errno));
  if (::ftruncate(memory.fd_, static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(memory.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    fail_host(where, fmt::format("cannot be sized to {} bytes: {}", bytes, reason(errno)));
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd_, 0);
  if (data == MAP_FAILED) fail_host(where, "cannot be mapped: " + reason(errno));
  memory.data_ = data;
  memory.size_ = bytes;
  memory.writable_ = true;
  return memory;
}

SharedMemory SharedMemory::anonymous(std::size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    fail_host("shared memory", fmt::format("of {} bytes cannot be had: {}", bytes, reason(errno)));
  SharedMemory memory;
  memory.data_ = data;
  memory.size_ = bytes;
  memory.writable_ = true;
  return memory;
}

SharedMemory SharedMemory::from_fd(int fd, std::size_t bytes, bool writable) {
  const std::string where = fmt::format("shared memory of descriptor {}", fd);
  if (bytes == 0) fail(where, "must have at least one byte");
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) fail(where, "is not a memfd: " + reason(errno));
  if ((seals & F_SEAL_SHRINK) == 0) fail(where, "is not sealed against shrinking");
  struct stat info {};
  if (::fstat(fd, &info) != 0) fail(where, "cannot be examined: " + reason(errno));
  if (info.st_size < 0 || static_cast<std::size_t>(info.st_size) < bytes) {
    fail(where, fmt::format("has {} bytes where {} are needed", info.st_size, bytes));
  }
  SharedMemory memory;
  memory.fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (memory.fd_ < 0) fail(where, "cannot be duplicated: " + reason(errno));
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  // A private read-only mapping shows the same pages. Before Linux 6.7 a shared mapping of
  // write-sealed memory is refused.
  void* data =
      ::mmap(nullptr, bytes, protection, writable ? MAP_SHARED : MAP_PRIVATE, memory.fd_, 0);
  if (data == MAP_FAILED) {
    fail(where, fmt::format("cannot be mapped {}: {}", writable ? "writable" : "read-only",
                            reason(errno)));
  }
  memory.data_ = data;
  memory.size_ = bytes;
  memory.writable_ = writable;
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(fd_, other.fd_);
  std::swap(writable_, other.writable_);
  return *this;
}
SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

void SharedMemory::seal_read_only() {
  const std::string where = fmt::format("shared memory of descriptor {}", fd_);
  FK_CHECK(data_ != nullptr, "sealing memory that was moved away");
  // F_SEAL_WRITE is refused while a writable shared mapping exists, ours included. Kernels before
  // 6.7 count a read-only mapping as writable too, so none may exist while sealing.
  ::munmap(data_, size_);
  data_ = nullptr;
  const int sealed = ::fcntl(fd_, F_ADD_SEALS, F_SEAL_WRITE);
  const int code = errno;
  // Linux 6.7 and later map a sealed memfd shared for reading only. A private mapping works
  // everywhere and is equivalent, because no process can write any more.
  void* data = ::mmap(nullptr, size_, PROT_READ, sealed == 0 ? MAP_PRIVATE : MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) fail(where, "cannot be mapped again: " + reason(errno));
  data_ = data;
  writable_ = false;
  if (sealed != 0) {
    fail(where, "cannot be made read-only: " + reason(code),
         code == EBUSY ? "some process still has it mapped for writing" : "");
  }
}

void SharedMemory::seal_future_writes() {
  if (::fcntl(fd_, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) {
    fail(fmt::format("shared memory of descriptor {}", fd_),
         "cannot be sealed against new writers: " + reason(errno));
  }
}

void SharedMemory::seal_seals() {
  if (::fcntl(fd_, F_ADD_SEALS, F_SEAL_SEAL) != 0) {
    fail(fmt::format("shared memory of descriptor {}", fd_),
         "cannot be sealed against seals: " + reason(errno));
  }
}

void SharedMemory::drop_descriptor() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace fk
