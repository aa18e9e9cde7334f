// SPDX-License-Identifier: Apache-2.0
// How foreign code treats a thread, a context and a stream: what it has left behind, and what it
// does while the stream stands still.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <string>

namespace fk::cuda {

// The context that is current on this thread, as the driver has it; null where there is none.
void* current_context();
// What a context and a stream of it have besides memory that code can set for all who come later.
struct Settings {
  std::array<size_t, 4> limits{};           // of cudaLimit, as hold.cu lists them
  size_t window_bytes = 0;                  // of the stream's accesses that stay in the L2 cache
  int synchronization = 0;                  // cudaSynchronizationPolicy of the stream
  static Settings of(cudaStream_t stream);  // of the current context
};
// Device::left_behind(), for who has this device and context, and a stream that had these settings.
std::string left_behind(int device, void* context, cudaStream_t stream, const Settings& settings);

// A kernel that holds a stream of the current device until it is told, or its time is over. Used by
// one thread at a time.
class Hold {
 public:
  Hold() = default;
  Hold(const Hold&) = delete;
  ~Hold();  // lets go
  cudaError_t begin(cudaStream_t stream, double most_s);
  void end();
  // A copy to the host on a stream of its own, behind nothing.
  cudaError_t peek(void* host, const void* device, int64_t bytes);

 private:
  cudaError_t make();
  int* go_ = nullptr;  // memory of the host that the kernel looks at
  cudaStream_t beside_ = nullptr;
};

}  // namespace fk::cuda
