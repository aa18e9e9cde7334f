// SPDX-License-Identifier: Apache-2.0
// The ranks of the communicators' suite: forked processes, each with its device and a communicator
// for every group which it belongs to. A process is forked before it touches a device. Catch2 does
// not work across a fork, so a body throws an Error when something is wrong.
#pragma once
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/comm/block_mirror.hpp"
#include "core/comm/device_comm.hpp"
#include "core/comm/shared_comm.hpp"
#include "core/device/rank_device.hpp"
#include "core/tensor/tensor.hpp"
#include "test/catch.hpp"

namespace fk::test {

// FK_SUITE_DEVICE: "cpu", or a kind of device with a registered communicator. FK_SUITE_COMM: "own"
// collectives of the host, those of "libraries", or ranks on "machines" of their own.
struct CommBackend {
  std::string device = "cpu", form = "own";

  static CommBackend asked() {
    CommBackend out;
    if (const char* device = std::getenv("FK_SUITE_DEVICE"); device && *device) out.device = device;
    if (const char* form = std::getenv("FK_SUITE_COMM"); form && *form) out.form = form;
    return out;
  }
  bool cpu() const { return device == "cpu"; }
  bool apart() const { return form == "machines"; }
  // Numbers of ranks. Ranks that share a GPU take turns of milliseconds, so few are asked there.
  std::vector<int> sizes() const {
    if (apart()) return cpu() ? std::vector{2, 3} : std::vector{2};
    return cpu() ? std::vector{1, 2, 3, 8} : std::vector{1, 2, 3};
  }
  // Seconds for ranks which wait for one that does not come. Devices are slower to open.
  double short_patience() const { return cpu() ? 0.5 : 10; }
};

// A dense tensor on a device, between guards which nobody may write.
class GuardedTensor {
 public:
  GuardedTensor(Device& device, const Tensor& content)
      : device_(device), like_(content), memory_(device, content.bytes() + 2 * kGuard, "a test") {
    const std::vector<std::byte> guard(kGuard, std::byte{0xa5});
    device_.upload(memory_.data(), guard.data(), kGuard);
    device_.upload(at(), content.data(), content.bytes());
    device_.upload(at() + content.bytes(), guard.data(), kGuard);
    const DLPackType type = to_dlpack(content.dtype);
    fk_in like{};
    like.device_type = device.type();
    like.device_id = device.id();
    like.dtype = {type.code, type.bits, 1};
    fk_temp_view(&view_, &like, at(), static_cast<int32_t>(content.shape.size()),
                 content.shape.data());
  }
  GuardedTensor(const GuardedTensor&) = delete;
  fk_out& out() { return view_.view; }
  const fk_in* in() const { return fk_as_in(&view_.view); }
  // The content. Error when a guard has changed.
  Tensor read() const {
    Tensor now = like_;
    device_.download(now.data(), at(), now.bytes());
    std::vector<std::byte> guard(kGuard);
    for (const std::byte* place : {at() - kGuard, at() + now.bytes()}) {
      device_.download(guard.data(), place, kGuard);
      if (guard != std::vector<std::byte>(kGuard, std::byte{0xa5}))
        fail("test", "memory beside a tensor was written");
    }
    return now;
  }

 private:
  static constexpr int64_t kGuard = 256;
  std::byte* at() const { return memory_.data() + kGuard; }

  Device& device_;
  const Tensor like_;
  DeviceMemory memory_;
  fk_temp view_{};
};

// A rank's place in a group.
class RankComm {
 public:
  RankComm(const CommBackend& backend, Device& device, const SharedMemory& block,
           std::vector<int> sockets, int rank, int size, double patience_s)
      : device_(device),
        peers_(std::move(sockets)),
        host_(SharedMemory::from_fd(block.fd(), block.bytes(), true), rank, size, patience_s) {
    if (!backend.cpu()) made_ = make_communicator(device, {host_, peers_, backend.form != "own"});
  }
  Communicator& comm() { return made_ ? *made_ : host_; }
  const fk_comm* table() { return comm().table(); }
  const fk_comm& host() const { return *host_.table(); }
  Device& device() { return device_; }
  int rank() const { return host_.rank(); }
  int size() const { return host_.size(); }
  void* stream() { return device_.stream(); }

