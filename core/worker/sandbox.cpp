// SPDX-License-Identifier: Apache-2.0
// Takes the rights away, in the order of docs/sandbox.md. Each step returns an empty text, or the
// reason why it has no effect. Files are in landlock.cpp, system calls in syscall_filter.cpp.
#include "core/worker/sandbox.hpp"

#include <dlfcn.h>
#include <grp.h>
#include <link.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.hpp"
#include "core/base/machine.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/device/backends.hpp"
#include "core/worker/landlock.hpp"
#include "core/worker/process.hpp"
#include "core/worker/syscall_filter.hpp"

namespace fk {

namespace {

Protection protection(const std::string& name, const std::string& why) {
  return {name, why.empty(), why};
}

// Without CAP_KILL this process could not end a child of another user, so it must not start one.
bool may_end_others() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  return ::syscall(SYS_capget, &header, data) == 0 && (data[0].effective & (1U << CAP_KILL)) != 0;
}

// A user id that no other process has, so that limits by user count this process only; else
// `nobody`.
uint32_t free_id() {
  const uint32_t own = kRunnerIds + 1 + static_cast<uint32_t>(::getpid());
  return has_id(own, "/proc/self/uid_map") ? own : kNobody;
}

// Empty, or the reason why this process keeps its user.
std::string change_user() {
  if (::geteuid() != 0) return "the host was not started as root";
  if (!may_end_others()) return "this root may not end processes of others (CAP_KILL)";
  const uint32_t id = free_id(), group = group_of_runners();
  if (::setgroups(0, nullptr) != 0 || ::setresgid(group, group, group) != 0)
    return "the group cannot be changed: " + errno_text();
  if (::setresuid(id, id, id) != 0) return "the user cannot be changed: " + errno_text();
  return {};
}

std::string limit(int what, rlim_t most) {
  rlimit now{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(what), &now) != 0) return errno_text();
  now.rlim_max = std::min(now.rlim_max, most);
  now.rlim_cur = std::min(now.rlim_cur, now.rlim_max);
  return ::setrlimit(static_cast<__rlimit_resource_t>(what), &now) == 0 ? "" : errno_text();
}

// The address space has no limit: RLIMIT_DATA counts private memory, the controller provides shared
// memory, and other mappings cost nothing.
std::string set_limits(bool own_user, const SandboxPolicy& policy) {
  constexpr rlim_t kCompiled = rlim_t{64} << 20;  // bytes of a file
  std::string why = limit(RLIMIT_CORE, 0);
  if (why.empty()) why = limit(RLIMIT_FSIZE, policy.made.empty() ? 0 : kCompiled);
  if (why.empty()) why = limit(RLIMIT_NOFILE, policy.driver ? 4096 : 256);
  // RLIMIT_NPROC counts all threads of a user, so it needs a user without other processes.
  const rlim_t threads = 512 + 8 * std::max(1U, std::thread::hardware_concurrency());
  if (why.empty() && own_user) why = limit(RLIMIT_NPROC, threads);
  return why;
}

std::string no_new_privileges() {
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? "" : errno_text();
}

std::string not_dumpable() { return ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 ? "" : errno_text(); }

// In the order of seal().
const char* const kProtections[] = {"own_user",         "no_new_privileges", "not_dumpable",
                                    "limits",           "landlock_files",    "landlock_network",
                                    "landlock_signals", "system_calls"};

// The folders of the loaded libraries, which load further parts later. The folder of plugin copies
// is left out, because it also has copies of other candidates. It is the working directory,
// whatever its name in FK_CACHE.
std::vector<std::filesystem::path> library_folders() {
  std::vector<std::filesystem::path> folders;
  const auto add = [](dl_phdr_info* info, size_t, void* data) {
    const std::filesystem::path file(info->dlpi_name);
    if (file.is_absolute())
      static_cast<std::vector<std::filesystem::path>*>(data)->push_back(file.parent_path());
    return 0;
  };
  ::dl_iterate_phdr(add, &folders);
  std::sort(folders.begin(), folders.end());
  folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
  // An operator's folder of backends may have other files. A backend says which ones it needs.
  const auto of_backend = [&](const auto& folder) {
    return std::any_of(backends().begin(), backends().end(),
                       [&](const Backend& b) { return b.path.parent_path() == folder; });
  };
  std::erase_if(folders, [&](const auto& folder) {
    std::error_code code;  // an inaccessible folder is unreadable too
    return of_backend(folder) || std::filesystem::equivalent(folder, ".", code) || code;
  });
  return folders;
}

std::vector<std::string> listed(const char* const* texts) {
  std::vector<std::string> out;
  for (; texts && *texts; ++texts) out.emplace_back(*texts);
  return out;
}

// The needs of a device from a library.
void add_needs(const fk_needs& needs, SandboxPolicy& policy) {
  for (const auto& path : listed(needs.read)) policy.read.emplace_back(path);
  for (const std::filesystem::path beginning : listed(needs.devices)) {
    std::error_code code;
    for (const auto& entry : std::filesystem::directory_iterator(beginning.parent_path(), code))
      if (starts_with(entry.path().string(), beginning.string())) policy.devices.push_back(entry);
  }
  policy.compiles = needs.compiles != 0;
  if (!policy.compiles) return;
  for (const auto& path : listed(needs.execute)) policy.programs.emplace_back(path);
}

bool compiles_kernels(const Backend& backend) {
  return backend.usable() && backend.table.needs && backend.table.needs->compiles;
}

}  // namespace

