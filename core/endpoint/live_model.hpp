// SPDX-License-Identifier: Apache-2.0
// A model that takes requests while it runs: a side (core/scenario/side.hpp) and the thread that
// drives it. The engine batches the requests as in a judged run. When the worker dies, a new one is
// started. Requests without a result run again once; the others end with the reason.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/scenario/side.hpp"

namespace fk {

class LiveModel {
 public:
  // Gets the results of one request, on the model's thread. The last one is a token with `last`, a
  // tensor, or `failed` with a text for the client.
  using Listener = std::function<void(RunnerEvent& event)>;
  struct Setup {
    Side::Setup side;
    int64_t vocabulary = 0;
    bool cancels = false;                          // the engine takes Request::cancels
    std::function<void(const std::string&)> says;  // what becomes of the worker, for people
  };
  explicit LiveModel(Setup setup);
  ~LiveModel();  // ends the worker; open requests get no further result
  LiveModel(const LiveModel&) = delete;

  // Opens the model and starts the thread. False with why().
  bool open();
  const std::string& why() const { return side_.why(); }
  const Side& side() const { return side_; }

  // Hands over a request, and returns its number, which is its id. [any thread]
  uint64_t submit(Request request, Listener listener);
  // Its results are no longer wanted. [any thread]
  void cancel(uint64_t id);
  struct State {
    bool ready = false;                // a worker runs
    int64_t waiting = 0, running = 0;  // requests without and with a result
    int64_t restarts = 0;
  };
  State state() const;  // [any thread]

 private:
  struct Live {
    Request request;
    Listener listener;
    int64_t taken = 0;          // tokens
    bool again = false;         // it runs for the second time
    bool knows_shared = false;  // its leading tokens in the cache
  };
  void work();
  void drive();
  void take_inbox(RankGroup& workers);
  // Returns the fault of an event; empty: none.
  std::string take(RunnerEvent& event);
  void end(std::map<uint64_t, Live>::iterator at, RunnerEvent& event);
  bool reopen();
  void fail_all(const std::string& why);
  void lose_worker();
  void wake();
  void note();

  Setup setup_;
  Side side_;
  std::map<uint64_t, Live> live_;  // of the thread
  std::set<uint64_t> gone_;        // cancelled requests, which may still have results
  int waker_ = -1;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable news_;
  std::vector<std::pair<uint64_t, Live>> inbox_;
  std::vector<uint64_t> cancelled_;
  uint64_t last_id_ = 0;
  bool closing_ = false;
  State state_;
  std::thread thread_;
};

}  // namespace fk
