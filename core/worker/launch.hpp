// SPDX-License-Identifier: Apache-2.0
// Ranks that a launcher has started: mpirun or srun runs this program once per rank, with a rank's
// cores, devices and limits. The first one is the broker as always. The others lend their place:
// they start the runners of their ranks when they are asked to, and end with who asks: the first
// rank of their machine, which is the broker, or its leader (remote/). All that is read of a
// launcher are environment variables, so nothing of MPI is linked.
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
  std::string job;  // the same for all ranks of one start, and for no other
  int rank = 0, size = 1;
  std::string node;                    // this machine, among those of the job
  int local_rank = 0, local_size = 1;  // of the ranks of this machine, which it counts by itself
  bool one_machine() const { return local_size == size; }
};

// Of Open MPI, Slurm's steps, and what speaks PMI (MPICH, Intel MPI); nothing for one rank.
// `value_of` is getenv(). Error when a launcher's numbers make no sense.
std::optional<Launch> launch_from(const std::function<const char*(const char*)>& value_of);

// A place at a rank other than the first, as the broker holds it. [any thread]
class LaunchAgent {
 public:
  LaunchAgent(int rank, pid_t pid, std::unique_ptr<Channel> channel)
      : rank_(rank), pid_(pid), channel_(std::move(channel)) {}
  LaunchAgent(const LaunchAgent&) = delete;

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }  // parent of what it starts
  // Starts a child there with these as descriptors 3, and 1 and 2. Error when it cannot.
  pid_t spawn(const std::string& executable, const std::vector<std::string>& arguments,
              int control_fd, int log_fd);
  // The wait status of such a child once it has ended. When the place is gone, so is the child.
  std::optional<int> status(pid_t child);

 private:
  const int rank_;
  const pid_t pid_;
  std::unique_ptr<Channel> channel_;
  std::mutex mutex_;
  std::map<pid_t, int> ended_;
};

// In the first rank of a machine: waits for the places of its others, which agent_of_rank() has
// from then on. The ranks of the machine, or Error when some did not come.
std::vector<int> await_agents(const Launch& launch, double patience_s);
// Null where this process starts the runners of a rank.
LaunchAgent* agent_of_rank(int rank);
// In its other ranks: serves until that one ends, and returns an exit code. Error when there is
// none.
int serve_agent(const Launch& launch, double patience_s);

}  // namespace fk
