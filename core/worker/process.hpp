// SPDX-License-Identifier: Apache-2.0
// A child process that runs this program again. Its output is kept, and it cannot outlive its
// parent.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fk {

class LaunchAgent;

// Starts `executable arguments...` in its own process group, without input. `control_fd` becomes
// its descriptor 3, `log_fd` its 1 and 2, and it has no others. The caller keeps both. Error when
// it fails. The child gets the environment variables that libraries read, or all variables.
enum class Environment { of_libraries, all };
// The variables that libraries read, without secrets; with those that compilers read, on request.
// They point into this process's environment and end with a null pointer.
std::vector<char*> environment_of_libraries(bool compilers = false);
pid_t spawn_child(const std::string& executable, const std::vector<std::string>& arguments,
                  int control_fd, int log_fd, Environment environment = Environment::of_libraries);

class ChildProcess {
 public:
  // Starts `executable arguments...` in its own process group, with `control_fd` as descriptor 3,
  // no input, and both outputs captured. Other descriptors are closed. Error when it fails. Call it
  // from a thread that lives as long as the child: the thread's end kills the child.
  // With an agent (launch.hpp), the agent starts the child in the same way, with the agent's
  // environment for libraries.
  ChildProcess(const std::string& executable, const std::vector<std::string>& arguments,
               int control_fd, LaunchAgent* agent = nullptr,
               Environment environment = Environment::of_libraries);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();  // kills the whole group and waits

  pid_t pid() const { return pid_; }
  int log_fd() const { return log_fd_; }
  // Reads the output printed so far; never blocks.
  void read_log();
  // At most 64 KiB: the beginning and the end. Control characters except newline and tab become
  // `?`.
  std::string log() const;
  // The wait status after the end of the process.
  std::optional<int> status();
  // Waits for the end; nullopt at the end of the time.
  std::optional<int> wait(double timeout_s);
  void kill();  // SIGKILL to the group
  // Sends a signal, which the process may block, or not receive while stopped. No effect after its
  // end.
  void signal(int number);
  // Stops the process and returns when all its threads are stopped. False when it has ended or
  // cannot be stopped.
  bool freeze();
  // Sends the stop signal and does not wait; freeze() must follow.
  void begin_freeze();
  // Continues the process. False if it repeatedly used processor time while stopped. The checked
  // interval begins after the last freeze() of an already stopped process.
  bool thaw();
  // Processor time of all its threads, in seconds; a running thread's time is late by up to a
  // kernel tick. Nothing after its end.
  std::optional<double> worked_s() const;
  // The kernel's present count of its threads; 0 after its end.
  int threads() const;

 private:
  LaunchAgent* const agent_;
  pid_t pid_ = -1;
  int log_fd_ = -1;
  std::optional<int> status_;
  std::string head_, tail_;
  bool cut_ = false, killed_ = false;
  bool stopped_ = false;
  std::optional<int64_t> worked_ns_;    // processor time when it was stopped
  int stops_ = 0, worked_stopped_ = 0;  // checked stops; stops in which it worked
};

// The signals that a process handles, from the kernel: signal n is bit n - 1. Nothing after its
// end.
std::optional<uint64_t> handled_signals(pid_t pid);
// Private memory of a process in bytes (VmData of /proc); 0 when it cannot be read.
int64_t private_bytes(pid_t pid);
// Anonymous memory in bytes that the process has touched; 0 when it cannot be read.
int64_t resident_bytes(pid_t pid);
// True for this process, its children and their descendants. False if the process has ended.
bool is_own_process(pid_t pid);
// In the child: die with the parent. Exits if the parent has already ended.
void die_with_parent(pid_t parent);
// Asks the scheduler to run this thread at once on wake-up, so that results get their time of
// arrival even if all cores compute. Children do not inherit it. Has no effect without the
// permission.
void wake_up_quickly();
// "SIGSEGV"
std::string signal_name(int number);

}  // namespace fk
