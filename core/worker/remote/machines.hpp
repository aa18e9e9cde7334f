// SPDX-License-Identifier: Apache-2.0
// The controller's handles of the other machines of a run. The first rank of each machine is its
// leader (leader.hpp), which starts and holds the workers of its ranks. The controller has one
// connection to each leader for the whole run. It has one more for each thing that it opens there:
// a worker, weights or a block.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/worker/channel.hpp"
#include "core/worker/launch.hpp"
#include "core/worker/remote/link.hpp"
#include "core/worker/spec.hpp"

namespace fk {

// The address at which the leaders connect to the controller, with the job's key.
struct LinkPlace {
  std::string host;
  int port = 0;
  std::string key;
};
// From MASTER_ADDR and MASTER_PORT, as in torch.distributed. Error when they are missing, or the
// key is missing or too short.
LinkPlace link_place(const Launch& launch, const std::string& key);

inline constexpr uint64_t kControlLink = 0;  // the connection for the whole run

class Machine {  // [any thread]
 public:
  static constexpr double kSilenceS = 10;  // seconds in which a live leader answers

  Machine(std::string name, std::vector<int> ranks, std::unique_ptr<Channel> control,
          LinkListener& listener, std::string key);

  const std::string& name() const { return name_; }
  const std::vector<int>& ranks() const { return ranks_; }
  std::string who() const;  // "ranks 2, 3"
  // Opens a thing there (a worker, weights, a block) and returns its connection; the caller owns
  // it. `id` becomes the thing's number. Error when the connection fails.
  int open(Json what, uint64_t& id);
  void tell(const Json& message);
  // The reason why the machine is unusable; empty: it is alive.
  std::string gone();

 private:
  const std::string name_;
  const std::vector<int> ranks_;
  LinkListener& listener_;
  const std::string key_;
  std::mutex mutex_;
  std::unique_ptr<Channel> control_;
  // times of the last message and of the open question; asked_s_ is 0 without one
  double heard_s_, asked_s_ = 0;
  std::string gone_;
};

// In the first rank: waits until there is a machine for each rank that is not among `here`.
// machines() then has them. Error with the missing ranks.
void await_machines(const Launch& launch, const LinkPlace& place, const std::vector<int>& here,
                    double patience_s);
const std::vector<std::unique_ptr<Machine>>& machines();
// Null if the rank is on this machine.
Machine* machine_of_rank(int rank);
// The seat of a rank, which is its place among `size` ranks and within its machine.
RankSeat seat_of_rank(int rank, int size);
// Number of ranks on this machine.
int ranks_here(int64_t size);

}  // namespace fk
