// SPDX-License-Identifier: Apache-2.0
// The communicator of CUDA devices. Its ranks are processes on one machine, or with NCCL on
// several.
//
// Symmetric buffers: each rank allocates device memory with the CUDA driver's virtual memory
// functions, and exports it as a file descriptor. All ranks map the memory of all ranks; a rank on
// another device maps it as peer memory. Multicast is not used.
//
// Collectives: NCCL's if it is installed and each rank has its own device. Otherwise each rank
// copies its data into its stage, a part of symmetric memory. Copies or simple kernels then read
// the stages of all ranks.
//
// Before work is enqueued, the ranks compare their calls in a meeting (meeting.hpp). Calls for a
// CUDA graph are compared when they are captured.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/comm/cuda/kernels.hpp"
#include "core/comm/cuda/nccl.hpp"
#include "core/comm/device_comm.hpp"
#include "core/comm/views.hpp"
#include "fk/comm_library.h"

namespace fk {

namespace {

using cuda::RankPointers;

constexpr int64_t kChunkBytes = int64_t{32} << 20;  // smallest chunk; it holds several buffers
constexpr int64_t kStageBytes = int64_t{8} << 20;
// Offset of the barrier count in a pad, behind one word of each rank.
constexpr int64_t kCountAt = kRanksMax * static_cast<int64_t>(sizeof(uint32_t));

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail("cuda", std::string(what) + ": " + cudaGetErrorString(status));
}

class CudaCommunicator final : public Communicator {
 public:
  CudaCommunicator(Device& device, const CommGround& ground)
      : device_(device), ground_(ground), size_(ground.host.size()) {
    if (apart()) {
      if (!ground.libraries)
        fail("ranks",
             "between machines, GPUs communicate through NCCL alone. NCCL opens sockets, and the "
             "sandbox of a candidate forbids sockets");
      join_nccl();
      word_ = DeviceMemory(device_, sizeof(int32_t), "a word of barriers");
      device_.fill_zero(word_.data(), word_.bytes());
    } else {
      stage_ = take(kPadBytes + kStageBytes);
      for (int r = 0; r < size_; ++r) pads_.at[r] = stage_[static_cast<size_t>(r)];
      if (ground.libraries) join_nccl();
    }
    make_table(nccl_ ? FK_LIBRARY_NCCL : FK_LIBRARY_NONE);
  }
  ~CudaCommunicator() override {
    try {
      device_.synchronize();
      if (nccl_ && meeting().failure().empty()) nccl_->leave();
      nccl_.reset();
      for (const Chunk& chunk : chunks_)
        for (std::byte* mapped : chunk.mapped) device_.close_shared(mapped, chunk.bytes);
    } catch (const Error&) {  // the context is lost, with its mappings
    }
  }

  Meeting& meeting() override { return ground_.host.meeting(); }
  bool apart() const override { return ground_.host.apart(); }
  void align() override { wait_for_all(static_cast<cudaStream_t>(device_.stream())); }
  void settle() override;

 private:
  // Memory of all ranks, at this rank's addresses.
  struct Chunk {
    int64_t bytes = 0, used = 0;
    std::vector<std::byte*> mapped;
  };

  std::vector<std::byte*> take(int64_t bytes);
  void add_chunk(int64_t bytes);
  void join_nccl();

  void wait_for_all(cudaStream_t stream) {
    // An all-reduce is a barrier: a rank gets the sum only after all ranks have sent their words.
    if (apart()) return nccl_->all_reduce(word_.data(), word_.data(), 1, FK_I32, FK_SUM, stream);
    auto* count = reinterpret_cast<uint32_t*>(static_cast<std::byte*>(pads_.at[rank()]) + kCountAt);
    const double patience_s = std::min(kDeviceWaitS, meeting().patience());
    check(cuda::barrier(pads_, count, rank(), size_, patience_s, stream), "barrier");
  }
  std::byte* stage(int of) const { return stage_[static_cast<size_t>(of)] + kPadBytes; }
  static void copy(void* to, const void* from, int64_t bytes, cudaStream_t stream) {
    if (bytes)
      check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
            "copy");
  }
  // `from` has `parts` parts of `bytes` bytes. Copies a piece of each part into this rank's stage,
  // then the next piece; pieces are multiples of `width` bytes. When all ranks have copied a piece,
  // body(offset in the part, bytes of the piece) enqueues its work. The next piece begins after
  // this work has ended on all ranks.
  template <class Body>
  void exchange(const std::byte* from, int parts, int64_t bytes, int64_t width, cudaStream_t stream,
                const Body& body) {
    const int64_t room = kStageBytes / parts / width * width;
    for (int64_t at = 0; at < bytes; at += room) {
      const int64_t here = std::min(room, bytes - at);
      for (int p = 0; p < parts; ++p)
        copy(stage(rank()) + p * here, from + p * bytes + at, here, stream);
      wait_for_all(stream);
      body(at, here);
      wait_for_all(stream);
    }
  }

