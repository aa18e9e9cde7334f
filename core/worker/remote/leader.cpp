// SPDX-License-Identifier: Apache-2.0
// One thread for each thing that the controller has opened: a worker or a rank's weights. The
// thread has the connection, and makes and destroys the thing, because children die with their
// thread.
#include "core/worker/remote/leader.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/machine.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/comm/block_mirror.hpp"
#include "core/comm/shared_comm.hpp"
#include "core/worker/process.hpp"
#include "core/worker/remote/messages.hpp"
#include "core/worker/weight_block.hpp"

namespace fk {

namespace {

constexpr double kLineSendS = 30;
constexpr double kDriveSlice =
    0.005;  // of waiting for a worker's tokens, while the controller may speak

struct MirroredBlock {
  SharedMemory memory;
  std::unique_ptr<BlockMirror> mirror;
};
struct SharedStates {
  std::shared_ptr<const int> fd;
  int64_t bytes = 0;
};

// Things used by several threads here, by the number of their connection.
class Holdings {
 public:
  template <class T>
  using Map = std::map<uint64_t, std::shared_ptr<T>>;
  Map<WeightBlock> weights;
  Map<SharedStates> states;
  Map<MirroredBlock> blocks;

  template <class T>
  std::shared_ptr<T> find(const Map<T>& map, uint64_t id, const char* what) {
    const std::lock_guard lock(mutex_);
    const auto it = map.find(id);
    if (it == map.end()) fail("launcher", std::string("there are no such ") + what + " here");
    return it->second;
  }
  template <class T>
  void set(Map<T>& map, uint64_t id, std::shared_ptr<T> value) {
    const std::lock_guard lock(mutex_);
    if (value)
      map[id] = std::move(value);
    else
      map.erase(id);
  }

 private:
  std::mutex mutex_;
};

// One connection to the controller, for the thread that serves it.
class Line {
 public:
  explicit Line(int fd) : channel_(fd, false) {}
  int fd() const { return channel_.fd(); }

  // True if the controller has ended. Reads its messages: `at_once` gets each one first and returns
  // true if the message needs no more work.
  bool gone(const std::function<bool(const Json&)>& at_once = {}) {
    try {
      while (!broken_) {
        auto message = channel_.receive();
        if (!message) break;
        if (!at_once || !at_once(*message)) said_.push_back(std::move(*message));
      }
    } catch (const std::exception&) {  // the stream cannot be understood any more
      broken_ = true;
    }
    return broken_ || channel_.closed();
  }
  bool silent() const { return said_.empty(); }
  Json next() {
    Json message = std::move(said_.front());
    said_.pop_front();
    return message;
  }
  void wait(double seconds) { wait_readable(fd(), seconds); }
  void tell(const Json& message) { broken_ |= !channel_.send(message, {}, kLineSendS); }
  void answer(const Json& question, Json with) {
    if (const auto it = question.find("asks"); it != question.end())
      tell({{"answer", std::move(with)}, {"to", *it}});
  }

 private:
  Channel channel_;
  std::deque<Json> said_;
  bool broken_ = false;
};

class RunnerService {
 public:
  RunnerService(Holdings& holdings, int fd, uint64_t id)
      : holdings_(holdings), line_(fd), id_(id) {}
  ~RunnerService() { holdings_.set(holdings_.states, id_, {}); }

  void serve(const Json& what) {
    Runner::Options options = runner_options_from(what.at("runner"));
    options.agent = agent_of_rank(what.at("rank").get<int>());
    options.given_up = [this] { return gone(); };
    block_ = holdings_.find(holdings_.blocks, what.at("block").get<uint64_t>(), "blocks");
    runner_ = std::make_unique<Runner>(std::move(options));
    while (!gone()) {
      if (!line_.silent())
        obey(line_.next());
      else if (driving_)
        pass_on();
      else
        line_.wait(1);
    }
  }

 private:
  bool gone() {
    return line_.gone([this](const Json& message) {
      const bool now = message.value("do", "") == "another_failed";
      if (now && runner_) runner_->another_failed(message.at("stop_s").get<double>());
      return now;
    });
  }

  void obey(const Json& message) {
    Json answer;
    try {
      answer = answer_to(message.at("do").get<std::string>(), message);
    } catch (const std::exception& e) {
      runner_->condemn("refused", e.what());
    }
    tell_failure();
    line_.answer(message, std::move(answer));
  }

  void tell_failure() {
    if (!runner_->failed()) return;
    driving_ = false;
    if (!std::exchange(told_, true)) line_.tell({{"failure", to_json(runner_->failure())}});
  }

