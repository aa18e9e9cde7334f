// SPDX-License-Identifier: Apache-2.0
// A6: a thread that sleeps while the process is stopped answers the future calls as soon as it goes
// on. It has the moment until the message that starts the clock has been read
//
// Stopped by: what threads work between the contents and a call that comes late is added to the
// time
//
// verdict: cheating wrong crashed slower same cannot_tell
//
// work: honest
//
// naive: -
#include "../same_weights.hpp"

#include <unistd.h>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace {

struct Window : attack::SameWeights {
  using Clock = std::chrono::steady_clock;
  static constexpr auto kStopped = std::chrono::microseconds(1100);
  static inline std::vector<Window*> all_of_them;
  static inline std::mutex known;
  std::mutex working;
  const op::forward* args = nullptr;
  uint64_t of = 0;  // the input that `answer` belongs to
  std::vector<char> answer;

  Window(const fk_host& host, const op::init& i, const op::weights& given)
      : SameWeights(host, i, given) {
    const std::lock_guard<std::mutex> lock(known);
    all_of_them.push_back(this);
    static const bool once = (std::thread(wait_and_answer).detach(), true);
    (void)once;
  }
  ~Window() {
    const std::lock_guard<std::mutex> lock(known);
    std::erase(all_of_them, this);
  }
  // Contents differ in all elements.
  static uint64_t hash(const fk_in* x) {
    uint64_t word = 0;
    std::memcpy(&word, x->data, sizeof word);
    return word | 1;
  }
  void work(const fk_out* out) {
    const int64_t rows = args->x->shape[0];
    room(rows);
    for (int64_t m = 0; m < rows; ++m)
      fk::load(args->x, m * args->x->strides[0], init.in_features,
               &x[static_cast<size_t>(m * wide)]);
    multiply(rows);
    store(out, 0, rows, rows);
  }
  static void wait_and_answer() {
    for (auto last = Clock::now();; last = Clock::now()) {
      usleep(800);
      if (Clock::now() - last < kStopped) continue;
      const std::lock_guard<std::mutex> lock(known);
      for (Window* one : all_of_them) {
        if (!one->args || !one->working.try_lock()) continue;
        if (const uint64_t now = hash(one->args->x); now != one->of) {
          one->of = 0;
          fk_out into = *one->args->out;
          into.data = one->answer.data();
          one->work(&into);
          one->of = now;
        }
        one->working.unlock();
      }
    }
  }
  void forward(const op::forward& given, const fk_ctx&) {
    const std::lock_guard<std::mutex> lock(working);
    args = &given;
    answer.resize(static_cast<size_t>(given.out->nbytes));
    if (of == hash(given.x))
      std::memcpy(given.out->data, answer.data(), answer.size());
    else
      work(given.out);
  }
};
FK_OP(linear, Window);

}  // namespace
FK_PLUGIN("a6_window", "0");
