// SPDX-License-Identifier: Apache-2.0
// The other machines of a run as the broker holds them. The first rank of each is its leader
// (leader.hpp), which starts and holds the runners of its machine's ranks; the broker has one
// connection to it for the whole run, and one more for each thing that it asks for.
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

// Where the machines of a job meet.
struct LinkPlace {
  std::string host;
  int port = 0;
  std::string key;
};
// As torch.distributed has it: MASTER_ADDR and MASTER_PORT. Error when they are missing, or the key
// is missing or short.
LinkPlace link_place(const Launch& launch, const std::string& key);

inline constexpr uint64_t kControlLink = 0;  // the connection for the whole run

class Machine {  // [any thread]
 public:
  static constexpr double kSilenceS = 10;  // a leader that lives answers within

  Machine(std::string name, std::vector<int> ranks, std::unique_ptr<Channel> control,
          LinkListener& listener, std::string key);

  const std::string& name() const { return name_; }
  const std::vector<int>& ranks() const { return ranks_; }
  std::string who() const;  // "ranks 2, 3"
  // A further connection, for `what`; the caller's. `id` is the number of what is at its other end.
  // Error when it does not come.
  int open(Json what, uint64_t& id);
  void tell(const Json& message);
  // Why nothing more is to be expected of it; empty: it lives.
  std::string gone();

 private:
  const std::string name_;
  const std::vector<int> ranks_;
  LinkListener& listener_;
  const std::string key_;
  std::mutex mutex_;
  std::unique_ptr<Channel> control_;
  double heard_s_, asked_s_ = 0;  // asked and not heard since; 0: nothing is open
  std::string gone_;
};

// In the first rank: waits until there is a machine for each rank that is not among `here`;
// machines() has them from then on. Error with the ranks that did not come.
void await_machines(const Launch& launch, const LinkPlace& place, const std::vector<int>& here,
                    double patience_s);
const std::vector<std::unique_ptr<Machine>>& machines();
// Null where the rank is on this machine.
Machine* machine_of_rank(int rank);
// The seat of one of so many ranks, as the broker knows them.
RankSeat seat_of_rank(int rank, int size);
// How many of them are on this machine.
int ranks_here(int64_t size);

}  // namespace fk
