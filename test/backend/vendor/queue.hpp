// SPDX-License-Identifier: Apache-2.0
// A stream: a thread that runs enqueued work in order. During a capture, work is kept in place of
// enqueued.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fk/device.h"
#include "stream.h"

namespace vendor {

struct Work {
  std::function<void()> run;
  int32_t kind = FK_NODE_KERNEL;
  std::string name = {};
  std::vector<fk_span> spans = {};
  int32_t mark = 0;
};

class Queue : public vendor_stream {
 public:
  Queue() : vendor_stream{enqueue_kernel}, thread_([this] { loop(); }) {}
  Queue(const Queue&) = delete;
  ~Queue() {
    push({[this] { ends_ = true; }});
    thread_.join();
  }
  void push(Work work) {
    if (captures_) {
      work.mark = mark_;
      return captured_.push_back(std::move(work));
    }
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work.run));
    ++pushed_;
    changed_.notify_all();
  }
  // Waits until `count` pieces of work have ended; without it until all have.
  void wait() { wait(pushed()); }
  void wait(uint64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= count; });
  }
  uint64_t pushed() {
    const std::lock_guard lock(mutex_);
    return pushed_;
  }
  bool has_done(uint64_t count) {
    const std::lock_guard lock(mutex_);
    return done_ >= count;
  }
  void hold(double most_s) {
    held_ = true;
    push({[this, most_s] {
      std::unique_lock lock(hold_mutex_);
      let_go_.wait_for(lock, std::chrono::duration<double>(most_s), [this] { return !held_; });
    }});
  }
  void let_go() {
    const std::lock_guard lock(hold_mutex_);
    held_ = false;
    let_go_.notify_all();
  }
  void begin_capture() { captures_ = true, mark_ = 0, captured_.clear(); }
  void mark_capture() { ++mark_; }
  std::vector<Work> end_capture() {
    captures_ = false;
    return std::move(captured_);
  }

 private:
  static void enqueue_kernel(vendor_stream* self, const char* name, void (*work)(void*),
                             const void* argument, unsigned long bytes) {
    std::vector<unsigned char> copy(bytes);
    std::memcpy(copy.data(), argument, bytes);
    static_cast<Queue*>(self)->push(
        {[work, copy]() mutable { work(copy.data()); }, FK_NODE_KERNEL, name});
  }
  void loop() {
    while (!ends_) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !waiting_.empty(); });
        work = std::move(waiting_.front());
        waiting_.pop_front();
      }
      work();
      const std::lock_guard lock(mutex_);
      ++done_;
      changed_.notify_all();
    }
  }
  std::mutex mutex_, hold_mutex_;
  std::condition_variable changed_, let_go_;
  std::deque<std::function<void()>> waiting_;
  uint64_t pushed_ = 0, done_ = 0;
  bool ends_ = false, held_ = false;
  bool captures_ = false;
  int32_t mark_ = 0;
  std::vector<Work> captured_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace vendor