 private:
  Device& device_;
  Peers peers_;
  SharedCommunicator host_;
  std::unique_ptr<Communicator> made_;  // null: the host's own
};

// Members of a group by their number among all processes; a member's rank is its place.
using CommGroup = std::vector<int>;
using RankCommBody = std::function<void(std::vector<std::unique_ptr<RankComm>>&)>;

// The memory and the sockets of a group, which outlive its ranks.
class GroupGround {
 public:
  GroupGround(const CommBackend& backend, CommGroup group)
      : apart_(backend.apart()), members_(std::move(group)) {
    for (int b = 0; b < (apart_ ? size() : 1); ++b) {
      blocks_.push_back(make_shared_comm(size()));
      // The mirrors, which come after the ranks, set it too late for them.
      if (apart_) meeting_board(blocks_.back()).apart = 1;
    }
    if (!apart_ && !backend.cpu()) sockets_ = make_peer_sockets(size());
  }
  int size() const { return static_cast<int>(members_.size()); }
  // -1: no member.
  int rank_of(int process) const {
    const auto at = std::find(members_.begin(), members_.end(), process);
    return at == members_.end() ? -1 : static_cast<int>(at - members_.begin());
  }
  std::unique_ptr<RankComm> join(const CommBackend& backend, Device& device, int rank,
                                 double patience_s) const {
    const auto r = static_cast<size_t>(rank);
    return std::make_unique<RankComm>(backend, device, blocks_[apart_ ? r : 0],
                                      sockets_.empty() ? std::vector<int>() : sockets_[r], rank,
                                      size(), patience_s);
  }
  // For the parent, when all ranks are forked.
  void ranks_are_there() {
    for (const auto& row : sockets_)
      for (const int fd : row)
        if (fd >= 0) ::close(fd);
    if (!apart_ || size() == 1) return;
    std::vector<BlockMirror::Peer> first;
    for (int r = 1; r < size(); ++r) {
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        fail("test", "no sockets");
      BlockMirror::Peer others{pair[1], {}};
      for (int other = 0; other < size(); ++other)
        if (other != r) others.ranks.push_back(other);
      mirrors_.push_back(std::make_unique<BlockMirror>(blocks_[static_cast<size_t>(r)], size(),
                                                       std::vector<BlockMirror::Peer>{others}));
      first.push_back({pair[0], {r}});
    }
    mirrors_.push_back(std::make_unique<BlockMirror>(blocks_[0], size(), std::move(first)));
  }

 private:
  const bool apart_;
  const CommGroup members_;
  std::vector<SharedMemory> blocks_;
  std::vector<std::vector<int>> sockets_;
  std::vector<std::unique_ptr<BlockMirror>> mirrors_;
};

// Runs body(its places, in the order of `groups`) in `processes` processes. CHECKs that none threw.
inline void on_groups(int processes, const std::vector<CommGroup>& groups, double patience_s,
                      const RankCommBody& body) {
  constexpr size_t kText = 512;
  const CommBackend backend = CommBackend::asked();
  std::vector<std::unique_ptr<GroupGround>> ground;
  for (const CommGroup& group : groups)
    ground.push_back(std::make_unique<GroupGround>(backend, group));
  const SharedMemory texts = SharedMemory::create("texts", kText * static_cast<size_t>(processes));
  const auto text = [&](int p) {
    return static_cast<char*>(texts.data()) + kText * static_cast<size_t>(p);
  };
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    ::alarm(backend.cpu() ? 100 : 300);
    try {
      const auto device = open_device(device_of_rank(backend.device, p));
      std::vector<std::unique_ptr<RankComm>> places;
      for (const auto& one : ground)
        if (const int rank = one->rank_of(p); rank >= 0)
          places.push_back(one->join(backend, *device, rank, patience_s));
      try {
        body(places);
      } catch (const std::exception& e) {  // the others need not wait for this rank
        for (const auto& place : places) place->comm().meeting().give_up(e.what());
        throw;
      }
    } catch (const std::exception& e) {
      std::strncpy(text(p), e.what(), kText - 1);
    }
    ::_exit(0);
  }
  for (const auto& one : ground) one->ranks_are_there();
  for (int p = 0; p < processes; ++p) {
    int status = 0;
    ::waitpid(children[static_cast<size_t>(p)], &status, 0);
    INFO("process " << p << " of " << processes << " on " << backend.device << ", "
                    << backend.form);
    CHECK(std::string(text(p)) == "");
    CHECK(status == 0);
  }
}

// body(its place) in a process for each of `size` ranks.
inline void on_ranks(int size, const std::function<void(RankComm&)>& body, double patience_s = 30) {
  CommGroup all;
  for (int r = 0; r < size; ++r) all.push_back(r);
  on_groups(size, {all}, patience_s, [&](auto& places) { body(*places.at(0)); });
}

}  // namespace fk::test
