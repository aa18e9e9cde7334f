// SPDX-License-Identifier: Apache-2.0
// A child process that runs this same program again, with what it prints kept, and no way to
// outlive its parent.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fk {

class LaunchAgent;

// Starts `executable arguments...` in a process group of its own, without input, with these as
// descriptors 3, and 1 and 2, and nothing else. The descriptors stay the caller's. Error when it
// cannot. Of this process's environment it gets what libraries read, or all of it.
enum class Environment { of_libraries, all };
pid_t spawn_child(const std::string& executable, const std::vector<std::string>& arguments,
                  int control_fd, int log_fd, Environment environment = Environment::of_libraries);

class ChildProcess {
 public:
  // Starts `executable arguments...` in a process group of its own, with `control_fd` as descriptor
  // 3, no input, and both outputs captured. Everything else is closed. Error when it cannot. To be
  // called from a thread that lives as long as the child: its death kills the child.
  // With an agent (launch.hpp) it is that one's child, to which the same happens, with that one's
  // environment of libraries.
  ChildProcess(const std::string& executable, const std::vector<std::string>& arguments,
               int control_fd, LaunchAgent* agent = nullptr,
               Environment environment = Environment::of_libraries);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();  // kills the whole group and waits

  pid_t pid() const { return pid_; }
  int log_fd() const { return log_fd_; }
  // Takes in what has been printed; never blocks.
  void read_log();
  // At most 64 KiB: the beginning and the end. Control characters but newline and tab become `?`.
  std::string log() const;
  // The wait status once it has ended.
  std::optional<int> status();
  // Waits for the end; nullopt when the time is over.
  std::optional<int> wait(double timeout_s);
  void kill();  // SIGKILL to the group
  // Sends it a signal, which it may block or have stopped for; nothing when it has ended.
  void signal(int number);
  // Stops the process and returns when all its threads stand still; false when it has ended, or
  // cannot be stopped.
  bool freeze();
  // Tells it to stop and does not wait; freeze() follows.
  void begin_freeze();
  // Lets it go on. False when it has worked while it stood still, and does so again and again;
  // looked at is the time after the last freeze() of one that had been stopped before.
  bool thaw();
  // What all its threads have used of the processors, in seconds; one that is running is behind by
  // up to a tick of the kernel. Nothing when it is gone.
  std::optional<double> worked_s() const;
  // How many threads it has now, as the kernel counts them; 0 when it has ended.
  int threads() const;

 private:
  LaunchAgent* const agent_;
  pid_t pid_ = -1;
  int log_fd_ = -1;
  std::optional<int> status_;
  std::string head_, tail_;
  bool cut_ = false, killed_ = false;
  bool stopped_ = false;
  std::optional<int64_t> worked_ns_;    // of the processor, when it stood still
  int stops_ = 0, worked_stopped_ = 0;  // that were looked at; in how many it worked
};

// The signals that a process handles, signal n as bit n - 1, as the kernel tells it to somebody
// else; nothing when it is gone.
std::optional<uint64_t> handled_signals(pid_t pid);
// Private memory of a process in bytes (VmData of /proc); 0 when it cannot be read.
int64_t private_bytes(pid_t pid);
// Anonymous memory in bytes that the process has touched; 0 when it cannot be read.
int64_t resident_bytes(pid_t pid);
// Whether this process has started it, or one that has; also of itself. False when it is gone.
bool is_own_process(pid_t pid);
// In the child: die with the parent. Exits when that is gone already.
void die_with_parent(pid_t parent);
// Asks the scheduler to let this thread run as soon as it wakes up, so that results are stamped
// when they arrive even where all cores compute. Children do not inherit it. Does what it is
// allowed to.
void wake_up_quickly();
// "SIGSEGV"
std::string signal_name(int number);

}  // namespace fk
