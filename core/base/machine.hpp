// SPDX-License-Identifier: Apache-2.0
//
// What this program and this machine are, as far as it can be known at once: nothing here opens a
// device or a library.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fk {

/// "Intel(R) Xeon(R) ..." as the kernel names it, else "unknown CPU".
std::string processor_name();
/// "Linux 6.1.0".
std::string kernel_name();
/// The linker's build id of the running program, in hex; of a program without one, the SHA-256 of
/// its file.
std::string own_build_id();

/// What the kernel says can be had without ending somebody (MemAvailable) and what is left of the
/// swap, in bytes; nothing where it does not say.
std::optional<int64_t> free_memory();

/// Refuses (Error at `where`) what is more than free_memory(), with both figures: pages come when
/// they are touched, so too much would end some process, later, without a reason. Little is not
/// asked about.
void need_memory(const std::string& where, int64_t bytes);

/// What a process of this user may have of addresses (`ulimit -v`), in bytes; nothing where there
/// is no limit.
std::optional<int64_t> address_limit();

/// True when this user namespace has the number; `map` is /proc/self/uid_map or gid_map.
bool has_id(uint64_t id, const char* map);
/// Numbers of users from here on are sealed runners', if this process may become another user.
constexpr uint32_t kRunnerIds = 0x6B000000, kNobody = 65534;
/// The group of all sealed runners, in which no account is.
uint32_t group_of_runners();

/// Which device a name as in `--device` stands for, and its driver: two processes that get the
/// same text run on the same kind of device under the same driver. For `cpu` the processor, how
/// many of its threads this process may use, and the kernel; for anything else the models of all
/// GPUs, the driver, and the variable that hides some of them; the boot of this machine where the
/// driver does not say.
struct DeviceIdentity {
  std::string device, driver;
};
DeviceIdentity device_identity(const std::string& device);

}  // namespace fk
