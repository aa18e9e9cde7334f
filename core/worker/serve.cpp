// SPDX-License-Identifier: Apache-2.0
// Obeys the messages of messages.hpp one after the other, each in the function of its name. This is
// trusted code, in a process which also runs plugin code.
#include "core/worker/serve.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/cores.hpp"
#include "core/base/error.hpp"
#include "core/base/machine.hpp"
#include "core/base/paths.hpp"
#include "core/comm/device_comm.hpp"
#include "core/comm/shared_comm.hpp"
#include "core/device/rank_device.hpp"
#include "core/exec/model_info.hpp"
#include "core/exec/peaks.hpp"
#include "core/exec/recorder.hpp"
#include "core/exec/session.hpp"
#include "core/worker/channel.hpp"
#include "core/worker/crash.hpp"
#include "core/worker/exchange.hpp"
#include "core/worker/messages.hpp"
#include "core/worker/own_memory.hpp"
#include "core/worker/process.hpp"
#include "core/worker/rank_exchange.hpp"
#include "core/worker/sandbox.hpp"
#include "core/worker/task.hpp"

namespace fk {
namespace {

constexpr double kForever = 1e6;  // seconds
// Library threads spin this long before they sleep. OpenBLAS takes log2 of cycles (22 us).
constexpr double kOpenMpSpinS = 20e-6;
constexpr const char* kOpenBlasSpin = "16";

using messages::WorkerError;

Json error_json(const WorkerError& error) { return {{messages::kError, to_fields(error)}}; }

class Server {
 public:
  Server(Channel& channel, int parent)
      : channel_(channel), parent_(parent), catalog_(paths::registry_dirs()), plugins_(catalog_) {}

  [[noreturn]] void serve() {
    for (;;) {
      const Json message = wait_message();
      const Json answer = obey(message);
      if (!channel_.send(answer, std::exchange(answer_fds_, {}), kForever)) leave(0);
    }
  }

 private:
  Json wait_message() {
    for (;;) {
      if (auto message = channel_.receive()) return std::move(*message);
      if (channel_.closed()) leave(0);
      wait_readable(channel_.fd(), kForever, spin_s_);
    }
  }

  // Every failure becomes an answer; the controller decides its meaning.
  Json obey(const Json& message) {
    try {
      return answer_to(message);
    } catch (const Error& e) {
      return fail_with(error_of(e));
    } catch (const std::bad_alloc&) {
      return fail_with({"memory", place(), "memory could not be had"});
    } catch (...) {
      return fail_with({"threw", place(), thrown_text()});
    }
  }

  WorkerError error_of(const Error& e) const {
    if (const Device* device = lost())  // the node on the board may not have begun on the device
      return {"lost", place().empty() ? "" : place() + " or before it", e.what(),
              device->lost_after_s()};
    if (const auto* op = dynamic_cast<const RunError*>(&e))
      return {"op_failed", op->op + " (" + op->path + ")", e.what()};
    return {dynamic_cast<const HostError*>(&e) ? "environment" : "refused", "", e.what()};
  }

  // Tells the other ranks too, so that they do not wait for this one.
  Json fail_with(const WorkerError& error) {
    if (comm_) comm_->meeting().give_up(error.text);
    return error_json(error);
  }

  Json answer_to(const Json& message) {
    static const auto handlers = Handlers<Server>()
                                     .on(&Server::hello)
                                     .on(&Server::join)
                                     .on(&Server::load)
                                     .on(&Server::open)
                                     .on(&Server::keep)
                                     .on(&Server::checksum)
                                     .on(&Server::drive)
                                     .on(&Server::clear)
                                     .on(&Server::close_session)
                                     .on(&Server::record)
                                     .on(&Server::recorded)
                                     .on(&Server::perform);
    const std::string name = message_name(message);
    FK_CHECK(board_ || name == messages::Hello::kName, "a runner was asked for work before hello");
    const bool drives = name == messages::Drive::kName;
    return {{drives ? messages::kDriven : messages::kResult, handlers.answer(*this, message)}};
  }

