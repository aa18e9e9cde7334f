// SPDX-License-Identifier: Apache-2.0
// fk-host serve: judges for all `fk-host bench CANDIDATE` and `replay` of this user on this device,
// in order of arrival, until it is interrupted. While idle, it starts the process for the next
// candidate. The oracle then makes contents and answers for the last requested cases, under
// unpublished secrets.
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/fields.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/cli/judged.hpp"
#include "core/cli/serve/serve_http.hpp"
#include "core/cli/serve/server.hpp"
#include "core/cli/verb.hpp"
#include "core/device/rank_device.hpp"
#include "core/judge/judge_pool.hpp"
#include "core/worker/channel.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

constexpr double kAskSeconds = 5;     // limit for a question to arrive
constexpr double kAnswerSeconds = 5;  // limit for a verdict to be taken
constexpr double kTellEvery = 1;      // seconds
constexpr size_t kClientsMax = 64;    // connected clients; others wait for their connection

// Tells that this process must end. Signals wait in a descriptor, so that none is missed.
class Interrupts {
 public:
  Interrupts() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    fd_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd_ < 0) fail("serve", "cannot wait for signals: " + errno_text());
  }
  ~Interrupts() { ::close(fd_); }
  Interrupts(const Interrupts&) = delete;
  int fd() const { return fd_; }
  bool came() const { return wait_readable(fd_, 0); }

 private:
  int fd_ = -1;
};

// Owns the listening socket and its file. Error when another server has it.
class Listener {
 public:
  explicit Listener(const fs::path& path) : path_(path) {
    fs::create_directories(path.parent_path());
    lock_ = ::open((path.string() + ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (lock_ < 0) fail(path.string(), "its lock cannot be made: " + errno_text());
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0)
      fail(path.string(), "another server has it", "only one server can run per user and device");
    ::unlink(path.c_str());  // left by a killed server
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.string().size() + 1);
    const mode_t before = ::umask(0177);
    const bool bound =
        fd_ >= 0 && ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::umask(before);
    if (!bound || ::listen(fd_, SOMAXCONN) != 0)
      fail(path.string(), "cannot listen: " + errno_text());
  }
  ~Listener() {
    ::unlink(path_.c_str());
    ::close(fd_);
    ::close(lock_);
  }
  Listener(const Listener&) = delete;
  int fd() const { return fd_; }
  // -1: no client waits.
  int accept() const { return ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC); }

 private:
  fs::path path_;
  int fd_ = -1, lock_ = -1;
};

// A connected client. Destroyed when its end is closed.
struct Client {
  explicit Client(int fd) : channel(fd, false, kQuestionMost), since_s(now_seconds()) {}
  static constexpr uint32_t kQuestionMost = 1U << 20;  // bytes; other clients wait while it is read
  Channel channel;
  double since_s;
  std::optional<Json> message;
  // A step is reported once per second at most; a finished case always.
  JudgeProgress progress() {
    return {[this](const std::string& what) {
              if (now_seconds() - told_s < kTellEvery) return;
              told_s = now_seconds();
              tell({.step = what});
            },
            [this](const std::string& what) { tell({.ended = what}); }};
  }
  void tell(const ServerMessage& told) {
    hears = hears && channel.send(to_fields(told), {}, kAnswerSeconds);
  }
  double told_s = 0;
  bool hears = true;
  bool gone() const {
    pollfd entry{channel.fd(), POLLRDHUP, 0};
    return ::poll(&entry, 1, 0) > 0;
  }
};

// Paths, sizes and times of all files that the pool has read.
std::string files_text() {
  std::string out;
  const auto add = [&](const fs::path& path) {
    struct stat s {};
    if (::stat(path.c_str(), &s) == 0)
      out += path.string() + " " + std::to_string(s.st_ino) + " " + std::to_string(s.st_size) +
             " " + std::to_string(s.st_mtim.tv_sec) + "." + std::to_string(s.st_mtim.tv_nsec) +
             "\n";
  };
  for (const auto& found : discover(false)) add(found.path);
  for (const auto& dir : paths::registry_dirs())
    for (const auto& entry : fs::recursive_directory_iterator(dir))
      if (entry.is_regular_file()) add(entry.path());
  return out;
}

