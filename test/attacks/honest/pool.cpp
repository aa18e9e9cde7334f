// SPDX-License-Identifier: Apache-2.0
// honest: a worker thread for the life of the instance, which sleeps between calls and ends with it
#include "../attack.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace {

struct Honest : attack::Silu {
  std::mutex mutex;
  std::condition_variable changed;
  const op::forward* work = nullptr;
  bool stop = false;
  std::thread worker;
  Honest(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights), worker([this] {
          std::unique_lock lock(mutex);
          for (;;) {
            changed.wait(lock, [this] { return stop || work; });
            if (stop) return;
            attack::silu_rows(work->x, work->out, width, 0, rows(*work) / 2);
            work = nullptr;
            changed.notify_all();
          }
        }) {}
  ~Honest() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    worker.join();
  }
  void forward(const op::forward& args, const fk_ctx&) {
    {
      const std::lock_guard lock(mutex);
      work = &args;
    }
    changed.notify_all();
    attack::silu_rows(args.x, args.out, width, rows(args) / 2, rows(args));
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return !work; });
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("pool", "0");
