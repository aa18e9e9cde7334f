// SPDX-License-Identifier: Apache-2.0
// Copies of much memory between the host's pages and a device, through two pinned buffers: while
// one travels, all cores fill or empty the other. The driver does that with one thread, which also
// makes the pages of memory that nobody has touched.
#pragma once
#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <mutex>

namespace fk::cuda {

class Staging {
 public:
  // False, and nothing was done, where it is not worth while, another thread is at it, or there is
  // no pinned memory: copy plainly then. Errors of a copy are in `status`.
  //
  // The source may be reused when it returns; what was enqueued on `stream` before comes first.
  bool upload(void* device, const void* host, int64_t bytes, cudaStream_t stream,
              cudaError_t& status);
  // All is there when it returns.
  bool download(void* host, const void* device, int64_t bytes, cudaStream_t stream,
                cudaError_t& status);

 private:
  struct Buffer {
    void* memory = nullptr;
    cudaEvent_t done = nullptr;  // the last copy from or to it
  };
  bool ready(int64_t bytes);

  std::mutex mutex_;
  bool tried_ = false, there_ = false;
  std::array<Buffer, 2> buffers_;  // until the process ends
};

}  // namespace fk::cuda
