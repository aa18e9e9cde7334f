// SPDX-License-Identifier: Apache-2.0
// Finds this process's rank in a launcher's variables, and connects the processes of one machine.
// The first rank listens at an abstract Unix socket, whose name has the user, the job and the
// machine. The other ranks connect to it (launch.hpp).
#include "core/worker/launch.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/comm/meeting.hpp"
#include "core/worker/process.hpp"

namespace fk {

namespace {

constexpr double kAnswerS = 30;  // for each answer of a process

// Names of a launcher's environment variables; null: it has no such variable.
struct Words {
  const char *by, *rank, *size;  // by: the launcher's name in messages
  std::vector<const char*> job;  // the job's name is made of all of these
  const char *node, *local_rank, *local_size;
  // If `node` is a number: the local sizes of all machines ("2(x3),1"), and the number of machines.
  const char *tasks, *nodes;
};

// The most specific launcher first: a launcher that imitates another one sets its variables too.
const std::vector<Words>& launchers() {
  static const std::vector<Words> all = {
      // PMIX_SERVER_TMPDIR stands for the machine: two daemons on one machine have the same node
      // name.
      {"mpirun",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       {"PMIX_NAMESPACE"},
       "PMIX_SERVER_TMPDIR",
       "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE",
       /*tasks=*/nullptr,
       /*nodes=*/nullptr},
      {"mpirun",
       "PMI_RANK",
       "PMI_SIZE",
       {"PMI_ID"},
       /*node=*/nullptr,
       "MPI_LOCALRANKID",
       "MPI_LOCALNRANKS",
       /*tasks=*/nullptr,
       /*nodes=*/nullptr},
      // The step's variables count: a batch script outside of a step is one process, for any number
      // of tasks.
      {"srun",
       "SLURM_PROCID",
       "SLURM_STEP_NUM_TASKS",
       {"SLURM_JOB_ID", "SLURM_STEP_ID"},
       "SLURM_NODEID",
       "SLURM_LOCALID",
       /*local_size=*/nullptr,
       "SLURM_STEP_TASKS_PER_NODE",
       "SLURM_STEP_NUM_NODES"}};
  return all;
}

int number(const char* name, const char* text, int low, int high) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end || value < low || value > high)
    fail(name, "`" + excerpt(text) + "` is not a number from " + std::to_string(low) + " to " +
                   std::to_string(high));
  return static_cast<int>(value);
}

// Number of tasks on machine `node`, counted from 0, by a text like "2(x3),1".
int tasks_of(const char* name, const std::string& text, int node, int most) {
  for (const std::string& part : split(text, ',')) {
    const size_t times = part.find("(x");
    const int here = number(name, part.substr(0, times).c_str(), 1, most);
    if (times != std::string::npos)
      node -= number(name, part.substr(times + 2, part.size() - times - 3).c_str(), 1, most);
    else
      --node;
    if (node < 0) return here;
  }
  fail(name, "`" + excerpt(text) + "` does not have this machine");
}

// Finds the number of ranks on this machine, and the index of this rank among them. Without
// variables for machines there is one machine.
void find_machine(Launch& launch, const Words& words,
                  const std::function<const char*(const char*)>& value_of) {
  const auto value = [&](const char* name) { return name ? value_of(name) : nullptr; };
  if (const char* node = value(words.node)) launch.node = node;
  const char *tasks = value(words.tasks), *local_size = value(words.local_size),
             *local_rank = value(words.local_rank), *nodes = value(words.nodes);
  launch.local_size = launch.size;
  if (local_size)
    launch.local_size = number(words.local_size, local_size, 1, launch.size);
  else if (tasks)
    launch.local_size = tasks_of(
        words.tasks, tasks, number(words.node, launch.node.c_str(), 0, kRanksMax - 1), launch.size);
  else if (nodes && number(words.nodes, nodes, 1, 1 << 20) > 1)
    fail(words.by, std::string("it does not say ") + words.tasks);
  launch.local_rank = launch.rank;
  if (local_rank && !launch.one_machine())
    launch.local_rank = number(words.local_rank, local_rank, 0, launch.local_size - 1);
  else if (!launch.one_machine())
    fail(words.by, std::string("it does not say ") + words.local_rank);
  if (launch.rank == 0 && launch.local_rank != 0)
    fail(words.by, "rank 0 is not the first of its machine");
}

