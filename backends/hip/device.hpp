// SPDX-License-Identifier: Apache-2.0
// AMD GPUs through HIP's runtime. NOT RUN ON HARDWARE: the project compiles and links it, and knows
// no more. Memory for other processes is virtual memory with a descriptor, as on CUDA.
#pragma once
#include <cstdint>

#include "backends/hip/api.hpp"
#include "backends/hip/graph.hpp"
#include "fk/cpp/device.hpp"

namespace fk_hip {

class Hip;

// Two events around the work. A copy between two blocks larger than the last cache empties it.
class Events {
 public:
  explicit Events(Hip& device);
  Events(const Events&) = delete;
  ~Events();
  void flush(int32_t all);
  void passes(int32_t passes) { passes_ = passes > 0 ? passes : 1; }
  void start();
  void stop();
  void seconds(double* seconds, int32_t* late);

 private:
  int index_ = 0;
  hipStream_t stream_ = nullptr;
  hipEvent_t start_ = nullptr, stop_ = nullptr;
  char* memory_ = nullptr;
  size_t bytes_ = 0;
  int passes_ = 1;
  bool late_ = false;
};

// The methods of fk/cpp/device.hpp.
class Hip {
 public:
  static constexpr int32_t kType = 10;  // kDLROCM
  static constexpr const char* kDevices[] = {"/dev/kfd", "/dev/dri", nullptr};
  static constexpr const char* kRead[] = {"/opt/rocm", nullptr};
  static constexpr fk_needs kNeeds = {
      FK_END(fk_needs, folder_variable), /*compiles=*/0, kDevices, kRead, /*execute=*/nullptr,
      /*folder_variable=*/nullptr};
  static constexpr fk::backend_traits traits = {"hip",         "0.1.0", kType,
                                                "HIP devices", nullptr, &kNeeds};
  using Watch = Events;

  static int32_t count(fk_error& why_none);
  static void describe(int32_t index, fk_device_info& info);
  explicit Hip(int32_t index);
  Hip(const Hip&) = delete;
  ~Hip();

  void* allocate(int64_t bytes);
  void release(void* memory);
  void* allocate_host(int64_t bytes);
  void release_host(void* memory);
  int64_t free_bytes();
  void upload(void* to, const void* host, int64_t bytes);
  void upload_later(void* to, const void* host, int64_t bytes) { upload(to, host, bytes); }
  void uploads_enqueued();
  void wait_for_uploads();
  void download(void* host, const void* from, int64_t bytes);
  void download_later(void* host, const void* from, int64_t bytes);
  void copy(void* to, const void* from, int64_t bytes);
  void fill(void* to, int32_t byte, int64_t bytes);
  void copy_rows(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t bytes,
                 int64_t rows);
  void share(int64_t bytes, int64_t gaps, int32_t writable, void** memory, int32_t* fd);
  void open_shared(int32_t fd, int64_t bytes, int32_t writable, void** memory);
  void close_shared(void* memory, int64_t bytes);
  void* stream() { return stream_; }
  void synchronize();
  void synchronize_all();
  bool lost();
  void begin_capture();
  int32_t capture_is_whole();
  void mark_capture();
  void separate_calls();
  void end_capture(fk_graph** graph, fk_nodes* nodes);
  void launch(fk_graph* graph, double* gap_s);
  void free_graph(fk_graph* graph);

  int index() const { return index_; }
  hipStream_t queue() const { return stream_; }

 private:
  void use() const { check(hipSetDevice(index_), "hipSetDevice"); }
  hipMemAllocationProp shared_kind() const;
  size_t whole(int64_t bytes) const;
  void* map(hipMemGenericAllocationHandle_t handle, size_t size, bool writable) const;

  int index_ = 0;
  hipStream_t stream_ = nullptr;
  hipEvent_t uploaded_ = nullptr, idle_ = nullptr, before_ = nullptr, after_ = nullptr;
  bool launched_ = false;  // with a gap
  GraphReader reader_;
};

}  // namespace fk_hip