  Nothing hello(const messages::Hello& message) {
    const auto fds = channel_.take_fds();
    FK_CHECK(fds.size() == 5, "hello brings five descriptors");
    shared_ = SharedMemory::from_fd(fds[0], kSharedBytes, true);
    ::close(fds[0]);
    board_ = static_cast<Board*>(shared_.data());
    std::fill(board_->nodes, board_->nodes + kPhasesMax, -1);
    exchange_ = std::make_unique<RingExchange>(*board_, shared_.data(), RingEvents{fds[1], fds[2]},
                                               RingEvents{fds[3], fds[4]}, channel_.fd());
    install_crash_handlers(*board_);
    open_own_memory();
    limit_private_memory(message.private_bytes_max);
    if (message.own_user) {
      (void)backends();  // FK_BACKENDS may be relative to this directory
      stand_among_copies();
      take_user({});
    }
    spin_s_ = message.spin_s;
    return {};
  }

  Nothing join(const messages::Join& message) {
    const auto fds = channel_.take_fds();
    seat_ = message.seat;
    FK_CHECK(fds.size() == 1 || static_cast<int>(fds.size()) == seat_.size,
             "join brings a descriptor, and one for each other rank where they need them");
    comm_ = std::make_unique<SharedCommunicator>(
        SharedMemory::from_fd(fds[0], shared_comm_bytes(seat_.size), true), seat_.rank, seat_.size,
        message.patience_s);
    ::close(fds[0]);
    if (fds.size() > 1) {
      std::vector<int> sockets(fds.begin() + 1, fds.end());
      sockets.insert(sockets.begin() + seat_.rank, -1);  // no socket to itself
      peers_ = Peers(std::move(sockets));
    }
    rank_exchange_ = std::make_unique<RankExchange>(*exchange_, comm_->meeting());
    return {};
  }

  // The communicator for this device; null for one rank.
  std::shared_ptr<Communicator> communicator(Device& device) {
    if (!comm_) return nullptr;
    if (device.host_memory()) return {std::shared_ptr<void>(), comm_.get()};
    // A library of collectives (NCCL) opens sockets and files, also later. A sealed process may
    // not, so a process that will be sealed uses none.
    return make_communicator(device, {*comm_, peers_, !sealed_ && !user_});
  }

  struct File : messages::Load::File {
    std::filesystem::path place;  // of the copy, for this process
    bool candidate() const { return trust == Trust::candidate; }
  };

  // A fault of one file is reported in its row; the others are loaded.
  template <class Action>
  void attempt(File& file, Action action) {
    set_stage(*board_, "loading " + std::filesystem::path(file.path).filename().string());
    try {
      if (file.error.empty()) action();
    } catch (const Error& e) {
      file.error = e.what();
    } catch (...) {
      file.error = thrown_text();
    }
    watch_exit();
  }

  // A candidate's code begins here, in static constructors, so all other plugins are loaded before.
  Loaded load(const messages::Load& message) {
    if (sealed_) fail("runner", "a runner that has loaded a candidate loads nothing more");
    std::vector<File> files;
    for (const auto& file : message.plugins) files.push_back({file, file.copy});
    for (File& file : files)
      attempt(file, [&] {
        file.place = reachable(file.place.empty() ? loadable_copy(file.path) : file.place);
      });
    for (File& file : files) {
      if (file.candidate()) continue;
      attempt(file, [&] { plugins_.load(file.path, file.trust, file.place); });
    }
    const bool any =
        std::any_of(files.begin(), files.end(), [](const File& f) { return f.candidate(); });
    if (any) seal_for(files, message);
    for (File& file : files) {
      if (!file.candidate()) continue;
      attempt(file, [&] { plugins_.load(file.path, file.trust, file.place); });
    }
    Loaded loaded;
    for (const File& file : files) loaded.errors.push_back(file.error);
    for (const auto& r : plugins_.refused()) loaded.refused.push_back({r.plugin, r.op, r.why});
    return loaded;
  }