sockaddr_un address_of(const Launch& launch) {
  const std::string name = "fk-host-" + std::to_string(::getuid()) + "-" +
                           sha256(launch.job + " " + launch.node).substr(0, 32);
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  std::memcpy(out.sun_path + 1, name.data(), std::min(name.size(), sizeof out.sun_path - 1));
  return out;
}

int unix_socket() {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("launcher", "no socket: " + errno_text());
  return fd;
}

// The next message; nothing at the end of the time or of the peer.
std::optional<Json> next(Channel& channel, double patience_s) {
  for (const double end = now_seconds() + patience_s;;) {
    if (auto message = channel.receive()) return message;
    if (channel.closed() || now_seconds() >= end) return std::nullopt;
    wait_readable(channel.fd(), end - now_seconds());
  }
}

// In the first rank of a machine: its handles of the other ranks there, by rank.
std::map<int, std::unique_ptr<LaunchAgent>>& agents() {
  static std::map<int, std::unique_ptr<LaunchAgent>> all;
  return all;
}

}  // namespace

std::optional<Launch> launch_from(const std::function<const char*(const char*)>& value_of) {
  for (const Words& words : launchers()) {
    const char *rank = value_of(words.rank), *size = value_of(words.size);
    if (!rank || !size) continue;
    Launch out;
    out.by = words.by;
    out.size = number(words.size, size, 1, 1 << 20);
    if (out.size == 1) return std::nullopt;
    if (out.size > kRanksMax)
      fail(words.by, "it started " + std::to_string(out.size) + " processes",
           "there are at most " + std::to_string(kRanksMax) + " ranks");
    out.rank = number(words.rank, rank, 0, out.size - 1);
    // A job without a name is named after the common parent process.
    for (const char* part : words.job) {
      const char* value = value_of(part);
      out.job += value ? std::string("/") + value : "/parent " + std::to_string(::getppid());
    }
    find_machine(out, words, value_of);
    return out;
  }
  return std::nullopt;
}

// ---- in the controller ----

pid_t LaunchAgent::spawn(const std::string& executable, const std::vector<std::string>& arguments,
                         int control_fd, int log_fd) {
  const std::lock_guard lock(mutex_);
  const std::string where = "rank " + std::to_string(rank_);
  if (!channel_->send({{"spawn", executable}, {"arguments", arguments}}, {control_fd, log_fd},
                      kAnswerS))
    fail(where, "its process is gone");
  for (;;) {
    const auto answer = next(*channel_, kAnswerS);
    if (!answer) fail(where, "its process does not answer");
    if (answer->contains("error")) fail(where, answer->at("error").get<std::string>());
    if (answer->contains("pid")) return answer->at("pid").get<pid_t>();
    if (answer->contains("ended"))
      ended_[answer->at("ended").get<pid_t>()] = answer->at("status").get<int>();
  }
}

std::optional<int> LaunchAgent::status(pid_t child) {
  const std::lock_guard lock(mutex_);
  while (const auto message = channel_->receive())
    if (message->contains("ended"))
      ended_[message->at("ended").get<pid_t>()] = message->at("status").get<int>();
  const auto it = ended_.find(child);
  if (it != ended_.end()) return it->second;
  return channel_->closed() ? std::optional<int>(SIGKILL) : std::nullopt;
}

