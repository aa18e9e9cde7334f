// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL that the host uses, found at run time and declared without NCCL's header.
// Collectives are enqueued on the caller's stream and may be captured. NVLink multicast is off,
// unless NCCL_NVLS_ENABLE is set.
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
  ~Nccl();  // aborts the communicator at once; prefer leave()
  Nccl(const Nccl&) = delete;

  // Null with the reason where the library is missing or refuses. One rank calls make_id() for all.
  // Then all ranks call join() together, each on its own current device.
  static std::unique_ptr<Nccl> load(std::string& why);
  bool make_id(Id& id, std::string& why) const;
  bool join(const Id& id, int rank, int size, std::string& why);
  // Ends the communicator together with all other ranks, after all enqueued and captured work is
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
