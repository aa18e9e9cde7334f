// SPDX-License-Identifier: Apache-2.0
// Reads facts about the machine from /proc and /sys, and the build id from the program's own notes.
#include "core/base/machine.hpp"

#include <link.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/base/cores.hpp"
#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

// The value in a file of `name: value` lines; empty when it is not there.
std::string value_in(const fs::path& file, std::string_view name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (starts_with(line, name)) {
      return std::string(trim(line.substr(std::min(line.size(), line.find(':') + 1))));
    }
  }
  return {};
}

// A line of /proc/meminfo in bytes; 0 if the line is absent.
int64_t meminfo_bytes(std::string_view name) {
  return std::strtoll(value_in("/proc/meminfo", name).c_str(), nullptr, 10) * 1024;
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return std::string(trim(line));
}

constexpr size_t align4(size_t n) { return (n + 3) & ~size_t{3}; }

// The loader reports the program itself first.
int find_build_id(dl_phdr_info* info, size_t, void* out) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
    const char* end = at + segment.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* name = at + sizeof note;
      const char* content = name + align4(note.n_namesz);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !std::memcmp(name, "GNU", 4)) {
        *static_cast<std::string*>(out) =
            hex_text({reinterpret_cast<const uint8_t*>(content), note.n_descsz});
        return 1;
      }
      at = content + align4(note.n_descsz);
    }
  }
  return 1;
}

// Vendor, device and subsystem of every GPU, from the kernel's view of the bus. The driver knows
// the models' names, but its answer may wait until another process has opened or closed a device.
std::string gpu_models() {
  std::vector<std::string> models;
  std::error_code gone;
  for (const auto& gpu : fs::directory_iterator("/proc/driver/nvidia/gpus", gone)) {
    std::string model;
    for (const char* id : {"vendor", "device", "subsystem_vendor", "subsystem_device"})
      model += (model.empty() ? "" : ":") +
               first_line(fs::path("/sys/bus/pci/devices") / gpu.path().filename() / id);
    const bool known = model.find_first_not_of(':') != std::string::npos;
    models.push_back(known ? model : value_in(gpu.path() / "information", "Model"));
  }
  std::sort(models.begin(), models.end());
  return join(models, ", ");
}

}  // namespace

std::string processor_name() {
  const std::string name = value_in("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown CPU" : name;
}

std::string kernel_name() {
  utsname name{};
  if (::uname(&name) != 0) return "unknown kernel";
  return std::string(name.sysname) + " " + name.release;
}

std::string own_build_id() {
  std::string id;
  ::dl_iterate_phdr(find_build_id, &id);
  return id.empty() ? sha256_file("/proc/self/exe") : id;
}

std::optional<int64_t> free_memory() {
  const int64_t available = meminfo_bytes("MemAvailable:");
  if (available == 0) return std::nullopt;
  return available + meminfo_bytes("SwapFree:");
}

void need_memory(const std::string& where, int64_t bytes) {
  constexpr int64_t kLarge = int64_t{1} << 26;
  if (bytes < kLarge) return;
  const auto free = free_memory();
  if (free && bytes > *free)
    fail(where,
         "takes " + human_bytes(bytes) + ", and " + human_bytes(*free) + " of memory are free");
}

std::optional<int64_t> address_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return static_cast<int64_t>(limit.rlim_cur);
}

bool has_id(uint64_t id, const char* map) {
  std::ifstream file(map);
  for (uint64_t inside = 0, outside = 0, count = 0; file >> inside >> outside >> count;)
    if (id >= inside && id - inside < count) return true;
  return false;
}

uint32_t group_of_runners() {
  return has_id(kRunnerIds, "/proc/self/gid_map") ? kRunnerIds : kNobody;
}

DeviceIdentity device_identity(const std::string& device) {
  if (device == "cpu") {
    const std::string threads = std::to_string(usable_cores()) + " threads";
    return {"cpu " + processor_name() + ", " + threads, kernel_name()};
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string hidden = visible ? std::string(" of CUDA_VISIBLE_DEVICES=") + visible : "";
  std::string driver = first_line("/proc/driver/nvidia/version"), models = gpu_models();
  if (driver.empty() || models.empty()) {
    driver += "boot " + first_line("/proc/sys/kernel/random/boot_id");
  }
  return {device + hidden + " among " + (models.empty() ? "unknown GPUs" : models), driver};
}

}  // namespace fk