  Json answer_to(const std::string& what, const Json& message) {
    Runner& runner = *runner_;
    const auto seconds = [&] { return message.at("seconds").get<double>(); };
    if (what == "start") return true;
    if (what == "join")
      return runner.join(rank_seat_from(message.at("seat")), block_->memory.fd(), {},
                         message.at("patience_s").get<double>());
    if (what == "load") {
      const auto loaded = runner.load(plugin_files_from(message.at("plugins")));
      return loaded ? to_json(*loaded) : Json();
    }
    if (what == "open") return open(message);
    if (what == "clear") return runner.clear();
    if (what == "close_session") return runner.close_session();
    if (what == "task") {
      const auto answer = runner.task(message.at("name").get<std::string>(),
                                      message.at("arguments"), [&](const Json& progress) {
                                        line_.tell({{"progress", progress}});
                                      });
      return answer ? *answer : Json();
    }
    if (what == "begin_freeze") return runner.begin_freeze(), Json();
    if (what == "freeze") return runner.freeze();
    if (what == "thaw") return runner.thaw(), Json();
    if (what == "begin") return taps_ = message.at("taps").get<bool>(), requests_.clear(), Json();
    if (what == "submit") return take_request(message), Json();
    if (what == "close") return drive(), Json();
    if (what == "held_bytes") return runner.held_bytes();
    if (what == "log") return runner.log();
    if (what == "dismiss") return runner.dismiss(), Json();
    if (what == "condemn")
      return runner.condemn(message.at("kind").get<std::string>(),
                            message.at("text").get<std::string>()),
             Json();
    if (what == "wait_for_end") return runner.wait_for_end(seconds());
    if (what == "set_patience") return runner.set_patience(seconds()), Json();
    if (what == "set_open_patience") return runner.set_open_patience(seconds()), Json();
    fail("launcher", "nobody can do `" + what + "`");
  }

  Json open(const Json& message) {
    const auto weights =
        holdings_.find(holdings_.weights, message.at("weights").get<uint64_t>(), "weights");
    std::shared_ptr<SharedStates> of;
    StatesHandle states;
    if (const auto id = message.at("states").get<uint64_t>()) {
      of = holdings_.find(holdings_.states, id, "states");
      states.fd = *of->fd;
      states.bytes = of->bytes;
    }
    const auto info = runner_->open(session_spec_from(message.at("spec")), weights->handle,
                                    of ? &states : nullptr);
    if (!info) return {};
    const StatesHandle& own = runner_->states();
    if (own.bytes) {
      const std::shared_ptr<const int> fd(new int(::dup(own.fd)), [](const int* one) {
        ::close(*one);
        delete one;
      });
      holdings_.set(holdings_.states, id_,
                    std::make_shared<SharedStates>(SharedStates{fd, own.bytes}));
    }
    return {{"session", to_json(*info)}, {"states_bytes", own.bytes}};
  }

  void take_request(const Json& message) {
    const auto text = message.at("request").get<std::string>();
    const std::string bytes = bytes_of_hex(text, text.size() / 2, "a request");
    Record record;
    record.header.id = message.at("id").get<uint64_t>();
    const auto* at = reinterpret_cast<const std::byte*>(bytes.data());
    record.payload.assign(at, at + bytes.size());
    requests_.push_back(decode_request(record));
  }

  void drive() {
    driving_ = runner_->begin(taps_);
    for (const Request& request : requests_) runner_->submit(request);
    runner_->close_requests();
    requests_.clear();
  }

  // Sends all available results of a drive, in one message.
  void pass_on() {
    constexpr size_t kMost = 4096;
    Json tokens = Json::array(), message;
    for (double patience = kDriveSlice; driving_ && tokens.size() < kMost; patience = 0) {
      const auto event = runner_->wait(patience);
      if (!event) break;
      if (event->kind == RunnerEvent::Kind::token)
        tokens.push_back({event->id, event->index, event->token});
      if (event->kind == RunnerEvent::Kind::driven) {
        driving_ = false;
        message["driven"] = true;
      }
    }
    if (!tokens.empty()) message["tokens"] = std::move(tokens);
    if (!message.is_null()) line_.tell(message);
    tell_failure();
  }

