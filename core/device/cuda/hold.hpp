// SPDX-License-Identifier: Apache-2.0
// Checks on plugin code: which settings of the thread, context and stream it changed, and what it
// writes while the stream is held.
// Checks on plugin code: changed settings of the thread, context and stream, and the memory that
// the code writes while the stream is held.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <string>

namespace fk::cuda {

// The context that is current on this thread, from the driver; null if there is none.
void* current_context();
// Settings of a context and of one stream, other than memory, which code can change for all later
// code.
struct Settings {
  std::array<size_t, 4> limits{};           // values of cudaLimit, in the order of hold.cu's list
  size_t window_bytes = 0;                  // of the stream's accesses that persist in the L2 cache
  int synchronization = 0;                  // cudaSynchronizationPolicy of the stream
  static Settings of(cudaStream_t stream);  // of the current context
};
// Device::left_behind() for this device, its context, and a stream with these original settings.
std::string left_behind(int device, void* context, cudaStream_t stream, const Settings& settings);

// A kernel that holds a stream of the current device until end(), or until its time is over. Used
// by one thread at a time.
class Hold {
 public:
  Hold() = default;
  Hold(const Hold&) = delete;
  ~Hold();  // releases the stream
  cudaError_t begin(cudaStream_t stream, double most_s);
  void end();
  // Copies to the host on a separate stream, which waits for no other work.
  cudaError_t peek(void* host, const void* device, int64_t bytes);

 private:
  cudaError_t make();
  int* go_ = nullptr;  // host memory that the kernel polls
  cudaStream_t beside_ = nullptr;
};

}  // namespace fk::cuda