// The judge pool and its plugins. Made again when a baseline or contract has changed on disk.
class House {
 public:
  House(std::string device, const Interrupts& interrupts)
      : device_(std::move(device)), interrupts_(interrupts) {}

  // Error when the question is wrong. If the client leaves, the result is dropped.
  Verdict judge(const Asked& asked, Client& client) {
    refresh();
    client_ = &client;
    const struct NobodyAsks {
      const Client*& client;
      ~NobodyAsks() { client = nullptr; }
    } after{client_};
    return judge_question(asked.question, asked.secret ? &*asked.secret : nullptr, *catalog_,
                          *plugin_set_, *room_, client.progress());
  }
  bool prepare() {
    refresh();
    return room_->prepare();
  }
  bool busy() const { return room_ && room_->busy(); }

 private:
  void refresh() {
    std::string now = files_text();
    if (room_ && now == seen_) return;
    room_.reset();
    catalog_ = std::make_unique<Catalog>(paths::registry_dirs());
    plugin_set_ = std::make_unique<PluginSet>(PluginSet::of_baselines(device_));
    JudgePool::Options options;
    options.device = device_;
    options.closing = [this] { return interrupts_.came(); };
    options.given_up = [this] { return client_ && client_->gone(); };
    room_ = std::make_unique<JudgePool>(*plugin_set_, options);
    seen_ = std::move(now);
  }

  std::string device_, seen_;
  const Interrupts& interrupts_;
  const Client* client_ = nullptr;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<PluginSet> plugin_set_;
  std::unique_ptr<JudgePool> room_;
};

class Server {
 public:
  // Starts its processes. Error when another server has the device, or when the device is
  // unavailable.
  Server(const std::string& device, bool checks)
      : device_(device), listener_(socket_path(device, checks)), house_(device, interrupts_) {
    house_.prepare();
  }

  void serve() {
    bool idle = false;
    while (!interrupts_.came()) {
      hear();
      const auto next = std::find_if(clients_.begin(), clients_.end(),
                                     [](const auto& client) { return client->message; });
      if (next != clients_.end()) {
        const auto client = std::move(*next);
        clients_.erase(next);
        attend(*client);
        idle = false;
      } else if (idle) {
        wait();
        idle = !house_.busy();
      } else {
        idle = !prepare();
      }
    }
  }

 private:
  // Accepts new clients, reads their messages, and removes those that have left. If there are too
  // many, clients without a question are dropped: a client asks at once.
  void hear() {
    for (int fd = 0; clients_.size() < kClientsMax && (fd = listener_.accept()) >= 0;) {
      auto client = std::make_unique<Client>(fd);
      if (peer_of(fd)) clients_.push_back(std::move(client));
    }
    const bool full = clients_.size() == kClientsMax;
    std::erase_if(clients_, [&](const auto& client) {
      try {
        if (!client->message) client->message = client->channel.receive();
      } catch (const Error& error) {
        log_warn(std::string("a client is turned away: ") + error.what());
        return true;
      }
      const bool late = full || now_seconds() - client->since_s > kAskSeconds;
      return (late && !client->message) || client->gone();
    });
  }

  void wait() const {
    std::vector<pollfd> entries{{listener_.fd(), POLLIN, 0}, {interrupts_.fd(), POLLIN, 0}};
    for (const auto& client : clients_) entries.push_back({client->channel.fd(), POLLIN, 0});
    constexpr int kAgainMs = 1000;  // until the next test of a device in use by others
    const int limit_ms = house_.busy()      ? kAgainMs
                         : clients_.empty() ? -1
                                            : static_cast<int>(1e3 * kAskSeconds);
    ::poll(entries.data(), entries.size(), limit_ms);
  }

  // False when nothing is left to do, or nothing is possible.
  bool prepare() {
    try {
      return house_.prepare();
    } catch (const std::exception& error) {
      if (!interrupts_.came()) log_warn(error.what());
      return false;
    }
  }

  void attend(Client& client) {
    const double start = now_seconds();
    const ServerMessage answer = answer_to(client);
    if (interrupts_.came() || client.gone()) return;
    client.channel.send(to_fields(answer), {}, kAnswerSeconds);
    if (const auto& verdict = answer.verdict)
      std::printf("%-12s %8s  %s\n", name_of(verdict->status),
                  human_duration(now_seconds() - start).c_str(),
                  excerpt(verdict->candidate.path, 4096).c_str());
    std::fflush(stdout);
  }

