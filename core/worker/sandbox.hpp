// SPDX-License-Identifier: Apache-2.0
// What a runner process gives up before it loads a candidate: its user, files, the network, other
// processes, new programs. Nothing of it can be had back, and nothing of it is fatal: what the
// kernel does not offer is said and left out.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/json.hpp"

namespace fk {

// One thing that protects the host from a candidate.
//   own_user           a user of its own that owns nothing (where the host runs as root)
//   no_new_privileges  no set-user-id program can give anything back
//   not_dumpable       no core, and other processes of the same user cannot look inside
//   limits             of open files, file sizes, cores, and of threads where it has its own user
//   landlock_files     only the files of the policy can be opened, for reading
//   landlock_network   no TCP
//   landlock_signals   no signals to and no abstract sockets of other processes
//   system_calls       a filter: no new processes and programs, no sockets, no looking into others
struct Protection {
  std::string name;
  bool active = false;
  std::string why;  // when it is not active
};

struct SandboxPolicy {
  std::vector<std::filesystem::path> read;     // files, and folders with all that is below them
  std::vector<std::filesystem::path> devices;  // also written to and asked by ioctl
  // A GPU's driver opens its devices for writing, shares memory and has threads that exist before.
  bool driver = false;
  // What the host's own code needs after sealing on this device; the candidate's files are to be
  // added.
  static SandboxPolicy of(const std::string& device);
};

// Whether any user may read this file, or this folder and what is in it.
bool everybody_reads(const std::filesystem::path& path);

// Where the host was started anybody's files may lie, and a search path of the user's may lead
// there (LD_LIBRARY_PATH with nothing behind its last colon). In the folder of the copies that are
// loaded none is called what a candidate may link.
void stand_among_copies();
// Loads the libraries that plugins and the C library may need, and more, as none can be opened
// later. What there is not is left out: its plugin will say so.
void preload_libraries(const std::vector<std::string>& more);

// Changes to a user and group of its own, for this process alone; only root can. To be called
// before a device is opened, because drivers remember who opened it. Afterwards the process dies
// with `parent` as before.
Protection take_own_user(int parent);

// Everything else, for all threads, irrevocably. `user` is what take_own_user() returned; all are
// in the result, in the order above.
std::vector<Protection> seal(const SandboxPolicy& policy, const Protection& user);

// The list for a runner that was told not to be sealed.
std::vector<Protection> unsealed(const std::string& why);

Json to_json(const std::vector<Protection>& protections);
// Of a runner: bounded texts; entries without a name are dropped.
std::vector<Protection> protections_from(const Json& json);
// "Sandbox: own_user is off (the host was not started as root)\n"; empty when all are active.
std::string sandbox_line(const std::vector<Protection>& protections);

}  // namespace fk