  void seal_for(std::vector<File>& files, const messages::Load& message) {
    sealed_ = true;
    set_stage(*board_, "sealing the runner");
    if (!message.sandbox)
      return progress(to_fields(messages::Sealed{unsealed("turned off by --no-sandbox")}));
    if (!user_) (void)backends(), stand_among_copies();
    std::vector<std::string> libraries;
    for (File& file : files) {
      if (!file.candidate()) continue;
      attempt(file, [&] {
        for (auto& name : legal_libraries(file.place)) libraries.push_back(std::move(name));
      });
    }
    preload_libraries(libraries);
    const std::vector<std::string>& more = message.read;
    if (!user_) take_user(more);
    SandboxPolicy policy = SandboxPolicy::of(message.device);
    policy.read.insert(policy.read.end(), more.begin(), more.end());
    for (File& file : files) {
      if (!file.candidate() || file.place.empty()) continue;
      file.place = reachable(file.place);
      policy.read.push_back(file.place);
    }
    if (policy.compiles) policy.made = compiler_folder(::getpid());
    sealed_device_ = open_device(device_of_rank(message.device, seat_.local_rank));
    progress(to_fields(messages::Sealed{seal(policy, *user_)}));
  }

  // Opens everything that only this process's present user can certainly access.
  void take_user(const std::vector<std::string>& more) {
    catalog_.read_ahead();
    read_models_ahead();
    read_peaks();
    for (const auto& path : more)
      if (!everybody_reads(path))
        user_ = {"own_user", false, "it has to read " + path + ", which others may not"};
    const bool compiles = SandboxPolicy::any_device_compiles();
    if (compiles) remove_compiler_folder(::getpid());  // of an earlier process with this number
    if (!user_) user_ = take_own_user(parent_);
    if (compiles) make_compiler_folder(::getpid());
  }

  // The new user may not be able to enter the folder; the working directory still gives access to
  // the copy.
  static std::filesystem::path reachable(const std::filesystem::path& copy) {
    return ::access(copy.c_str(), R_OK) == 0 ? copy : "." / copy.filename();
  }

  void progress(const Json& what) {
    if (!channel_.send({{messages::kProgress, what}}, {}, kForever)) leave(0);
  }

  messages::Opened open(const messages::Open& message) {
    const auto fds = channel_.take_fds();
    const int64_t given = message.states_bytes;
    FK_CHECK(fds.size() == (given ? 2 : 1), "open brings the weights, and states where they are");
    recorder_.reset();
    session_.reset();
    states_ = {};
    device_comm_.reset();
    const SessionSpec& spec = message.spec;
    const int64_t bytes = message.weights_bytes;
    const bool on_device = message.weights_on_device;
    weights_ =
        on_device
            ? device_weights(fds[0], bytes)
            : shared_weights(SharedMemory::from_fd(fds[0], static_cast<size_t>(bytes), false));
    if (!on_device) ::close(fds[0]);
    set_stage(*board_, "creating instances");
    model_ = make_model(spec.arch, spec.config);
    device_ = open_device(device_of_rank(spec.device, seat_.local_rank));
    Session::Options options{spec.limits, spec.policy, message.name, spec.graphs,
                             spec.decode_sizes};
    if (comm_) {
      device_->share_cores(seat_.local_size);
      device_comm_ = communicator(*device_);
      options.comm = device_comm_->table();
    }
    if (spec.shares_states || given)
      options.state_block = [&](int64_t wanted) {
        states_ = given ? states_from(fds[1], given, wanted) : states_for_others(wanted);
        return static_cast<std::byte*>(states_.data());
      };
    session_ = std::make_unique<Session>(*model_, plugins_, *device_, *weights_, options);
    if (on_device) ::close(fds[0]);
    if (given) ::close(fds[1]);
    session_->attach(exchange());
    const auto phases = session_->phase_names();
    for (size_t i = 0; i < std::min<size_t>(phases.size(), kPhasesMax); ++i)
      session_->phase(phases[i]).set_marker(&board_->nodes[i]);
    set_stage(*board_, "");
    return {info_of(*session_), static_cast<int64_t>(states_.size())};
  }