std::vector<int> await_agents(const Launch& launch, double patience_s) {
  const int listener = unix_socket();
  const sockaddr_un name = address_of(launch);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
      ::listen(listener, launch.size) != 0) {
    const int code = errno;
    ::close(listener);
    fail(launch.by, std::string("its ranks cannot meet: ") + std::strerror(code));
  }
  const double end = now_seconds() + patience_s;
  while (static_cast<int>(agents().size()) < launch.local_size - 1 && now_seconds() < end) {
    if (!wait_readable(listener, end - now_seconds())) continue;
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    auto channel = std::make_unique<Channel>(fd, false);
    const auto pid = peer_of(fd);
    if (!pid) continue;  // the place's name is no secret: any process may connect
    const auto hello = next(*channel, kAnswerS);
    const int rank = hello ? hello->value("rank", -1) : -1;
    if (rank > launch.rank && rank < launch.size)
      agents()[rank] = std::make_unique<LaunchAgent>(rank, *pid, std::move(channel));
  }
  ::close(listener);
  std::vector<int> ranks = {launch.rank};
  for (const auto& [rank, agent] : agents()) ranks.push_back(rank);
  if (static_cast<int>(ranks.size()) == launch.local_size) return ranks;
  // Only a job on one machine tells which ranks are missing.
  std::string missing;
  for (int r = 1; r < launch.size; ++r)
    if (!agent_of_rank(r)) missing += (missing.empty() ? "" : ", ") + std::to_string(r);
  fail(launch.by, "of its ranks these did not start within " + human_duration(patience_s) + ": " +
                      (launch.one_machine()
                           ? missing
                           : std::to_string(launch.local_size - static_cast<int>(ranks.size())) +
                                 " of the " + std::to_string(launch.local_size) +
                                 " on the machine of rank " + std::to_string(launch.rank)));
}

LaunchAgent* agent_of_rank(int rank) {
  const auto it = agents().find(rank);
  return it == agents().end() ? nullptr : it->second.get();
}

// ---- in the other ranks ----

namespace {

int connect_to_first(const Launch& launch, double patience_s) {
  const sockaddr_un name = address_of(launch);
  for (const double end = now_seconds() + patience_s;;) {
    const int fd = unix_socket();
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) return fd;
    ::close(fd);
    if (now_seconds() >= end) fail(launch.by, "the first rank of this machine did not come");
    ::usleep(20000);
  }
}

// In another rank: starts workers when the first rank asks for one, and reports their ends.
class RankPlace {
 public:
  explicit RankPlace(int fd) : channel_(fd, true) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child, nullptr);
    signals_ = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  RankPlace(const RankPlace&) = delete;
  ~RankPlace() {
    for (const pid_t child : children_) ::kill(-child, SIGKILL);
    for (const pid_t child : children_) ::waitpid(child, nullptr, 0);
    ::close(signals_);
  }

  void serve(int rank) {
    channel_.send({{"rank", rank}}, {}, kAnswerS);
    while (!channel_.closed()) {
      while (const auto message = channel_.receive()) start(*message);
      report_ended();
      std::array<pollfd, 2> both{pollfd{channel_.fd(), POLLIN, 0}, pollfd{signals_, POLLIN, 0}};
      if (!channel_.closed()) ::poll(both.data(), both.size(), 1000);
    }
  }

 private:
  void start(const Json& message) {
    const auto fds = channel_.take_fds();
    Json answer;
    try {
      if (fds.size() != 2) fail("spawn", "it brings two descriptors");
      const pid_t pid =
          spawn_child(message.at("spawn").get<std::string>(),
                      message.at("arguments").get<std::vector<std::string>>(), fds[0], fds[1]);
      children_.insert(pid);
      answer = {{"pid", pid}};
    } catch (const std::exception& e) {
      answer = {{"error", e.what()}};
    }
    for (const int fd : fds) ::close(fd);
    channel_.send(answer, {}, kAnswerS);
  }

  void report_ended() {
    signalfd_siginfo ignored;
    while (::read(signals_, &ignored, sizeof ignored) > 0) {
    }
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      children_.erase(pid);
      channel_.send({{"ended", pid}, {"status", status}}, {}, kAnswerS);
    }
  }

  Channel channel_;
  int signals_ = -1;
  std::set<pid_t> children_;
};

}  // namespace

int serve_agent(const Launch& launch, double patience_s) {
  const int fd = connect_to_first(launch, patience_s);
  RankPlace place(fd);
  if (!peer_of(fd)) fail(launch.by, "another user owns the rendezvous file of this job");
  place.serve(launch.rank);
  return 0;
}

}  // namespace fk