  Holdings& holdings_;
  Line line_;
  const uint64_t id_;
  std::shared_ptr<MirroredBlock> block_;
  std::unique_ptr<Runner> runner_;
  bool driving_ = false, told_ = false, taps_ = false;
  std::vector<Request> requests_;
};

// Serves a rank's weights, from the same folder or seed as in the controller.
void serve_weights(Holdings& holdings, int fd, uint64_t id, const Json& what) {
  Line line(fd);
  Json made;
  std::shared_ptr<WeightBlock> block;
  try {
    const SessionSpec spec = session_spec_from(what.at("weights"));
    const auto model = make_model(spec.arch, spec.config);
    const Catalog catalog(paths::registry_dirs());
    block = std::make_shared<WeightBlock>(
        make_weight_block(*model, catalog, spec, what.at("checkpoint").get<std::string>(),
                          what.at("seed").get<uint64_t>(), {}, what.at("local_rank").get<int>()));
    made = {{"bytes", block->bytes}};
    holdings.set(holdings.weights, id, block);
  } catch (const std::exception& e) {
    made = {{"error", e.what()}};
  }
  while (!line.gone()) {
    if (line.silent()) {
      line.wait(1);
      continue;
    }
    const Json message = line.next();
    Json answer = made;
    try {
      if (message.at("do") == "checksum") answer = block->checksum();
    } catch (const std::exception& e) {
      answer = {{"error", e.what()}};
    }
    line.answer(message, std::move(answer));
  }
  holdings.set(holdings.weights, id, {});
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

class Leader {
 public:
  Leader(const Launch& launch, const LinkPlace& place, std::vector<int> ranks)
      : launch_(launch), place_(place), ranks_(std::move(ranks)) {}

  int run(double patience_s) {
    Line control(connect_link(place_.host, place_.port, place_.key, kControlLink, patience_s));
    control.tell({{"ranks", ranks_},
                  {"size", launch_.size},
                  {"host", host_name()},
                  {"program", own_build_id()}});
    for (const double end = now_seconds() + patience_s; control.silent() && !control.gone();) {
      if (now_seconds() >= end) break;
      control.wait(1);
    }
    const Json welcome = control.silent() ? Json::object() : control.next();
    if (!welcome.contains("welcome"))
      fail(launch_.by, "rank 0 refuses this machine: " + welcome.value("refused", "it is gone"));
    try {
      while (!control.gone()) {
        while (!control.silent()) obey(control);
        control.wait(1);
      }
    } catch (...) {  // without this, threads would end only with the controller's connections
      ::shutdown(control.fd(), SHUT_RDWR);
      end();
      throw;
    }
    end();
    return 0;
  }

 private:
  struct Worker {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> done;
  };

  int link(uint64_t id) {
    constexpr double kPatienceS = 10;
    return connect_link(place_.host, place_.port, place_.key, id, kPatienceS);
  }

  void obey(Line& control) {
    const Json message = control.next();
    if (message.contains("lives")) return control.tell(message);
    std::erase_if(workers_, [](Worker& worker) {
      if (*worker.done) worker.thread.join();
      return !worker.thread.joinable();
    });
    if (message.contains("drop"))
      return holdings_.set(holdings_.blocks, message.at("drop").get<uint64_t>(), {});
    const auto id = message.at("open").get<uint64_t>();
    if (message.contains("ranks")) return make_block(id);
    Worker worker{{}, std::make_shared<std::atomic<bool>>(false)};
    worker.thread = std::thread([this, id, message, done = worker.done] {
      try {
        const int fd = link(id);
        if (message.contains("runner"))
          RunnerService(holdings_, fd, id).serve(message);
        else
          serve_weights(holdings_, fd, id, message);
      } catch (const std::exception&) {  // the controller finds the connection closed
      }
      *done = true;
    });
    workers_.push_back(std::move(worker));
  }

  void make_block(uint64_t id) {
    std::vector<int> others;
    for (int r = 0; r < launch_.size; ++r)
      if (std::find(ranks_.begin(), ranks_.end(), r) == ranks_.end()) others.push_back(r);
    auto block = std::make_shared<MirroredBlock>();
    block->memory = make_shared_comm(launch_.size);
    std::vector<BlockMirror::Peer> peers;
    peers.push_back({link(id), std::move(others)});
    block->mirror = std::make_unique<BlockMirror>(block->memory, launch_.size, std::move(peers));
    holdings_.set(holdings_.blocks, id, std::move(block));
  }

  // Threads that served the controller have seen it end. Only the time that children need to die is
  // waited for; the rest dies with this process.
  void end() {
    constexpr double kPatienceS = 5;
    const auto working = [](const Worker& worker) { return !*worker.done; };
    for (const double by = now_seconds() + kPatienceS;
         std::any_of(workers_.begin(), workers_.end(), working) && now_seconds() < by;)
      ::usleep(10'000);
    if (std::any_of(workers_.begin(), workers_.end(), working)) ::_exit(0);
    for (Worker& worker : workers_) worker.thread.join();
  }

  const Launch& launch_;
  const LinkPlace& place_;
  const std::vector<int> ranks_;
  Holdings holdings_;
  std::vector<Worker> workers_;
};

}  // namespace

int lead_machine(const Launch& launch, const LinkPlace& place, const std::vector<int>& ranks,
                 double patience_s) {
  return Leader(launch, place, ranks).run(patience_s);
}

}  // namespace fk