  SharedMapping states_for_others(int64_t bytes) {
    const auto made = device_->allocate_shared(bytes, "the caches", Device::Sharing::write);
    SharedMapping mapping(*device_, made, bytes);
    answer_fds_ = {mapping.fd()};
    return mapping;
  }
  SharedMapping states_from(int fd, int64_t bytes, int64_t wanted) {
    FK_CHECK(wanted <= bytes, "the states of another session are smaller than this one's");
    return {*device_, {device_->open_shared(fd, bytes, Device::Sharing::write), -1}, bytes};
  }

  // Keeps the weights of a session on its device, for other processes to read.
  messages::Kept keep(const messages::Keep& message) {
    FK_CHECK(plugins_.plugin_names().empty(), "who keeps weights has no plugins");
    const SessionSpec& spec = message.spec;
    std::optional<Checkpoint> checkpoint;
    if (!message.checkpoint.empty()) checkpoint = Checkpoint::open(message.checkpoint, spec.config);
    model_ = make_model(spec.arch, spec.config);
    device_ = open_device(device_of_rank(spec.device, message.local_rank));
    const auto table = weight_table(*model_, catalog_, spec.limits);
    kept_bytes_ = WeightLayout(*table).bytes;
    kept_ = device_->allocate_shared(kept_bytes_, "the weights", Device::Sharing::read);
    const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    fill_weights(*table, checkpoint ? &*checkpoint : nullptr, message.seed, *device_,
                 static_cast<std::byte*>(kept_.data), threads, [&](int64_t done, int64_t total) {
                   progress(to_fields(messages::BytesDone{done, total}));
                 });
    answer_fds_ = {kept_.fd};
    return {kept_bytes_, !device_->host_memory()};
  }

  uint64_t checksum(const messages::Checksum&) {
    FK_CHECK(kept_.data, "a checksum of weights that are not here");
    return device_->checksum(kept_.data, kept_bytes_);
  }

  Exchange& exchange() {
    if (rank_exchange_) return *rank_exchange_;
    return *exchange_;
  }

  int64_t drive(const messages::Drive& message) {
    if (!session_) fail("runner", "there is no open session");
    for (const auto& name : session_->phase_names()) {
      TapSink sink;
      if (message.taps) {
        sink = [this, name](const std::string& tap, const std::vector<int64_t>& shape,
                            const std::vector<float>& values) {
          exchange().tensor(0, name + ":" + tap, shape, values.data());
        };
      }
      session_->phase(name).set_taps(std::move(sink));
    }
    set_stage(*board_, "");
    exchange_->begin();
    session_->drive();
    device_->synchronize_all();  // all streams: no work may go on during the other side's turn
    exchange_->end();
    return message.run;
  }

  Nothing close_session(const messages::CloseSession&) {
    set_stage(*board_, "destroying instances");
    recorder_.reset();
    session_.reset();
    set_stage(*board_, "");
    return {};
  }

  Nothing clear(const messages::Clear&) {
    if (session_) session_->clear_states();
    if (device_) device_->synchronize();  // another process may be the next user
    return {};
  }

  // Writes the inputs of the session's nodes to the descriptor; without one it begins another
  // workload.
  Nothing record(const messages::Record& message) {
    if (!session_) fail("runner", "there is no open session");
    const auto fds = channel_.take_fds();
    if (!recorder_) {
      FK_CHECK(fds.size() == 1, "record brings one descriptor");
      record_fd_ = fds[0];
      recorder_ = std::make_unique<CaseRecorder>(*device_, message.options, record_fd_);
      for (const auto& name : session_->phase_names())
        session_->phase(name).set_watch(&recorder_->watch(name));
    }
    recorder_->set_workload(message.workload);
    return {};
  }

  Recording recorded(const messages::Recorded&) {
    if (!recorder_) fail("runner", "nothing was recorded");
    for (const auto& name : session_->phase_names()) session_->phase(name).set_watch(nullptr);
    Recording result = recorder_->result();
    recorder_.reset();
    ::close(record_fd_);
    return result;
  }

