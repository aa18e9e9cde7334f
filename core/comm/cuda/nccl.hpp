// SPDX-License-Identifier: Apache-2.0
// NCCL, found at run time: what of it the communicator uses, without its header. Collectives are
// enqueued on the caller's stream and may be captured. NVLink multicast stays off.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace fk::cuda {

class Nccl {
 public:
  using Id = std::array<std::byte, 128>;
  ~Nccl();  // gives up the communicator at once; leave() is the good way
  Nccl(const Nccl&) = delete;

  // Null with the reason where the library is not here or says no. make_id() by one rank for all;
  // then join() by all ranks together, on the current device, which no other rank uses.
  static std::unique_ptr<Nccl> load(std::string& why);
  bool make_id(Id& id, std::string& why) const;
  bool join(const Id& id, int rank, int size, std::string& why);
  // Ends the communicator together with all others, when all that was enqueued and captured is
  // gone.
  void leave();
  int version() const { return version_; }  // 22809: 2.28.9

  // Counts in elements of `dtype` (FK_DTYPE). Error with NCCL's words.
  void all_reduce(const void* x, void* out, int64_t count, int dtype, int64_t op,
                  cudaStream_t stream);
  void all_gather(const void* x, void* out, int64_t bytes, cudaStream_t stream);
  void reduce_scatter(const void* x, void* out, int64_t count, int dtype, int64_t op,
                      cudaStream_t stream);
  void all_to_all(const void* x, void* out, int64_t part_bytes, cudaStream_t stream);

 private:
  Nccl() = default;
  struct Functions;
  std::unique_ptr<Functions> call_;
  void* comm_ = nullptr;
  int size_ = 1, version_ = 0;
};

}  // namespace fk::cuda