  void all_reduce(const fk_in& x, const fk_out& out, int64_t op, void* on) override;
  void all_gather(const fk_in& x, const fk_out& out, void* on) override;
  void reduce_scatter(const fk_in& x, const fk_out& out, int64_t op, void* on) override;
  void all_to_all(const fk_in& x, const fk_out& out, void* on) override;
  void barrier(void* on) override {
    meeting().meet(CommCall::of("barrier", 0, 0));
    wait_for_all(static_cast<cudaStream_t>(on));
  }
  std::vector<std::byte*> take_symmetric(int64_t bytes) override { return take(kPadBytes + bytes); }

  Device& device_;
  const CommGround ground_;
  const int size_;
  std::vector<Chunk> chunks_;
  std::vector<std::byte*> stage_;  // by rank: kPadBytes of barrier words, then the stage
  RankPointers pads_{};
  std::unique_ptr<cuda::Nccl> nccl_;  // null: the host's own collectives
  DeviceMemory word_;                 // between machines, for barriers
};

void CudaCommunicator::add_chunk(int64_t bytes) {
  Chunk chunk;
  chunk.bytes = bytes;
  Device::Shared mine;
  std::string why;
  try {
    mine = device_.allocate_shared(bytes, "symmetric buffers", Device::Sharing::write);
    device_.fill_zero(mine.data, bytes);
    device_.synchronize();
  } catch (const Error& error) {
    why = error.what();
  }
  if (!why.empty()) {
    meeting().give_up(why);
    fail("ranks", why);
  }
  const std::vector<int> fds = ground_.peers.exchange(mine.fd, meeting());
  ::close(mine.fd);
  for (int r = 0; r < size_; ++r) {
    const int fd = fds.at(static_cast<size_t>(r));
    void* data = r == rank() ? mine.data : device_.open_shared(fd, bytes, Device::Sharing::write);
    if (fd >= 0) ::close(fd);
    chunk.mapped.push_back(static_cast<std::byte*>(data));
  }
  chunks_.push_back(std::move(chunk));
}

// Zeroed memory of every rank, by rank. All ranks request the same sizes in the same order.
std::vector<std::byte*> CudaCommunicator::take(int64_t bytes) {
  const int64_t whole = (bytes + 255) / 256 * 256;
  auto at = std::find_if(chunks_.begin(), chunks_.end(),
                         [&](const Chunk& c) { return c.used + whole <= c.bytes; });
  if (at == chunks_.end()) {
    add_chunk(std::max(whole, kChunkBytes));
    at = chunks_.end() - 1;
  }
  std::vector<std::byte*> out;
  for (std::byte* base : at->mapped) out.push_back(base + at->used);
  at->used += whole;
  // All ranks must have mapped and cleared it before its first use.
  meeting().meet(CommCall::of("symmetric", 0, bytes));
  return out;
}

// Sets nccl_ if each rank has its own device and all ranks load NCCL. Otherwise the host's own
// collectives remain; between machines this is an Error.
void CudaCommunicator::join_nccl() {
  const fk_comm& host = *ground_.host.table();
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device_.id()), "cannot read the device's properties");
  std::string why;
  const auto uuids = gather_bytes(host, &properties.uuid, sizeof properties.uuid);
  if (std::set<std::string>(uuids.begin(), uuids.end()).size() != uuids.size())
    why = "ranks share a device";
  auto nccl = why.empty() ? cuda::Nccl::load(why) : nullptr;
  cuda::Nccl::Id id{};
  if (nccl && rank() == 0 && !nccl->make_id(id, why)) nccl.reset();
  if (meeting().all_say("nccl", nccl != nullptr)) {
    const std::string first = gather_bytes(host, id.data(), id.size()).at(0);
    std::memcpy(id.data(), first.data(), id.size());
    if (!nccl->join(id, rank(), size_, why)) nccl.reset();
    if (meeting().all_say("nccl", nccl != nullptr)) nccl_ = std::move(nccl);
  }
  if (nccl_) return;
  if (why.empty()) why = "another rank has none";
  if (apart()) fail("ranks", "between machines GPUs have NCCL alone: " + why);
  if (rank() == 0) log_info("collectives are the host's own, not NCCL's: " + why);
}

