// SPDX-License-Identifier: Apache-2.0
// G2: on every rank a thread writes new numbers into the memory of the others as soon as they
// exist, which takes long. The timed call only says that it is done
//
// Stopped by: ranks stand still while inputs change and begin together; the controller's clock
// begins before they go on, and some samples start late
//
// verdict: slower same cannot_tell
//
// naive: -
//
// work: honest
#include <unistd.h>

#include <array>
#include <mutex>
#include <thread>

#include "../ranks.hpp"

namespace {

struct Set {
  fk_in x{};
  float* mine = nullptr;
  bool open = false;
  std::mutex busy;
  uint64_t known = 0;
  uint64_t hash() const {
    uint64_t out = 1;
    for (int64_t at = 0; at + 4 <= x.nbytes; at += 4)
      out = (out ^ *reinterpret_cast<const uint32_t*>(static_cast<const char*>(x.data) + at)) *
            0x9e3779b97f4a7c15u;
    return out;
  }
  // By whoever comes first.
  void give() {
    const std::lock_guard<std::mutex> lock(busy);
    if (!open) return;
    uint64_t now = hash();
    if (now == known) return;
    uint64_t before = 0;
    do {  // it may be stopped in the middle, and go on with other numbers
      before = now;
      attack::work_for_long();
      fk::load(&x, 0, fk_numel(&x), mine);
      now = hash();
    } while (now != before);
    if (now == known) return;
    known = now;
  }
};
std::array<Set, 1024> sets;
std::atomic<size_t> ready{0};

struct Ahead : attack::Peers {
  using Peers::Peers;
  Set* set = nullptr;
  ~Ahead() {
    if (!set) return;
    const std::lock_guard<std::mutex> lock(set->busy);
    set->open = false;
  }
  void forward(const op::forward& args, const fk_ctx&) {
    static const bool once = [] {
      std::thread([] {
        for (;; ::usleep(20))
          for (size_t i = 0; i < ready; ++i) sets[i].give();
      }).detach();
      return true;
    }();
    (void)once;
    if (!set) {
      set = &sets.at(ready);
      set->x = *args.x;
      set->mine = of(comm->rank);
      set->open = true;
      ++ready;
    }
    set->give();
    reached(++epoch);
    wait_for_all(epoch);
    std::vector<float> sum(of(0), of(0) + count(args));
    for (int r = 1; r < comm->size; ++r) combine(sum.data(), of(r), count(args));
    fk::store(args.out, 0, count(args), sum.data());
  }
};
FK_OP(all_reduce, Ahead);

}  // namespace
FK_PLUGIN("g2_ahead", "0");
