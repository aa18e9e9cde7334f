// SPDX-License-Identifier: Apache-2.0
// Two devices that are the CPU under other names. The host treats them as a GPU, which goes on
// while processes are stopped. A process that works there holds a lock on the file FK_SHADOW_WORK
// until it ends. With FK_SHADOW_MEMORY they have so many bytes of their own, of which
// FK_SHADOW_FREE (or all) are always free.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/comm/device_comm.hpp"
#include "core/device/device.hpp"
#include "core/measure/background_work.hpp"
#include "core/worker/task.hpp"

namespace fk {
namespace {

// FK_SHADOW_LOOKS, where it is there: after so many looks nobody works any more.
double wait(const IdleWait&, const TaskServices&) {
  const char* const file = std::getenv("FK_SHADOW_WORK");
  const char* const most = std::getenv("FK_SHADOW_LOOKS");
  static int looks = 0;
  const int fd = file ? ::open(file, O_RDWR | O_CLOEXEC) : -1;
  bool works = fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) != 0;
  if (fd >= 0) ::close(fd);
  if (most && ++looks > std::atoi(most)) works = false;
  return works ? 5e-3 : 20e-6;
}

std::optional<int64_t> bytes_from(const char* name) {
  const char* const bytes = std::getenv(name);
  return bytes ? std::optional(std::atoll(bytes)) : std::nullopt;
}

// The CPU, but for its memory.
class OwnMemory final : public Device {
 public:
  int32_t type() const override { return cpu_->type(); }
  int32_t id() const override { return cpu_->id(); }
  std::string name() const override { return cpu_->name(); }
  void* allocate(int64_t n, const std::string& why) override { return cpu_->allocate(n, why); }
  void release(void* memory) override { cpu_->release(memory); }
  void upload(void* to, const void* from, int64_t n) override { cpu_->upload(to, from, n); }
  void download(void* to, const void* from, int64_t n) override { cpu_->download(to, from, n); }
  void* allocate_host(int64_t n) override { return cpu_->allocate_host(n); }
  void release_host(void* memory) override { cpu_->release_host(memory); }
  void upload_later(void* to, const void* from, int64_t n) override { upload(to, from, n); }
  void fill_zero(void* to, int64_t n) override { cpu_->fill_zero(to, n); }
  void copy(void* to, const void* from, int64_t n) override { cpu_->copy(to, from, n); }
  void synchronize() override {}
  void* stream() override { return nullptr; }
  int32_t cpu_threads() const override { return cpu_->cpu_threads(); }
  void share_cores(int32_t processes) override { cpu_->share_cores(processes); }
  std::unique_ptr<Stopwatch> stopwatch() override { return cpu_->stopwatch(); }
  Shared allocate_shared(int64_t n, const std::string& why, Sharing others) override {
    return cpu_->allocate_shared(n, why, others);
  }
  void* open_shared(int fd, int64_t n, Sharing mine) override {
    return cpu_->open_shared(fd, n, mine);
  }
  void close_shared(void* data, int64_t n) override { cpu_->close_shared(data, n); }
  std::optional<int64_t> memory_bytes() override { return bytes_from("FK_SHADOW_MEMORY"); }
  std::optional<int64_t> free_bytes() override {
    const auto free = bytes_from("FK_SHADOW_FREE");
    return free ? free : memory_bytes();
  }

 private:
  std::unique_ptr<Device> cpu_ = open_device("cpu");
};

// The program has a task of this name, which asks a device that is none of these.
std::unique_ptr<Device> open(const std::string&) {
  static const TaskRegistration instead(IdleWait::kName, TypedTask<wait>::run);
  return std::make_unique<OwnMemory>();
}

// For standby_test.cpp: one that waits for a sign, and one that is done long before it answers.
struct StandBy : Nothing {
  struct Went {
    bool goes_on = false;
    double time_s = 0;
    FK_FIELDS(goes_on, time_s)
  };
  static constexpr const char* kName = "stand_by";
  using Answer = Went;
};
StandBy::Went stand_by(const StandBy&, const TaskServices& services) {
  const bool goes_on = services.await_sign();
  return {goes_on, now_seconds()};
}
FK_TASK(stand_by);
struct DoneEarly {
  struct Done {
    double time_s = 0;
    FK_FIELDS(time_s)
  };
  static constexpr const char* kName = "done_early";
  using Answer = Done;
  bool says_so = false;
  unsigned us = 0;
  FK_FIELDS(says_so, us)
};
DoneEarly::Done done_early(const DoneEarly& asked, const TaskServices& services) {
  if (asked.says_so) services.done();
  ::usleep(asked.us);
  return {now_seconds()};
}
FK_TASK(done_early);

// Ranks talk as those of the CPU do, whose memory it is; this one is never asked.
FK_COMMUNICATOR_KIND(shadow, [](Device&, const CommGround&) -> std::unique_ptr<Communicator> {
  return nullptr;
});

FK_DEVICE_KIND(shadow, {[] {
                          return std::vector<std::string>{"shadow:0", "shadow:1"};
                        },
                        open, [] { return std::string(); }});

}  // namespace
}  // namespace fk