void CudaCommunicator::all_reduce(const fk_in& x, const fk_out& out, int64_t op, void* on) {
  const auto stream = static_cast<cudaStream_t>(on);
  const int64_t bytes = part_bytes(x, out, 1, 1), width = x.dtype.bits / 8;
  meeting().meet(call_of("all_reduce", x, op));
  if (nccl_) return nccl_->all_reduce(x.data, out.data, bytes / width, FK_DTYPE(&x), op, stream);
  RankPointers from{};
  for (int r = 0; r < size_; ++r) from.at[r] = stage(r);
  exchange(data_of(x), 1, bytes, width, stream, [&](int64_t at, int64_t here) {
    check(cuda::reduce(from, size_, data_of(out) + at, FK_DTYPE(&x), here / width, op, stream),
          "all_reduce");
  });
}

void CudaCommunicator::all_gather(const fk_in& x, const fk_out& out, void* on) {
  const auto stream = static_cast<cudaStream_t>(on);
  const int64_t bytes = part_bytes(x, out, 1, size_);
  meeting().meet(call_of("all_gather", x));
  if (nccl_) return nccl_->all_gather(x.data, out.data, bytes, stream);
  exchange(data_of(x), 1, bytes, 1, stream, [&](int64_t at, int64_t here) {
    for (int r = 0; r < size_; ++r) copy(data_of(out) + r * bytes + at, stage(r), here, stream);
  });
}

void CudaCommunicator::reduce_scatter(const fk_in& x, const fk_out& out, int64_t op, void* on) {
  const auto stream = static_cast<cudaStream_t>(on);
  const int64_t bytes = part_bytes(x, out, size_, 1), width = x.dtype.bits / 8;
  meeting().meet(call_of("reduce_scatter", x, op));
  if (nccl_)
    return nccl_->reduce_scatter(x.data, out.data, bytes / width, FK_DTYPE(&x), op, stream);
  exchange(data_of(x), size_, bytes, width, stream, [&](int64_t at, int64_t here) {
    RankPointers from{};
    for (int r = 0; r < size_; ++r) from.at[r] = stage(r) + rank() * here;
    check(cuda::reduce(from, size_, data_of(out) + at, FK_DTYPE(&x), here / width, op, stream),
          "reduce_scatter");
  });
}

void CudaCommunicator::all_to_all(const fk_in& x, const fk_out& out, void* on) {
  const auto stream = static_cast<cudaStream_t>(on);
  const int64_t bytes = part_bytes(x, out, size_, size_);
  meeting().meet(call_of("all_to_all", x));
  if (nccl_) return nccl_->all_to_all(x.data, out.data, bytes, stream);
  exchange(data_of(x), size_, bytes, 1, stream, [&](int64_t at, int64_t here) {
    for (int r = 0; r < size_; ++r)
      copy(data_of(out) + r * bytes + at, stage(r) + rank() * here, here, stream);
  });
}

void CudaCommunicator::settle() {
  device_.synchronize();
  meeting().settle();
  // The stage and its barrier words stay as they are: all ranks have passed the same barriers.
  for (Chunk& chunk : chunks_) {
    const int64_t kept = &chunk == chunks_.data() ? kPadBytes + kStageBytes : 0;
    device_.fill_zero(chunk.mapped[static_cast<size_t>(rank())] + kept, chunk.used - kept);
    chunk.used = kept;
  }
  device_.synchronize();
  forget_symmetric();
  meeting().meet(CommCall::of("settle", 0, 0));
}

std::unique_ptr<Communicator> make(Device& device, const CommGround& ground) {
  return std::make_unique<CudaCommunicator>(device, ground);
}
FK_COMMUNICATOR_KIND(cuda, make);

}  // namespace

}  // namespace fk