  ServerMessage answer_to(Client& client) {
    try {
      const Asked asked = asked_from(*client.message);
      if (asked.surroundings != surroundings(device_))
        return declined("it has other surroundings", asked);
      if (sha256_file(asked.question.candidate) != asked.question.candidate_hash)
        return declined("it sees another file there", asked);
      return {.verdict = InnerVerdict{house_.judge(asked, client)}};
    } catch (const Error& e) {
      return {.error = ErrorFields::of(e)};
    } catch (const std::exception& e) {
      return {.error = ErrorFields{"the server", e.what(), ""}};
    }
  }

  static ServerMessage declined(const std::string& why, const Asked& asked) {
    log_info("left to the client, " + why + ": " + asked.question.candidate.string());
    return {.declined = why};
  }

  std::string device_;
  Interrupts interrupts_;
  Listener listener_;
  House house_;
  std::deque<std::unique_ptr<Client>> clients_;
};

int serve(const std::string& device, bool checks) {
  check_device_name(device);
  Server server(device, checks);
  std::printf("judging on %s for whoever asks at %s\n", device.c_str(),
              socket_path(device, checks).c_str());
  std::fflush(stdout);
  server.serve();
  return kExitOk;
}

struct ServeArguments {
  std::vector<std::string> devices;
  bool checks = false;
  ServeHttpArguments http;
};

int serve_as_asked(ServeArguments& a) {
  if (!a.http.redis.empty() && a.http.address.empty())
    fail("--redis", "it belongs to a server with --http", "a worker is `fk-host work`");
  if (a.devices.empty() && a.http.redis.empty()) a.devices = {"cpu"};
  if (a.http.address.empty()) {
    if (a.devices.size() > 1)
      fail("--device", "a server without --http has one device", "start one for each");
    return serve(a.devices[0], a.checks);
  }
  if (a.checks) fail("--checks", "a server with --http has a process for checks already");
  for (const auto& device : a.devices) check_device_name(device);
  a.http.devices = a.devices;
  return serve_http(a.http);
}

std::function<int()> add_serve(const Options& app) {
  auto a = std::make_shared<ServeArguments>();
  constexpr int kJobsMost = 1'000'000, kMibMost = 1024;
  app.add_option("--device", a->devices, "cpu (the default) or cuda:0; with --http several")
      .one_at_a_time();
  app.add_flag("--checks", a->checks,
               "answer `bench --seconds 0` alone, beside a server which also measures");
  app.add_option("--http", a->http.address,
                 "also take jobs of clients over HTTP at ADDRESS:PORT, such as 127.0.0.1:8080");
  app.add_option("--tokens", a->http.tokens, "a file of lines NAME TOKEN, one for each client");
  app.add_option("--certificate", a->http.certificate, "the chain of certificates for TLS, PEM");
  app.add_option("--key", a->http.key, "the certificate's private key, PEM");
  app.add_option("--redis", a->http.redis,
                 "with --http, workers elsewhere (`fk-host work`) take jobs from this database of "
                 "Redis, redis://:PASSWORD@HOST:PORT/NUMBER (or the variable REDISCLI_AUTH has the "
                 "password); the server itself judges only on each --device");
  app.add_option("--queue", a->http.queue, "the folder of jobs, beside the store if not given");
  app.add_flag("--log-json", a->http.log_json,
               "with --http, standard error has a JSON object for each event, by FK_LOG's level");
  app.add_option("--client-jobs", a->http.client_jobs, "jobs of one client that may wait")
      .range(1, kJobsMost);
  app.add_option("--body-mib", a->http.body_mib, "MiB that one request may have")
      .range(1, kMibMost);
  app.footer(
      "While the server runs, it answers this user's `fk-host bench CANDIDATE` and `fk-host "
      "replay` on this device, one at a time. Without a server they judge in their own process.");
  return [a] { return serve_as_asked(*a); };
}

FK_VERB(serve, "keep all ready, so that `bench CANDIDATE` answers at once; until interrupted",
        add_serve);

}  // namespace
}  // namespace fk
