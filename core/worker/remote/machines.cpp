// SPDX-License-Identifier: Apache-2.0
// Keeps the other machines of the run and their connections. A process has at most one run, so the
// list is static.
#include "core/worker/remote/machines.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/machine.hpp"
#include "core/base/text.hpp"
#include "core/worker/remote/messages.hpp"

namespace fk {

namespace {

constexpr double kMachineAnswerS = 30;  // seconds for an answer of a leader

// The other machines of this process's run.
struct Others {
  std::unique_ptr<LinkListener> listener;
  std::vector<std::unique_ptr<Machine>> all;
};
Others& others() {
  static Others one;
  return one;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> words;
  for (const int r : ranks) words.push_back(std::to_string(r));
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(words, ", ");
}

// The fault of a process that wants to lead these ranks; empty: none. `have`, by rank: already led.
std::string objection(const messages::LeaderHello& hello, const std::vector<bool>& have) {
  if (hello.size != static_cast<int>(have.size())) return "it was started for another job";
  if (hello.program != own_build_id()) return "it has another build of this program";
  if (hello.ranks.empty()) return "it has no ranks";
  for (const int r : hello.ranks)
    if (r < 1 || r >= static_cast<int>(have.size()) || have[static_cast<size_t>(r)])
      return "its rank " + std::to_string(r) + " cannot be";
  return "";
}

}  // namespace

LinkPlace link_place(const Launch& launch, const std::string& key) {
  const std::string several = "its processes are on several machines, and ";
  const std::string hint =
      "pass MASTER_ADDR (the host of rank 0), MASTER_PORT and FK_LAUNCH_KEY (a secret of at least "
      "16 characters) to all ranks; mpirun does so with -x NAME";
  LinkPlace place{environment("MASTER_ADDR"), 0, key};
  const std::string port = environment("MASTER_PORT");
  if (place.host.empty()) fail(launch.by, several + "MASTER_ADDR is not set", hint);
  if (port.empty()) fail(launch.by, several + "MASTER_PORT is not set", hint);
  char* end = nullptr;
  place.port = static_cast<int>(std::clamp(std::strtol(port.c_str(), &end, 10), 0L, 65536L));
  if (*end || place.port < 1 || place.port > 65535)
    fail("MASTER_PORT", "`" + excerpt(port) + "` is not a port");
  if (key.size() < 16)
    fail(launch.by,
         several + std::string(kLaunchKey) + (key.empty() ? " is not set" : " is too short"), hint);
  return place;
}

Machine::Machine(std::string name, std::vector<int> ranks, std::unique_ptr<Channel> control,
                 LinkListener& listener, std::string key)
    : name_(std::move(name)),
      ranks_(std::move(ranks)),
      listener_(listener),
      key_(std::move(key)),
      control_(std::move(control)),
      heard_s_(now_seconds()) {}

std::string Machine::who() const { return ranks_text(ranks_); }

int Machine::open(Json what, uint64_t& id) {
  static std::atomic<uint64_t> last = kControlLink;
  static std::mutex one_at_a_time;  // for all machines, which connect to the same port
  id = ++last;
  what["open"] = id;
  const std::lock_guard lock(one_at_a_time);
  tell(what);
  for (const double end = now_seconds() + kMachineAnswerS; now_seconds() < end;) {
    const auto link = listener_.accept(key_, std::min(1.0, end - now_seconds()));
    if (link && link->id == id) return link->fd;
    if (link) ::close(link->fd);
    if (const std::string why = gone(); !why.empty()) fail(who(), why);
  }
  fail(who(), "its machine, " + name_ + ", does not answer");
}

void Machine::tell(const Json& message) {
  const std::lock_guard lock(mutex_);
  if (gone_.empty() && !control_->send(message, {}, kMachineAnswerS))
    gone_ = "its machine, " + name_ + ", does not listen";
}

std::string Machine::gone() {
  constexpr double kOftenS = 1;  // seconds of silence before the controller asks
  const std::lock_guard lock(mutex_);
  const double now = now_seconds();
  try {
    while (gone_.empty() && control_->receive()) heard_s_ = now, asked_s_ = 0;
    if (gone_.empty() && control_->closed())
      gone_ = "its machine, " + name_ + ", is gone: the connection has ended";
  } catch (const std::exception& e) {
    gone_ = "its machine, " + name_ + ", talks nonsense: " + e.what();
  }
  if (gone_.empty() && asked_s_ == 0 && now - heard_s_ > kOftenS) {
    control_->send(message_json(messages::Lives{}), {}, 0);
    asked_s_ = now;
  }
  if (gone_.empty() && asked_s_ > 0 && now - asked_s_ > kSilenceS)
    gone_ = "its machine, " + name_ + ", gave no sign of life for " + human_duration(kSilenceS);
  return gone_;
}

void await_machines(const Launch& launch, const LinkPlace& place, const std::vector<int>& here,
                    double patience_s) {
  Others& all = others();
  all.listener = std::make_unique<LinkListener>(place.port);
  std::vector<bool> have(static_cast<size_t>(launch.size));
  for (const int r : here) have[static_cast<size_t>(r)] = true;
  const double end = now_seconds() + patience_s;
  const auto missing = [&] { return std::find(have.begin(), have.end(), false) != have.end(); };
  while (missing() && now_seconds() < end) {
    const auto link = all.listener->accept(place.key, end - now_seconds());
    if (!link) break;
    auto channel = std::make_unique<Channel>(link->fd, false);
    std::optional<Json> said;
    for (const double by = now_seconds() + kMachineAnswerS;
         !channel->closed() && now_seconds() < by;) {
      if ((said = channel->receive())) break;
      wait_readable(channel->fd(), by - now_seconds());
    }
    if (!said || link->id != kControlLink) continue;
    auto hello = from_fields<messages::LeaderHello>(*said, "a machine", kForeignMessage);
    const auto name = bounded(excerpt(hello.host).c_str(), 64);
    if (const std::string why = objection(hello, have); !why.empty()) {
      channel->send(to_fields(messages::Welcome{why}), {}, kMachineAnswerS);
      fail(launch.by, "the machine " + name + " cannot take part: " + why);
    }
    channel->send(to_fields(messages::Welcome{}), {}, kMachineAnswerS);
    for (const int r : hello.ranks) have[static_cast<size_t>(r)] = true;
    all.all.push_back(std::make_unique<Machine>(name, std::move(hello.ranks), std::move(channel),
                                                *all.listener, place.key));
  }
  std::vector<int> late;
  for (int r = 0; r < launch.size; ++r)
    if (!have[static_cast<size_t>(r)]) late.push_back(r);
  if (late.empty()) return;
  const int strangers = all.listener->strangers();
  fail(launch.by,
       ranks_text(late) + " did not come to port " + std::to_string(place.port) + " within " +
           human_duration(patience_s) +
           (strangers ? ", and " + std::to_string(strangers) + " came without the key" : ""),
       "MASTER_ADDR, MASTER_PORT and FK_LAUNCH_KEY have to be the same everywhere");
}

const std::vector<std::unique_ptr<Machine>>& machines() { return others().all; }

Machine* machine_of_rank(int rank) {
  for (const auto& machine : machines()) {
    const auto& ranks = machine->ranks();
    if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) return machine.get();
  }
  return nullptr;
}

int ranks_here(int64_t size) { return seat_of_rank(0, static_cast<int>(size)).local_size; }

RankSeat seat_of_rank(int rank, int size) {
  const Machine* machine = machine_of_rank(rank);
  RankSeat seat{rank, size, 0, 0};
  for (int r = 0; r < size; ++r) {
    if (machine_of_rank(r) != machine) continue;
    seat.local_rank += r < rank;
    ++seat.local_size;
  }
  return seat;
}

}  // namespace fk
