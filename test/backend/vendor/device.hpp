// SPDX-License-Identifier: Apache-2.0
// A vendor's backend, complete and small: a second CPU behind a queue. Its device memory is private
// to the host's eyes, processes share it by a memfd, and work runs on a thread.
//
// BROKEN has the name of a fault; each fault fails the conformance suite (test/backend/vendor.sh).
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fk/cpp/device.hpp"
#include "queue.hpp"

#ifndef BROKEN
#define BROKEN ""
#endif

namespace vendor {

constexpr bool broken(std::string_view fault) { return fault == BROKEN; }

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Device;

// Two pieces of work note the time on the queue's thread.
class Watch {
 public:
  explicit Watch(Device& device);
  ~Watch() { queue_.wait(); }  // its work writes here
  void flush(int32_t all);
  void start();
  void stop();
  void seconds(double* seconds, int32_t* late);

 private:
  Queue& queue_;
  std::vector<uint64_t> other_;
  volatile uint64_t seen_ = 0;
  double begin_s_ = 0, end_s_ = 0;
  uint64_t started_ = 0;
  bool late_ = false;
};

class Device {
 public:
  static constexpr fk::backend_traits traits = {
      "queue", "1.0", VENDOR_TYPE, "queue devices",
      "device: queue\nname: Queue One\nmemory_bandwidth: 10e9\nflops: {f32: 1e9}\n"};
  using Watch = vendor::Watch;
  struct Sense {
    explicit Sense(int32_t) {}
    void look(fk_state& state) {
      state.clock_mhz = 1000;
      state.used_bytes = -1;
    }
  };

  static int32_t count(fk_error&) { return 1; }
  static void describe(int32_t index, fk_device_info& info) {
    if (index != 0) throw std::runtime_error("there is one device");
    info.cpu_threads = 1;
    info.memory_bytes = int64_t{1} << 40;
    std::strcpy(info.name, "Queue One");
    std::strcpy(info.identity, "queue-0");
    std::strcpy(info.driver, "threads 1");
  }
  explicit Device(int32_t index) {
    if (index != 0) throw std::runtime_error("there is one device");
  }
  ~Device() { queue_.wait(); }
  Queue& queue() { return queue_; }

  void* allocate(int64_t bytes) {
    constexpr size_t kShift = broken("alignment") ? 64 : 0;
    const size_t room = static_cast<size_t>(bytes) + kShift;
    void* const memory = ::mmap(nullptr, room, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || bytes > (int64_t{1} << 40))
      throw std::runtime_error("the device has 1 TiB");
    sizes_[memory] = room;
    return static_cast<char*>(memory) + kShift;
  }
  void release(void* memory) {
    queue_.wait();
    const auto own = std::prev(sizes_.upper_bound(memory));
    ::munmap(own->first, own->second);
    sizes_.erase(own);
  }
  void* allocate_host(int64_t bytes) { return allocate(bytes); }
  void release_host(void* memory) { release(memory); }

  void upload(void* to, const void* host, int64_t bytes) {
    const auto* first = static_cast<const unsigned char*>(host);
    if (!bytes) return;
    if (broken("upload") && bytes > 1) --bytes;  // the last byte stays as it was
    auto copy = std::make_shared<std::vector<unsigned char>>(first, first + bytes);
    queue_.push(
        {[=] { std::memcpy(to, copy->data(), copy->size()); }, FK_NODE_COPY, "", {{to, bytes}}});
  }
  void upload_later(void* to, const void* host, int64_t bytes) { copy(to, host, bytes); }
  void uploads_enqueued() { uploads_ = queue_.pushed(); }
  void wait_for_uploads() { queue_.wait(uploads_); }
  void download(void* host, const void* from, int64_t bytes) {
    copy(host, from, bytes);
    queue_.wait();
  }
  void download_later(void* host, const void* from, int64_t bytes) { copy(host, from, bytes); }
  void copy(void* to, const void* from, int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    if (!bytes) return;
    if (broken("order")) return (void)std::memcpy(to, from, size);
    queue_.push(
        {[=] { std::memmove(to, from, size); }, FK_NODE_COPY, "", {{to, bytes}, {from, bytes}}});
  }
  void fill(void* to, int32_t byte, int64_t bytes) {
    const auto size = static_cast<size_t>(bytes) + (broken("fill") && bytes % 4096 ? 1 : 0);
    if (bytes) queue_.push({[=] { std::memset(to, byte, size); }, FK_NODE_FILL, "", {{to, bytes}}});
  }

