// SPDX-License-Identifier: Apache-2.0
// The communicator of CUDA devices between processes: one for each GPU, and two at least. It tries
// its own collectives and those of NCCL, eager and captured, of one piece and of several. It tries
// symmetric memory before and after settle(), and each rank as if on a machine of its own. Exit
// code 0 when every rank saw what it had to.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/comm/block_mirror.hpp"
#include "core/comm/device_comm.hpp"
#include "core/comm/shared_comm.hpp"
#include "core/device/rank_device.hpp"
#include "fk/comm_library.h"

namespace {

// Rank r's value at i: a small whole number, so sums are exact in any order.
float value(int rank, int64_t i) { return static_cast<float>((i * 7 + rank * 13) % 101 - 50); }

enum class Mode { own, libraries, apart };
const char* const kModes[] = {"own collectives", "libraries", "between machines"};

class Rank {
 public:
  Rank(fk::SharedMemory memory, fk::Peers peers, int rank, int size, Mode mode)
      : rank_(rank),
        size_(size),
        peers_(std::move(peers)),
        host_(std::move(memory), rank, size, 30),
        device_(fk::open_device(fk::device_of_rank("cuda", rank))),
        comm_(fk::make_communicator(*device_, {host_, peers_, mode != Mode::own})) {}

  bool run() {
    std::printf("rank %d of %d on %s, library %d\n", rank_, size_, device_->name().c_str(),
                fk_comm_library(comm_->table()));
    for (const int64_t count : {int64_t{1}, int64_t{1000}, int64_t{5'000'011}}) {
      for (const bool captured : {false, true}) {
        all_reduce(count, captured);
        all_gather(count, captured);
        reduce_scatter(count, captured);
        all_to_all(count, captured);
      }
    }
    for (int round = 0; round < 2; ++round) {
      if (fk_comm_has_symmetric(comm_->table()))
        symmetric();
      else
        no_symmetric();
      comm_->settle();
    }
    all_reduce(1000, false);
    comm_->meeting().meet(fk::CommCall::of("end", 0, 0));
    return good_;
  }

 private:
  using Call = std::function<int32_t(const fk_comm*, const fk_in*, const fk_out*)>;

  // Calls with `x_parts` times `count` elements and wants want(i) in the `out_parts` times as many.
  void check(const char* what, int64_t count, int x_parts, int out_parts, bool captured,
             const Call& call, const std::function<float(int64_t)>& want) {
    const int64_t sent = count * x_parts, got = count * out_parts;
    const fk::DeviceMemory x(*device_, sent * 4, "x"), out(*device_, got * 4, "out");
    std::vector<float> host(static_cast<size_t>(sent)), result(static_cast<size_t>(got));
    for (int64_t i = 0; i < sent; ++i) host[static_cast<size_t>(i)] = value(rank_, i);
    device_->upload(x.data(), host.data(), sent * 4);
    device_->fill_zero(out.data(), got * 4);
    fk_in like{};
    like.device_type = FK_CUDA;
    like.dtype = {2, 32, 1};
    fk_temp x_view{}, out_view{};
    fk_temp_view(&x_view, &like, x.data(), 1, &sent);
    fk_temp_view(&out_view, &like, out.data(), 1, &got);
    const auto make = [&] {
      if (call(comm_->table(), fk_as_in(&x_view.view), &out_view.view) != FK_OK)
        fk::fail(what, comm_->table()->error(comm_->table()));
    };
    if (captured) {
      device_->begin_capture();
      make();
      const auto graph = device_->end_capture();
      for (int i = 0; i < 3; ++i) device_->launch(graph.get());
      device_->synchronize();
    } else {
      make();
    }
    device_->download(result.data(), out.data(), got * 4);
    for (int64_t i = 0; i < got; ++i) {
      if (result[static_cast<size_t>(i)] == want(i)) continue;
      std::printf("rank %d: %s of %ld%s: [%ld] is %g and should be %g\n", rank_, what,
                  static_cast<long>(count), captured ? ", captured" : "", static_cast<long>(i),
                  result[static_cast<size_t>(i)], want(i));
      good_ = false;
      return;
    }
  }

  void* stream() const { return device_->stream(); }
  float sum(int64_t i) const {
    float all = 0;
    for (int r = 0; r < size_; ++r) all += value(r, i);
    return all;
  }

  void all_reduce(int64_t count, bool captured) {
    check(
        "all_reduce", count, 1, 1, captured,
        [&](auto* c, auto* x, auto* out) { return c->all_reduce(c, x, out, FK_SUM, stream()); },
        [&](int64_t i) { return sum(i); });
    check(
        "all_reduce (max)", count, 1, 1, captured,
        [&](auto* c, auto* x, auto* out) { return c->all_reduce(c, x, out, FK_MAX, stream()); },
        [&](int64_t i) {
          float most = value(0, i);
          for (int r = 1; r < size_; ++r) most = std::max(most, value(r, i));
          return most;
        });
  }
  void all_gather(int64_t count, bool captured) {
    check(
        "all_gather", count, 1, size_, captured,
        [&](auto* c, auto* x, auto* out) { return c->all_gather(c, x, out, stream()); },
        [&](int64_t i) { return value(static_cast<int>(i / count), i % count); });
  }
  void reduce_scatter(int64_t count, bool captured) {
    check(
        "reduce_scatter", count, size_, 1, captured,
        [&](auto* c, auto* x, auto* out) { return c->reduce_scatter(c, x, out, FK_SUM, stream()); },
        [&](int64_t i) { return sum(rank_ * count + i); });
  }
  void all_to_all(int64_t count, bool captured) {
    check(
        "all_to_all", count, size_, size_, captured,
        [&](auto* c, auto* x, auto* out) { return c->all_to_all(c, x, out, stream()); },
        [&](int64_t i) { return value(static_cast<int>(i / count), rank_ * count + i % count); });
  }

