// SPDX-License-Identifier: Apache-2.0
// Gives up access to files and the network with Landlock's system calls. Structures and numbers are
// written out, because headers of older systems lack features that their kernels may have.
#include "core/worker/landlock.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "core/base/text.hpp"
#include "core/worker/every_thread.hpp"

namespace fk {

namespace {

// Numbers of the system calls, equal on all supported architectures.
constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr unsigned kVersion = 1, kPathBeneath = 1;

// The kernel's landlock_ruleset_attr and landlock_path_beneath_attr. Each field is a set of rights.
struct RulesetAttributes {
  uint64_t files = 0, network = 0, scopes = 0;
};
struct __attribute__((packed)) PathRule {
  uint64_t allowed = 0;
  int32_t parent = -1;
};

// The lowest `count` bits.
constexpr uint64_t bits(int count) { return (uint64_t{1} << count) - 1; }
constexpr uint64_t kExecute = 1U << 0, kWriteFile = 1U << 1, kReadFile = 1U << 2,
                   kReadFolder = 1U << 3, kTruncate = 1U << 14, kDeviceIoctl = 1U << 15;

// The rights known to a version of the interface.
RulesetAttributes handled(int abi) {
  RulesetAttributes all;
  // ABI 2 adds moves between folders, 3 truncation, 5 ioctl on devices.
  all.files = bits(abi >= 5 ? 16 : abi >= 3 ? 15 : abi >= 2 ? 14 : 13);
  if (abi >= 4) all.network = bits(2);  // binding and connecting TCP
  if (abi >= 6) all.scopes = bits(2);   // abstract sockets, signals
  return all;
}

// The argument of restrict_this_thread(), which runs in a signal handler.
int rules_to_take = -1;

bool restrict_this_thread() {
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(kRestrictSelf, rules_to_take, 0U) == 0;
}

}  // namespace

Landlock::Landlock(const std::vector<std::filesystem::path>& read,
                   const std::vector<std::filesystem::path>& devices,
                   const std::vector<std::filesystem::path>& programs,
                   const std::vector<std::filesystem::path>& made) {
  const long version = ::syscall(kCreateRuleset, nullptr, size_t{0}, kVersion);
  if (version < 1) {
    why_ = "the kernel has no Landlock: " + errno_text();
    return;
  }
  abi_ = static_cast<int>(version);
  const RulesetAttributes attributes = handled(abi_);
  rules_ = static_cast<int>(::syscall(kCreateRuleset, &attributes, sizeof attributes, 0U));
  if (rules_ < 0) why_ = "no Landlock rules can be made: " + errno_text();
  const uint64_t look = kReadFile | kReadFolder;
  const uint64_t use = (look | kWriteFile | kTruncate | kDeviceIoctl) & attributes.files;
  for (const auto& path : read) add(path, look);
  for (const auto& path : devices) add(path, use);
  for (const auto& path : programs) add(path, look | kExecute);
  for (const auto& path : made) add(path, attributes.files & ~kExecute);
}

Landlock::~Landlock() {
  if (rules_ >= 0) ::close(rules_);
}

void Landlock::add(const std::filesystem::path& path, uint64_t allowed) {
  const int fd = rules_ < 0 ? -1 : ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return;
  struct stat about {};
  if (::fstat(fd, &about) != 0 || !S_ISDIR(about.st_mode)) allowed &= ~kReadFolder;
  const PathRule rule{allowed, fd};
  // A failure leaves the path closed, which is safe.
  ::syscall(kAddRule, rules_, kPathBeneath, &rule, 0U);
  ::close(fd);
}

void Landlock::enforce() {
  if (rules_ < 0) return;
  rules_to_take = rules_;
  // The others first: on some kernels this thread may not signal them after its own restriction.
  const int missing = in_every_other_thread(restrict_this_thread);
  if (!restrict_this_thread())
    why_ = "Landlock rules cannot be set: " + errno_text();
  else if (missing > 0)
    why_ = std::to_string(missing) + " threads of this process did not take the rules";
  else
    why_.clear();
}

}  // namespace fk
