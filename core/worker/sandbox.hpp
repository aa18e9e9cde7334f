// SPDX-License-Identifier: Apache-2.0
// Rights that a worker gives up before it loads a candidate: its user, files, the network, other
// processes, new programs. This is irrevocable. No step is fatal: a protection that the kernel
// lacks is reported and left out.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/json.hpp"

namespace fk {

// One protection of the host from a candidate.
//   own_user           its own user without possessions (if the host runs as root)
//   no_new_privileges  set-user-id programs cannot return rights
//   not_dumpable       no core dump; processes of the same user cannot inspect it
//   limits             open files, file sizes, cores; threads, if it has its own user
//   landlock_files     only the policy's files can be opened, for reading
//   landlock_network   no TCP
//   landlock_signals   no signals to other processes and no abstract sockets of theirs
//   system_calls       a filter: no new processes and programs, no sockets, no inspection
struct Protection {
  std::string name;
  bool active = false;
  std::string why;  // why it is not active
};
template <class Visitor>
void fields(Visitor& v, Protection& p) {
  v("name", p.name, "of a protection");
  v("active", p.active, "whether this verdict had it");
  v("why", p.why, "why not, or what it covers");
}

struct SandboxPolicy {
  std::vector<std::filesystem::path> read;     // files, and folders with everything below
  std::vector<std::filesystem::path> devices;  // also for writing and ioctl
  // A GPU's driver opens its devices for writing, shares memory, and has started threads before.
  bool driver = false;
  // The driver compiles kernels in the process that calls it, and needs a folder for its files.
  bool compiles = false;
  std::filesystem::path made;                   // this folder; empty: none
  std::vector<std::filesystem::path> programs;  // which the compiler starts
  // Files that the host's own code needs after sealing on this device. The caller adds the
  // candidate's files.
  static SandboxPolicy of(const std::string& device);
  static bool any_device_compiles();  // of the loaded backends
};

// Makes the folder for files of a driver's compiler in process `pid`, and tells the drivers. Call
// it in this process, as its last user. Error when it exists or cannot be made.
void make_compiler_folder(int pid);
// In TMPDIR, or in /tmp where other users cannot write into TMPDIR: all processes find the same
// one.
std::filesystem::path compiler_folder(int pid);
// Removes the folder of an ended process, if it has one.
void remove_compiler_folder(int pid);

// True if every user may read this file, or this folder and its files.
bool everybody_reads(const std::filesystem::path& path);

// Changes the working directory to the folder of loaded copies. Any user's files may lie in the
// host's first directory, and LD_LIBRARY_PATH may lead there (an empty entry). No copy has the name
// of a library that a candidate may link.
void stand_among_copies();
// Loads the libraries that plugins and the C library may need, and `more`: none can be opened
// later. Missing libraries are left out; their plugins will report them.
void preload_libraries(const std::vector<std::string>& more);

// Changes to its own user and group, for this process only; needs root. Call it before a device is
// opened, because drivers remember their opener. Afterwards the process still dies with `parent`.
Protection take_own_user(int parent);

// All other protections, irrevocably and for all threads. `user` is the result of take_own_user().
// Returns all protections, in the order above.
std::vector<Protection> seal(const SandboxPolicy& policy, const Protection& user);

// The list for a worker that must not be sealed.
std::vector<Protection> unsealed(const std::string& why);

// "Sandbox: own_user is off (the host was not started as root)\n"; empty when all are active.
std::string sandbox_line(const std::vector<Protection>& protections);

}  // namespace fk