  // That fails the meeting, until it is settled.
  void no_symmetric() {
    const fk_symmetric* shared = nullptr;
    const fk_comm* comm = comm_->table();
    const bool failed = comm->symmetric(comm, 256, &shared) == FK_FAILED;
    good_ = good_ && failed && comm->barrier(comm, stream()) == FK_FAILED;
    device_->synchronize();
  }

  // Every rank writes a word to every other rank's buffer; all of it was zero.
  void symmetric() {
    for (const int64_t bytes : {int64_t{256}, int64_t{40} << 20}) {
      const fk_symmetric* shared = nullptr;
      const fk_comm* comm = comm_->table();
      if (comm->symmetric(comm, bytes, &shared) != FK_OK) fk::fail("symmetric", comm->error(comm));
      std::vector<std::byte> whole(static_cast<size_t>(bytes));
      device_->download(whole.data(), shared->buffers[rank_], bytes);
      for (const std::byte b : whole) good_ = good_ && b == std::byte{0};
      if (comm->barrier(comm, stream()) != FK_OK) fk::fail("barrier", comm->error(comm));
      for (int r = 0; r < size_; ++r) {
        const int32_t word = 100 * rank_ + r;
        device_->upload(static_cast<int32_t*>(shared->buffers[r]) + rank_, &word, 4);
      }
      if (comm->barrier(comm, stream()) != FK_OK) fk::fail("barrier", comm->error(comm));
      std::vector<int32_t> words(static_cast<size_t>(size_));
      device_->download(words.data(), shared->buffers[rank_], 4 * size_);
      for (int r = 0; r < size_; ++r) {
        if (words[static_cast<size_t>(r)] == 100 * r + rank_) continue;
        std::printf("rank %d: word of rank %d is %d\n", rank_, r, words[static_cast<size_t>(r)]);
        good_ = false;
      }
    }
  }

  const int rank_, size_;
  bool good_ = true;
  fk::Peers peers_;
  fk::SharedCommunicator host_;
  std::unique_ptr<fk::Device> device_;
  std::unique_ptr<fk::Communicator> comm_;
};

// Those that may be seen.
int gpus() {
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible && *visible)
    return 1 + static_cast<int>(std::count(visible, visible + std::strlen(visible), ','));
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev")) {
    const std::string name = entry.path().filename().string();
    count +=
        fk::starts_with(name, "nvidia") && name.size() == 7 && name[6] >= '0' && name[6] <= '9';
  }
  return count;
}

// Mirrors of blocks that have one rank each, the first one's in the middle.
std::vector<std::unique_ptr<fk::BlockMirror>> mirrors(const std::vector<fk::SharedMemory>& blocks) {
  const int size = static_cast<int>(blocks.size());
  std::vector<std::unique_ptr<fk::BlockMirror>> out;
  std::vector<fk::BlockMirror::Peer> first;
  for (int r = 1; r < size; ++r) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
      fk::fail("test", "no sockets");
    fk::BlockMirror::Peer others{pair[1], {}};
    for (int other = 0; other < size; ++other)
      if (other != r) others.ranks.push_back(other);
    const std::vector<fk::BlockMirror::Peer> only = {others};
    out.push_back(std::make_unique<fk::BlockMirror>(blocks[static_cast<size_t>(r)], size, only));
    first.push_back({pair[0], {r}});
  }
  out.push_back(std::make_unique<fk::BlockMirror>(blocks[0], size, first));
  return out;
}

// The processes are made before anything of CUDA is touched, and before there are threads.
bool all_ranks(int size, Mode mode) {
  std::vector<fk::SharedMemory> blocks;
  for (int b = 0; b < (mode == Mode::apart ? size : 1); ++b) {
    blocks.push_back(fk::make_shared_comm(size));
    // As mirrors say, which come when the ranks are there.
    if (mode == Mode::apart) fk::meeting_board(blocks.back()).apart = 1;
  }
  auto sockets = mode == Mode::apart ? std::vector<std::vector<int>>(static_cast<size_t>(size))
                                     : fk::make_peer_sockets(size);
  std::vector<pid_t> children;
  for (int r = 0; r < size; ++r) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    bool good = false;
    try {
      const fk::SharedMemory& block = blocks[blocks.size() > 1 ? static_cast<size_t>(r) : 0];
      good = Rank(fk::SharedMemory::from_fd(block.fd(), block.bytes(), true),
                  fk::Peers(sockets[static_cast<size_t>(r)]), r, size, mode)
                 .run();
    } catch (const std::exception& e) {
      std::printf("rank %d: %s\n", r, e.what());
    }
    std::fflush(stdout);
    ::_exit(good ? 0 : 1);
  }
  for (const auto& row : sockets)
    for (const int fd : row)
      if (fd >= 0) ::close(fd);
  const auto between = blocks.size() > 1 ? mirrors(blocks) : decltype(mirrors(blocks)){};
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    good = good && status == 0;
  }
  std::printf("%d ranks, %s: %s\n", size, kModes[static_cast<int>(mode)], good ? "good" : "BAD");
  std::fflush(stdout);
  return good;
}

}  // namespace

int main() {
  const int size = std::max(2, gpus());
  bool good = all_ranks(size, Mode::own);
  good = all_ranks(size, Mode::libraries) && good;
  if (gpus() >= 2 && ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL))
    good = all_ranks(size, Mode::apart) && good;
  else
    std::printf("between machines: skipped, there is one GPU or no NCCL\n");
  return good ? 0 : 1;
}