  void share(int64_t bytes, int64_t, int32_t writable, void** memory, int32_t* fd) {
    *fd = ::memfd_create("queue", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0 || ::ftruncate(*fd, bytes) != 0) throw std::runtime_error("no shared memory");
    *memory = map(*fd, bytes, true);
    constexpr int kFutureWrites = 0x10;  // F_SEAL_FUTURE_WRITE
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (writable ? 0 : kFutureWrites);
    if (::fcntl(*fd, F_ADD_SEALS, seals) != 0) throw std::runtime_error("no seals");
  }
  void open_shared(int32_t fd, int64_t bytes, int32_t writable, void** memory) {
    *memory = map(fd, bytes, writable != 0);
    if (broken("share")) {  // a copy is no shared memory
      void* own = allocate(bytes);
      *memory = std::memcpy(own, *memory, static_cast<size_t>(bytes));
    }
  }
  void close_shared(void* memory, int64_t bytes) {
    queue_.wait();
    ::munmap(memory, static_cast<size_t>(bytes));
  }

  void* stream() { return static_cast<vendor_stream*>(&queue_); }
  void synchronize() { queue_.wait(); }
  void synchronize_all() { queue_.wait(); }
  void hold(double most_s) { queue_.hold(broken("hold") ? 8 : most_s); }
  void let_go() { queue_.let_go(); }
  void peek(void* host, const void* from, int64_t bytes) {
    std::memcpy(host, from, static_cast<size_t>(bytes));
  }

  void begin_capture() {
    if (!broken("capture")) queue_.begin_capture();
  }
  int32_t capture_is_whole() { return 1; }
  void mark_capture() { queue_.mark_capture(); }
  void separate_calls() {}
  void end_capture(fk_graph** graph, fk_nodes* nodes) {
    auto* const work = new std::vector<Work>(queue_.end_capture());
    *graph = reinterpret_cast<fk_graph*>(work);
    // Each node waits for the one before it.
    before_.clear();
    nodes_.clear();
    for (size_t i = 0; i < work->size(); ++i) before_.push_back(static_cast<int64_t>(i) - 1);
    for (size_t i = 0; i < work->size(); ++i) {
      const Work& w = (*work)[i];
      nodes_.push_back({w.kind, w.mark, w.name.c_str(), static_cast<int64_t>(w.spans.size()),
                        w.spans.data(), i ? 1 : 0, &before_[i], 1, 0, 0, 0, 0});
    }
    nodes->node_bytes = sizeof(fk_node);
    nodes->count = static_cast<int64_t>(nodes_.size());
    nodes->nodes = nodes_.data();
  }
  void launch(fk_graph* graph, double* gap_s) {
    const double began = now_s();
    for (const Work& work : *reinterpret_cast<std::vector<Work>*>(graph)) queue_.push(work);
    if (!gap_s) return;
    queue_.wait();
    *gap_s = ended_s_ > 0 ? began - ended_s_ : -1;
    ended_s_ = now_s();
  }
  void free_graph(fk_graph* graph) {
    queue_.wait();
    delete reinterpret_cast<std::vector<Work>*>(graph);
  }

 private:
  static void* map(int fd, int64_t bytes, bool writable) {
    void* const memory =
        ::mmap(nullptr, static_cast<size_t>(bytes), writable ? PROT_READ | PROT_WRITE : PROT_READ,
               writable ? MAP_SHARED : MAP_PRIVATE, fd, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("shared memory cannot be mapped");
    return memory;
  }
  std::map<void*, size_t> sizes_;
  uint64_t uploads_ = 0;
  double ended_s_ = 0;
  std::vector<fk_node> nodes_;
  std::vector<int64_t> before_;
  Queue queue_;
};

inline Watch::Watch(Device& device) : queue_(device.queue()), other_(size_t{4} << 20, 1) {}
inline void Watch::flush(int32_t) {
  queue_.push({[this] {
    uint64_t sum = 0;
    for (size_t i = 0; i < other_.size(); i += 8) sum += other_[i];
    seen_ = sum;
  }});
}
inline void Watch::start() {
  queue_.push({[this] { begin_s_ = now_s(); }});
  started_ = queue_.pushed();
}
inline void Watch::stop() {
  late_ = queue_.has_done(started_);
  queue_.push({[this] { end_s_ = now_s(); }});
}
inline void Watch::seconds(double* seconds, int32_t* late) {
  queue_.wait();
  *seconds = broken("clock") ? 1e-3 : end_s_ - begin_s_;
  *late = late_;
}

}  // namespace vendor