  Json perform(const messages::Perform& message) {
    const Task& task = need_task(message.name);
    const uint64_t number = message.number;
    const TaskServices services{
        catalog_,
        plugins_,
        seat_.rank,
        seat_.local_rank,
        [this](Device& device) { return communicator(device); },
        [this](const std::string& stage) { set_stage(*board_, stage); },
        [this](const Json& what) { progress(what); },
        [this, number] { return await_sign(board_->sign, number, spin_s_ > 0); },
        [this, number] { board_->done.store(number, std::memory_order_release); },
        channel_.take_fds(),
        &answer_fds_};
    Json result = task(message.arguments, services);
    set_stage(*board_, "");
    return result;
  }

  // The lost device; null if none is lost, or if another rank had failed before.
  const Device* lost() const {
    const std::string first = comm_ ? comm_->meeting().failure() : "";
    if (!first.empty() && first.find("rank " + std::to_string(seat_.rank) + " ") != 0)
      return nullptr;
    const auto gone = [](const auto& device) { return device && device->lost(); };
    return gone(device_) ? device_.get() : gone(sealed_device_) ? sealed_device_.get() : nullptr;
  }
  // The place of this process, from its own board, for errors without a path.
  std::string place() const {
    if (board_ && session_) {
      const auto phases = session_->phase_names();
      for (size_t i = 0; i < std::min<size_t>(phases.size(), kPhasesMax); ++i) {
        const auto& nodes = session_->phase(phases[i]).nodes();
        const int32_t node = board_->nodes[i];
        if (node < 0 || static_cast<size_t>(node) >= nodes.size()) continue;
        const auto& n = nodes[static_cast<size_t>(node)];
        return n.op + " (" + n.path + ")";
      }
    }
    return board_ ? std::string(board_->stage, strnlen(board_->stage, sizeof board_->stage)) : "";
  }

  Channel& channel_;
  const int parent_;
  Catalog catalog_;
  Plugins plugins_;
  SharedMemory shared_;
  Board* board_ = nullptr;
  std::unique_ptr<RingExchange> exchange_;
  double spin_s_ = 0;  // polls for a request without sleeping
  bool sealed_ = false;
  std::optional<Protection> user_;
  std::unique_ptr<Device> sealed_device_;     // keeps the driver open after sealing
  std::unique_ptr<SharedCommunicator> comm_;  // null: there is one rank
  RankSeat seat_;
  Peers peers_;
  std::unique_ptr<RankExchange> rank_exchange_;
  std::unique_ptr<Device> device_;
  std::shared_ptr<Communicator> device_comm_;  // the session's
  std::vector<int> answer_fds_;
  Device::Shared kept_;
  int64_t kept_bytes_ = 0;
  std::unique_ptr<Model> model_;
  std::unique_ptr<WeightSource> weights_;
  SharedMapping states_;  // the session's, if another process shares them
  std::unique_ptr<Session> session_;
  std::unique_ptr<CaseRecorder> recorder_;
  int record_fd_ = -1;
};

}  // namespace

void serve_runner(int parent) {
  die_with_parent(parent);
  // libgomp's threads spin for milliseconds by default. On shared cores the thread that others wait
  // for then does not run: a tiny workload took 79 ms a token, not 0.23 ms. Threads without any
  // spinning take 15 us to wake up for every parallel region.
  ::setenv("GOMP_SPINCOUNT", std::to_string(pauses_in(kOpenMpSpinS)).c_str(), 0);
  ::setenv("OPENBLAS_THREAD_TIMEOUT", kOpenBlasSpin, 0);  // default: 30 ms, also after loading
  // When OpenBLAS is loaded, it starts a thread for each core. Without addresses for stacks it
  // ends the process by SIGINT.
  if (address_limit()) ::setenv("OPENBLAS_NUM_THREADS", "1", 0);
  Channel channel(kControlFd, true);
  try {
    Server(channel, parent).serve();
  } catch (const std::exception& e) {
    channel.send(error_json({"refused", "", e.what()}), {}, /*timeout_s=*/1);
    leave(3);
  }
}

}  // namespace fk
