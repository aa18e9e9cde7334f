// SPDX-License-Identifier: Apache-2.0
//
// Facts about this program and this machine that are known at once: nothing here opens a device or
// a library.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fk {

/// The kernel's name, such as "Intel(R) Xeon(R) ...", else "unknown CPU".
std::string processor_name();
/// "Linux 6.1.0".
std::string kernel_name();
/// The linker's build id of the running program, in hex. If it has none, the SHA-256 of its file.
std::string own_build_id();

/// MemAvailable plus free swap, in bytes; empty where the kernel does not report MemAvailable.
std::optional<int64_t> free_memory();

/// Error at `where`, with both figures, if `bytes` exceeds free_memory(). Pages are allocated on
/// first touch, so an excess would kill some process later, without a reason. Amounts below 64 MiB
/// are not checked.
void need_memory(const std::string& where, int64_t bytes);

/// The limit of a process's address space (`ulimit -v`), in bytes; empty: no limit.
std::optional<int64_t> address_limit();

/// True when this user namespace has the id; `map` is /proc/self/uid_map or gid_map.
bool has_id(uint64_t id, const char* map);
/// User ids of sealed workers begin here, if this process may become another user.
constexpr uint32_t kRunnerIds = 0x6B000000, kNobody = 65534;
/// The group of all sealed workers. No account belongs to it.
uint32_t group_of_runners();

/// The device behind a name of `--device`, and its driver: equal texts mean the same kind of device
/// under the same driver. For `cpu`: the processor, the number of usable threads, and the kernel.
/// Otherwise: the models of all GPUs, the driver, and the variable that hides some GPUs. If driver
/// or models are unknown, the boot of this machine is added.
struct DeviceIdentity {
  std::string device, driver;
};
DeviceIdentity device_identity(const std::string& device);

}  // namespace fk
