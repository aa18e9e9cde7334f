// SPDX-License-Identifier: Apache-2.0
// Ranks started by a launcher: mpirun or srun runs this program once per rank, with a rank's cores,
// devices and limits. The first process is the controller. The others lend their place, which is
// their cores, devices and limits: they start the workers of their ranks on request. They obey the
// first rank of their machine, and end with it. It is the controller, or the machine's leader
// (remote/). Only the launcher's environment variables are read, so no MPI is linked.
#pragma once
#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/worker/channel.hpp"

namespace fk {

struct Launch {
  std::string by;   // "mpirun"
  std::string job;  // equal for all ranks of one start, and unique
  int rank = 0, size = 1;
  std::string node;                    // this machine's name within the job
  int local_rank = 0, local_size = 1;  // among the ranks of this machine, counted by this program
  bool one_machine() const { return local_size == size; }
};

// From variables of Open MPI, Slurm's steps, and PMI (MPICH, Intel MPI); nothing for one rank.
// `value_of` is getenv(). Error for contradictory numbers of a launcher.
std::optional<Launch> launch_from(const std::function<const char*(const char*)>& value_of);

// In the first rank of a machine: the handle of another rank's process there. [any thread]
class LaunchAgent {
 public:
  LaunchAgent(int rank, pid_t pid, std::unique_ptr<Channel> channel)
      : rank_(rank), pid_(pid), channel_(std::move(channel)) {}
  LaunchAgent(const LaunchAgent&) = delete;

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }  // parent of the processes that it starts
  // Starts a child of that process. `control_fd` becomes its descriptor 3, `log_fd` its 1 and 2.
  // Error when it fails.
  pid_t spawn(const std::string& executable, const std::vector<std::string>& arguments,
              int control_fd, int log_fd);
  // The wait status of such a child after its end. The child counts as killed if the process of the
  // rank has ended.
  std::optional<int> status(pid_t child);

 private:
  const int rank_;
  const pid_t pid_;
  std::unique_ptr<Channel> channel_;
  std::mutex mutex_;
  std::map<pid_t, int> ended_;
};

// In the first rank of a machine: waits for the processes of the machine's other ranks, which
// agent_of_rank() then returns. Returns the ranks of the machine. Error when some did not come.
std::vector<int> await_agents(const Launch& launch, double patience_s);
// Null if this process itself starts the workers of the rank.
LaunchAgent* agent_of_rank(int rank);
// In the other ranks of a machine: serves until the first rank ends, and returns an exit code.
// Error when there is no first rank.
int serve_agent(const Launch& launch, double patience_s);

}  // namespace fk
