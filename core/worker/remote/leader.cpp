// SPDX-License-Identifier: Apache-2.0
// The leader has one thread for each thing that the controller has opened: a worker or a rank's
// weights. The thread has the thing's connection, and makes and destroys the thing, because
// children die with their thread.
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

constexpr double kLineSendS = 30;      // seconds for sending one message
constexpr double kDriveSlice = 0.005;  // seconds of one wait for tokens, between messages

// This machine's copy of the ranks' block, with the mirror which keeps it equal to the others.
struct MirroredBlock {
  SharedMemory memory;
  std::unique_ptr<BlockMirror> mirror;
};
// The states of one worker's session, for another worker of this machine.
struct SharedStates {
  std::shared_ptr<const int> fd;
  int64_t bytes = 0;
};

// Things that several threads here use, by the number of their connection.
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

// Serves one worker of this machine: each message of the controller becomes a call of its `Runner`.
class RunnerService {
 public:
  RunnerService(Holdings& holdings, int fd, uint64_t id)
      : holdings_(holdings), line_(fd), id_(id) {}
  ~RunnerService() { holdings_.set(holdings_.states, id_, {}); }

  void serve(const messages::OpenRunner& asked) {
    Runner::Options options = asked.runner;
    options.agent = agent_of_rank(asked.rank);
    options.given_up = [this] { return gone(); };
    block_ = holdings_.find(holdings_.blocks, asked.block, "blocks");
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
      using messages::AnotherFailed;
      const bool now = message_name(message) == AnotherFailed::kName;
      if (now && runner_)
        runner_->another_failed(from_fields<AnotherFailed>(message, AnotherFailed::kName).stop_s);
      return now;
    });
  }

  void obey(const Json& message) {
    Json answer;
    try {
      answer = answer_to(message);
    } catch (const std::exception& e) {
      runner_->condemn("refused", e.what());
    }
    tell_failure();
    line_.answer(message, std::move(answer));
  }

  void tell_failure() {
    if (!runner_->failed()) return;
    driving_ = false;
    if (!std::exchange(told_, true)) tell({.failure = runner_->failure()});
  }

  void tell(const messages::News& news) { line_.tell(to_fields(news)); }

  // A worker that has failed answers with nothing: the failure has been told before.
  Json answer_to(const Json& message) {
    using Service = RunnerService;
    static const auto handlers = Handlers<Service>()
                                     .on(&Service::start)
                                     .on(&Service::join)
                                     .on(&Service::load)
                                     .on(&Service::open)
                                     .on(&Service::clear)
                                     .on(&Service::close_session)
                                     .on(&Service::perform)
                                     .on(&Service::begin_freeze)
                                     .on(&Service::freeze)
                                     .on(&Service::thaw)
                                     .on(&Service::begin)
                                     .on(&Service::submit)
                                     .on(&Service::close_requests)
                                     .on(&Service::held_bytes)
                                     .on(&Service::log)
                                     .on(&Service::dismiss)
                                     .on(&Service::condemn)
                                     .on(&Service::wait_for_end)
                                     .on(&Service::set_patience)
                                     .on(&Service::set_open_patience);
    return handlers.answer(*this, message);
  }

  Nothing start(const messages::Start&) { return {}; }
  Nothing join(const messages::Join& m) {
    return runner_->join(m.seat, block_->memory.fd(), {}, m.patience_s), Nothing{};
  }
  Loaded load(const messages::LoadFiles& m) {
    return runner_->load(plugin_files_from(m)).value_or(Loaded{});
  }
  Nothing clear(const messages::Clear&) { return runner_->clear(), Nothing{}; }
  Nothing close_session(const messages::CloseSession&) {
    return runner_->close_session(), Nothing{};
  }
  Json perform(const messages::Perform& m) {
    const auto on_progress = [&](const Json& progress) { tell({.progress = progress}); };
    return runner_->task(m.name, m.arguments, on_progress).value_or(Json());
  }
  Nothing begin_freeze(const messages::BeginFreeze&) { return runner_->begin_freeze(), Nothing{}; }
  bool freeze(const messages::Freeze&) { return runner_->freeze(); }
  Nothing thaw(const messages::Thaw&) { return runner_->thaw(), Nothing{}; }
  Nothing begin(const messages::Begin& m) {
    taps_ = m.taps;
    requests_.clear();
    return {};
  }
  int64_t held_bytes(const messages::HeldBytes&) { return runner_->held_bytes(); }
  std::string log(const messages::Log&) { return runner_->log(); }
  Nothing dismiss(const messages::Dismiss&) { return runner_->dismiss(), Nothing{}; }
  Nothing condemn(const messages::Condemn& m) {
    return runner_->condemn(m.kind, m.text), Nothing{};
  }
  bool wait_for_end(const messages::WaitForEnd& m) { return runner_->wait_for_end(m.seconds); }
  Nothing set_patience(const messages::SetPatience& m) {
    return runner_->set_patience(m.seconds), Nothing{};
  }
  Nothing set_open_patience(const messages::SetOpenPatience& m) {
    return runner_->set_open_patience(m.seconds), Nothing{};
  }

  messages::Opened open(const messages::OpenRemote& message) {
    const auto weights = holdings_.find(holdings_.weights, message.weights, "weights");
    std::shared_ptr<SharedStates> of;
    StatesHandle states;
    if (message.states) {
      of = holdings_.find(holdings_.states, message.states, "states");
      states.fd = *of->fd;
      states.bytes = of->bytes;
    }
    const auto info = runner_->open(message.spec, weights->handle, of ? &states : nullptr);
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
    return {*info, own.bytes};
  }

  // The request comes as a record's bytes in hexadecimal.
  Nothing submit(const messages::Submit& message) {
    const std::string& text = message.request;
    const std::string bytes = bytes_of_hex(text, text.size() / 2, "a request");
    Record record;
    record.header.id = message.id;
    const auto* at = reinterpret_cast<const std::byte*>(bytes.data());
    record.payload.assign(at, at + bytes.size());
    requests_.push_back(decode_request(record));
    return {};
  }

  Nothing close_requests(const messages::CloseRequests&) {
    driving_ = runner_->begin(taps_);
    for (const Request& request : requests_) runner_->submit(request);
    runner_->close_requests();
    requests_.clear();
    return {};
  }

  // Sends all available results of a drive in one message, at most kMost tokens.
  void pass_on() {
    constexpr size_t kMost = 4096;
    messages::News news;
    for (double patience = kDriveSlice; driving_ && news.tokens.size() < kMost; patience = 0) {
      const auto event = runner_->wait(patience);
      if (!event) break;
      if (event->kind == RunnerEvent::Kind::token)
        news.tokens.push_back({event->id, event->index, event->token});
      if (event->kind == RunnerEvent::Kind::driven) {
        driving_ = false;
        news.driven = true;
      }
    }
    if (news.driven || !news.tokens.empty()) tell(news);
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
class WeightsService {
 public:
  WeightsService(Holdings& holdings, int fd, uint64_t id)
      : holdings_(holdings), line_(fd), id_(id) {}
  ~WeightsService() { holdings_.set(holdings_.weights, id_, {}); }

  void serve(const messages::Keep& asked) {
    try {
      const auto model = make_model(asked.spec.arch, asked.spec.config);
      const Catalog catalog(paths::registry_dirs());
      block_ = std::make_shared<WeightBlock>(make_weight_block(
          *model, catalog, asked.spec, asked.checkpoint, asked.seed, {}, asked.local_rank));
      made_.bytes = block_->bytes;
      holdings_.set(holdings_.weights, id_, block_);
    } catch (const std::exception& e) {
      made_.error = e.what();
    }
    static const auto handlers =
        Handlers<WeightsService>().on(&WeightsService::start).on(&WeightsService::checksum);
    while (!line_.gone()) {
      if (line_.silent()) {
        line_.wait(1);
        continue;
      }
      const Json message = line_.next();
      line_.answer(message, handlers.answer(*this, message));
    }
  }

 private:
  messages::WeightsMade start(const messages::WeightsStart&) { return made_; }
  messages::WeightsSum checksum(const messages::WeightsChecksum&) {
    if (!block_) return {0, made_.error};
    try {
      return {block_->checksum(), ""};
    } catch (const std::exception& e) {
      return {0, e.what()};
    }
  }

  Holdings& holdings_;
  Line line_;
  const uint64_t id_;
  std::shared_ptr<WeightBlock> block_;
  messages::WeightsMade made_;
};

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// The main thread: connects to the controller, and starts a thread for each thing that it opens.
class Leader {
 public:
  Leader(const Launch& launch, const LinkPlace& place, std::vector<int> ranks)
      : launch_(launch), place_(place), ranks_(std::move(ranks)) {}

  int run(double patience_s) {
    Line control(connect_link(place_.host, place_.port, place_.key, kControlLink, patience_s));
    control.tell(
        to_fields(messages::LeaderHello{ranks_, launch_.size, host_name(), own_build_id()}));
    for (const double end = now_seconds() + patience_s; control.silent() && !control.gone();) {
      if (now_seconds() >= end) break;
      control.wait(1);
    }
    messages::Welcome welcome{"it is gone"};
    if (!control.silent()) read_fields(control.next(), welcome, launch_.by, kForeignMessage);
    if (!welcome.refused.empty())
      fail(launch_.by, "rank 0 refuses this machine: " + welcome.refused);
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

  // A further connection to the controller. `id`: the number of the thing that uses it.
  int link(uint64_t id) {
    constexpr double kPatienceS = 10;
    return connect_link(place_.host, place_.port, place_.key, id, kPatienceS);
  }

  void obey(Line& control) {
    static const auto handlers = Handlers<Leader>()
                                     .on(&Leader::drop)
                                     .on(&Leader::open_block)
                                     .on(&Leader::open_weights)
                                     .on(&Leader::open_runner);
    const Json message = control.next();
    if (message_name(message) == messages::Lives::kName) return control.tell(message);
    std::erase_if(workers_, [](Worker& worker) {
      if (*worker.done) worker.thread.join();
      return !worker.thread.joinable();
    });
    handlers.answer(*this, message);
  }

  Nothing drop(const messages::Drop& m) {
    return holdings_.set(holdings_.blocks, m.block, {}), Nothing{};
  }

  Nothing open_runner(const messages::OpenRunner& m) {
    return serve_in_thread<RunnerService>(m.open, m);
  }
  Nothing open_weights(const messages::OpenWeights& m) {
    return serve_in_thread<WeightsService>(m.open, m.weights);
  }
  template <class Service, class Asked>
  Nothing serve_in_thread(uint64_t id, const Asked& asked) {
    Worker worker{{}, std::make_shared<std::atomic<bool>>(false)};
    worker.thread = std::thread([this, id, asked, done = worker.done] {
      try {
        Service(holdings_, link(id), id).serve(asked);
      } catch (const std::exception&) {  // the controller finds the connection closed
      }
      *done = true;
    });
    workers_.push_back(std::move(worker));
    return {};
  }

  Nothing open_block(const messages::OpenBlock& m) {
    std::vector<int> others;
    for (int r = 0; r < launch_.size; ++r)
      if (std::find(ranks_.begin(), ranks_.end(), r) == ranks_.end()) others.push_back(r);
    auto block = std::make_shared<MirroredBlock>();
    block->memory = make_shared_comm(launch_.size);
    std::vector<BlockMirror::Peer> peers;
    peers.push_back({link(m.open), std::move(others)});
    block->mirror = std::make_unique<BlockMirror>(block->memory, launch_.size, std::move(peers));
    return holdings_.set(holdings_.blocks, m.open, std::move(block)), Nothing{};
  }

  // Each thread ends by itself when the controller's connections end. This function waits only as
  // long as children need to die; the rest dies with this process.
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
