// SPDX-License-Identifier: Apache-2.0
// Large copies between the host's pages and a device, through two pinned buffers: one buffer
// travels while all cores fill or empty the other. The driver uses one thread for the same work,
// and this thread also makes the pages of untouched memory.
#pragma once
#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <mutex>

namespace fk::cuda {

class Staging {
 public:
  // False, without any effect, if the copy is too small, another thread is using the buffers, or
  // pinned memory is missing. The caller then makes a plain copy. `status` receives an error of the
  // copy.
  // The source may be reused after the return. Work enqueued earlier on `stream` runs first.
  bool upload(void* device, const void* host, int64_t bytes, cudaStream_t stream,
              cudaError_t& status);
  // The data has arrived when the call returns.
  bool download(void* host, const void* device, int64_t bytes, cudaStream_t stream,
                cudaError_t& status);

 private:
  struct Buffer {
    void* memory = nullptr;
    cudaEvent_t done = nullptr;  // the last copy from or to the buffer
  };
  bool ready(int64_t bytes);

  std::mutex mutex_;
  bool tried_ = false, there_ = false;
  std::array<Buffer, 2> buffers_;  // allocated until the process ends
};

}  // namespace fk::cuda