SandboxPolicy SandboxPolicy::of(const std::string& device) {
  SandboxPolicy policy;
  policy.read = {"/proc/self", "/proc/cpuinfo",       "/proc/meminfo",
                 "/proc/stat", "/sys/devices/system", "/dev/null",
                 "/dev/zero",  "/dev/random",         "/dev/urandom"};
  if (device == "cpu") return policy;
  // The driver and the vendor's libraries load some parts on first use.
  policy.driver = true;
  for (auto& folder : library_folders()) policy.read.push_back(std::move(folder));
  for (const char* path :
       {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/cuda",
        "/etc/ld.so.cache", "/proc/driver", "/proc/sys", "/proc/devices", "/sys"})
    policy.read.emplace_back(path);
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", code))
    if (starts_with(entry.path().filename().string(), "nvidia")) policy.devices.push_back(entry);
  const Backend* const backend = backend_of(device);
  if (backend && backend->table.needs) add_needs(*backend->table.needs, policy);
  return policy;
}

bool SandboxPolicy::any_device_compiles() {
  return std::any_of(backends().begin(), backends().end(), compiles_kernels);
}

std::filesystem::path compiler_folder(int pid) {
  namespace fs = std::filesystem;
  std::error_code code;
  const fs::path own = fs::absolute(environment("TMPDIR", "/tmp")).lexically_normal();
  fs::perms needed = fs::perms::others_write | fs::perms::others_exec;
  bool shared = true;
  for (fs::path at = own; shared && at != at.root_path(); at = at.parent_path()) {
    const fs::file_status status = fs::status(at, code);
    shared = !code && fs::is_directory(status) && (status.permissions() & needed) == needed;
    needed = fs::perms::others_exec;
  }
  return (shared ? own : fs::path("/tmp")) / ("fk-compiled-" + std::to_string(pid));
}

void make_compiler_folder(int pid) {
  const auto folder = compiler_folder(pid);
  if (::mkdir(folder.c_str(), 0700) != 0) fail(folder.string(), "cannot be made: " + errno_text());
  for (const Backend& backend : backends())
    if (compiles_kernels(backend) && backend.table.needs->folder_variable)
      ::setenv(backend.table.needs->folder_variable, folder.c_str(), /*overwrite=*/1);
}

void remove_compiler_folder(int pid) {
  std::error_code ignored;
  std::filesystem::remove_all(compiler_folder(pid), ignored);
}

bool everybody_reads(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code code;
  const auto allows = [&](const fs::path& entry) {
    const auto status = fs::status(entry, code);
    const auto needed = fs::is_directory(status) ? fs::perms::others_read | fs::perms::others_exec
                                                 : fs::perms::others_read;
    return !code && (status.permissions() & needed) == needed;
  };
  const fs::path whole = fs::absolute(path).lexically_normal();
  for (fs::path at = whole.parent_path(); at != at.root_path(); at = at.parent_path())
    if ((fs::status(at, code).permissions() & fs::perms::others_exec) == fs::perms::none)
      return false;
  if (!allows(whole)) return false;
  if (!fs::is_directory(whole, code)) return true;
  for (const auto& entry : fs::recursive_directory_iterator(whole, code))
    if (!allows(entry.path())) return false;
  return !code;
}

void stand_among_copies() {
  std::error_code ignored;
  const auto copies = paths::cache_dir() / "plugins";
  std::filesystem::create_directories(copies, ignored);
  std::filesystem::current_path(copies, ignored);
}

void preload_libraries(const std::vector<std::string>& more) {
  const auto load = [](const char* name) { ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); };
  for (const char* name : {"libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libdl.so.2",
                           "librt.so.1", "libpthread.so.0", "libgomp.so.1"})
    load(name);
  for (const auto& name : more) load(name.c_str());
}

Protection take_own_user(int parent) {
  const std::string why = change_user();
  if (why.empty()) die_with_parent(parent);  // a change of user clears the setting
  return protection("own_user", why);
}

std::vector<Protection> seal(const SandboxPolicy& policy, const Protection& user) {
  using Paths = std::vector<std::filesystem::path>;
  Landlock landlock(policy.read, policy.devices, policy.programs,
                    policy.compiles ? Paths{policy.made} : Paths{});
  std::vector<Protection> all = {user};
  all.push_back(protection("no_new_privileges", no_new_privileges()));
  all.push_back(protection("not_dumpable", not_dumpable()));
  all.push_back(protection("limits", set_limits(user.active, policy)));
  landlock.enforce();
  // A version (ABI) of Landlock brought each of these protections.
  const auto since = [&](const char* name, int abi) {
    std::string why = landlock.why();
    if (why.empty() && landlock.abi() < abi)
      why = "the kernel has version " + std::to_string(landlock.abi()) +
            " of Landlock, needed is " + std::to_string(abi);
    all.push_back(protection(name, why));
  };
  since("landlock_files", 1);
  since("landlock_network", 4);
  since("landlock_signals", 6);
  all.push_back(protection("system_calls",
                           install_syscall_filter({user.active, policy.driver, policy.compiles})));
  return all;
}

std::vector<Protection> unsealed(const std::string& why) {
  std::vector<Protection> all;
  for (const char* name : kProtections) all.push_back(protection(name, why));
  return all;
}

std::string sandbox_line(const std::vector<Protection>& protections) {
  // Protections with the same reason share a sentence.
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const auto& p : protections) {
    if (p.active) continue;
    const auto it = std::find_if(groups.begin(), groups.end(),
                                 [&](const auto& group) { return group.first == p.why; });
    if (it == groups.end())
      groups.push_back({p.why, {p.name}});
    else
      it->second.push_back(p.name);
  }
  std::vector<std::string> sentences;
  for (const auto& [why, names] : groups)
    sentences.push_back(join(names, ", ") + (names.size() > 1 ? " are off (" : " is off (") + why +
                        ")");
  return sentences.empty() ? "" : "Sandbox: " + join(sentences, "; ") + "\n";
}

}  // namespace fk
