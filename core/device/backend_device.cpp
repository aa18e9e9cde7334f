// SPDX-License-Identifier: Apache-2.0
// The one adapter between the host's interface of a device and a backend library (fk/device.h).
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/device/backend_capture.hpp"
#include "core/device/backends.hpp"
#include "core/device/checksum.hpp"
#include "core/device/shared_mappings.hpp"

namespace fk {

namespace {

// Begin of the last call, and duration of the longest failed one, in seconds.
thread_local double call_began_s = 0, call_failed_s = 0;

[[noreturn]] void call_failed(const std::string& where, const char* what, const fk_error& error,
                              int32_t status) {
  call_failed_s = std::max(call_failed_s, now_seconds() - call_began_s);
  fail(where, std::string(what) + ": " + text_of(error, status));
}

// An open device of a backend. Captured work and stopwatches keep it open.
class OpenedDevice {
 public:
  OpenedDevice(const Backend& backend, int32_t index)
      : table(backend.table), name(backend.kind + ":" + std::to_string(index)) {
    fk_error error = backend_error_struct();
    const int32_t status = table.open(index, &device, &error);
    if (status != FK_OK) fail(name, "cannot be opened: " + text_of(error, status));
    if (!device) fail(name, "cannot be opened: the backend gives no device");
  }
  OpenedDevice(const OpenedDevice&) = delete;
  ~OpenedDevice() { table.close(device); }

  // Calls a function of the table. Error with `what` and the backend's words.
  template <class... Parameters, class... Given>
  void call(const char* what, int32_t (*function)(Parameters...), Given... given) const {
    fk_error error = backend_error_struct();
    call_began_s = now_seconds();
    const int32_t status = function(given..., &error);
    if (status != FK_OK) call_failed(name, what, error, status);
  }
  // The same for a function that may be null or refuse the case. True: it did the work.
  template <class... Parameters, class... Given>
  bool may(const char* what, int32_t (*function)(Parameters...), Given... given) const {
    if (!function) return false;
    fk_error error = backend_error_struct();
    call_began_s = now_seconds();
    const int32_t status = function(given..., &error);
    if (status != FK_OK && status != FK_UNSUPPORTED) call_failed(name, what, error, status);
    return status == FK_OK;
  }

  const fk_backend& table;
  std::string name;  // "opencl:0"
  fk_device* device = nullptr;
};

class BackendWatch final : public Stopwatch {
 public:
  explicit BackendWatch(std::shared_ptr<const OpenedDevice> opened) : opened_(std::move(opened)) {
    opened_->call("make a stopwatch", opened_->table.watch_open, opened_->device, &watch_);
    if (!watch_) fail(opened_->name, "the backend gives no stopwatch");
  }
  ~BackendWatch() override { opened_->table.watch_close(watch_); }
  void flush() override { run("flush a cache", opened_->table.watch_flush, 0); }
  void flush_all() override { run("flush all caches", opened_->table.watch_flush, 1); }
  void fix_passes(int passes) override {
    (void)opened_->may("fix passes", opened_->table.watch_passes_or_null, watch_, passes);
  }
  bool evict(const void* memory, int64_t bytes) override {
    return opened_->may("evict", opened_->table.watch_evict_or_null, watch_, memory, bytes);
  }
  void start() override { run("start a stopwatch", opened_->table.watch_start); }
  void stop() override { run("stop a stopwatch", opened_->table.watch_stop); }
  double seconds() override {
    double out = 0;
    run("an op failed on the device", opened_->table.watch_seconds, &out, &late_);
    return out;
  }
  bool late() const override { return late_ != 0; }

 private:
  template <class F, class... Given>
  void run(const char* what, F function, Given... given) {
    opened_->call(what, function, watch_, given...);
  }
  std::shared_ptr<const OpenedDevice> opened_;
  fk_watch* watch_ = nullptr;
  int32_t late_ = 0;
};

class BackendDevice final : public Device {
 public:
  BackendDevice(const Backend& backend, int32_t index)
      : index_(index),
        info_(info_of(backend, index)),
        opened_(std::make_shared<OpenedDevice>(backend, index)),
        table_(backend.table),
        device_(opened_->device) {
    name_ = opened_->name + " " + std::string(trim(info_.name));
    threads_ = std::max(1, info_.cpu_threads);
  }
  int32_t type() const override { return table_.device_type; }
  int32_t id() const override { return index_; }
  std::string name() const override { return name_; }
  int32_t cpu_threads() const override { return threads_; }
  void share_cores(int32_t processes) override {
    if (opened_->may("share cores", table_.share_cores_or_null, device_, processes))
      threads_ = std::max(1, info_.cpu_threads / std::max(1, processes));
  }

  void* allocate(int64_t bytes, const std::string& purpose) override {
    void* memory = nullptr;
    fk_error error = backend_error_struct();
    const int32_t status = table_.allocate(device_, bytes, &memory, &error);
    if (status != FK_OK || !memory) no_memory(bytes, purpose, text_of(error, status));
    return given(memory, bytes);
  }
  void* allocate_parts(int64_t bytes, std::span<const HeldPart> parts,
                       const std::string& purpose) override {
    if (!table_.allocate_parts_or_null) return Device::allocate_parts(bytes, parts, purpose);
    std::vector<fk_part> all;
    for (const HeldPart& part : parts) all.push_back({part.at, part.bytes});
    void* memory = nullptr;
    fk_error error = backend_error_struct();
    const int32_t status = table_.allocate_parts_or_null(
        device_, bytes, all.data(), static_cast<int64_t>(all.size()), &memory, &error);
    if (status == FK_UNSUPPORTED) return Device::allocate_parts(bytes, parts, purpose);
    if (status != FK_OK || !memory) no_memory(bytes, purpose, text_of(error, status));
    return given(memory, bytes);
  }
  void release(void* memory) override {
    given_.erase(reinterpret_cast<uintptr_t>(memory));
    run("release memory", table_.release, memory);
  }
  void* allocate_host(int64_t bytes) override {
    void* memory = nullptr;
    run("allocate host memory", table_.allocate_host, bytes, &memory);
    if (!memory) no_memory(bytes, "an input", "the backend gives none");
    return given(memory, bytes);
  }
  void release_host(void* memory) override {
    given_.erase(reinterpret_cast<uintptr_t>(memory));
    run("release host memory", table_.release_host, memory);
  }
  std::optional<int64_t> memory_bytes() override {
    return info_.memory_bytes > 0 ? std::optional(info_.memory_bytes) : std::nullopt;
  }
  std::optional<int64_t> free_bytes() override {
    int64_t bytes = 0;
    return may("ask for free memory", table_.free_bytes_or_null, &bytes) ? std::optional(bytes)
                                                                         : std::nullopt;
  }

  void upload(void* to, const void* host, int64_t bytes) override {
    run("upload", table_.upload, to, host, bytes);
  }
  void upload_later(void* to, const void* host, int64_t bytes) override {
    run("upload", table_.upload_later, to, host, bytes);
  }
  void uploads_enqueued() override { run("mark uploads", table_.uploads_enqueued); }
  void wait_for_uploads() override { run("an op failed on the device", table_.wait_for_uploads); }
  void download(void* host, const void* from, int64_t bytes) override {
    run("download", table_.download, host, from, bytes);
  }
  void download_later(void* host, const void* from, int64_t bytes) override {
    run("download", table_.download_later, host, from, bytes);
  }
  void copy(void* to, const void* from, int64_t bytes) override {
    run("copy", table_.copy, to, from, bytes);
  }
  void fill_zero(void* to, int64_t bytes) override { run("fill", table_.fill, to, 0, bytes); }
  void copy_rows(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t bytes,
                 int64_t rows) override {
    if (!may("copy rows", table_.copy_rows_or_null, to, to_step, from, from_step, bytes, rows))
      Device::copy_rows(to, to_step, from, from_step, bytes, rows);
  }
  void copy_tokens(int64_t* to, const int64_t* from, int64_t count, int64_t vocab_size) override {
    if (!may("copy tokens", table_.copy_tokens_or_null, to, from, count, vocab_size))
      Device::copy_tokens(to, from, count, vocab_size);
  }
  bool fill_bits(void* to, int64_t bytes, bool random) override {
    if (!table_.fill_random_or_null) return false;
    if (random) return may("fill", table_.fill_random_or_null, to, bytes);
    run("fill", table_.fill, to, 0xff, bytes);
    return true;
  }
  bool fill_normal(void* to, DType dtype, int64_t count, uint64_t seed, double mean,
                   double stddev) override {
    const DLPackType type = to_dlpack(dtype);
    return may("fill with random numbers", table_.fill_normal_or_null, to,
               type.code | type.bits << 8, count, seed, mean, stddev);
  }
  void gather(bool on) override { (void)may("gather", table_.gather_or_null, on ? 1 : 0); }
  uint64_t checksum(const void* data, int64_t bytes) override {
    return checksums(std::vector<std::span<const std::byte>>{
        {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)}})[0];
  }
  std::vector<uint64_t> checksums(std::span<const std::span<const std::byte>> parts) override {
    std::vector<uint64_t> sums(parts.size());
    std::vector<fk_span> all;
    for (const auto& part : parts) all.push_back({part.data(), static_cast<int64_t>(part.size())});
    if (may("checksums", table_.checksums_or_null, all.data(), static_cast<int64_t>(all.size()),
            sums.data()))
      return sums;
    const bool reads = (info_.flags & FK_DEVICE_HOST_READS) != 0;
    if (reads) synchronize();
    for (size_t i = 0; i < parts.size(); ++i)
      sums[i] = reads ? checksum_of(parts[i]) : downloaded_checksum(parts[i]);
    return sums;
  }

  void* stream() override {
    void* out = nullptr;
    run("ask for the stream", table_.stream, &out);
    return out;
  }
  void synchronize() override { run("an op failed on the device", table_.synchronize); }
  void synchronize_all() override { run("an op failed on the device", table_.synchronize_all); }
  bool lost() const override { return table_.lost_or_null && table_.lost_or_null(device_) != 0; }
  double lost_after_s() const override {
    return std::max(call_failed_s, now_seconds() - call_began_s);
  }
  std::string left_behind() override {
    if (!table_.left_behind_or_null) return "";
    fk_error error = backend_error_struct();
    const int32_t status = table_.left_behind_or_null(device_, &error);
    return status == FK_OK ? "" : text_of(error, status);
  }
  void profile(bool on) override { (void)may("the profiler", table_.profile_or_null, on ? 1 : 0); }
  bool hold(double most_s) override { return may("hold the stream", table_.hold_or_null, most_s); }
  void let_go() override { (void)may("let the stream go", table_.let_go_or_null); }
  void peek(void* host, const void* from, int64_t bytes) override {
    if (!may("copy beside the stream", table_.peek_or_null, host, from, bytes))
      Device::peek(host, from, bytes);
  }
  std::unique_ptr<Stopwatch> stopwatch() override {
    return std::make_unique<BackendWatch>(opened_);
  }

  bool can_capture() const override { return table_.begin_capture_or_null != nullptr; }
  void begin_capture() override {
    if (!can_capture()) return;
    capture_.begin();
    run("begin a capture", table_.begin_capture_or_null);
  }
  bool capture_is_whole() override {
    int32_t whole = 1;
    (void)may("look at a capture", table_.capture_is_whole_or_null, &whole);
    return whole != 0;
  }
  void mark_capture(const std::string& op, bool own_memory_only, int64_t side_streams) override {
    if (!can_capture()) return;
    run("mark a capture", table_.mark_capture_or_null);
    capture_.mark({/*first=*/0, op, own_memory_only, side_streams});
  }
  void separate_calls() override {
    if (can_capture()) run("separate calls", table_.separate_calls_or_null);
  }
  std::shared_ptr<void> end_capture() override {
    if (!can_capture()) return nullptr;
    fk_graph* graph = nullptr;
    fk_nodes nodes{};
    nodes.struct_size = FK_END(fk_nodes, nodes);
    run("end a capture", table_.end_capture_or_null, &graph, &nodes);
    if (!graph) fail(opened_->name, "end a capture: the backend gives no graph");
    std::shared_ptr<void> out(graph, [opened = opened_](void* captured) {
      opened->table.free_graph_or_null(opened->device, static_cast<fk_graph*>(captured));
    });
    std::vector<MemoryRange> known;
    for (const auto& [begin, bytes] : given_) known.push_back({begin, bytes});
    if (const std::string why = capture_.audit(nodes, known); !why.empty()) fail("capture", why);
    return out;
  }
  std::optional<LaunchFacts> captured_facts() const override { return capture_.facts(); }
  void launch(void* captured) override {
    double gap = -1;
    run("launch a graph", table_.launch_or_null, static_cast<fk_graph*>(captured),
        gaps_ ? &gap : nullptr);
    if (gaps_ && gap >= 0) gaps_->push_back(gap);
  }
  void watch_launches(std::vector<double>* gaps) override { gaps_ = gaps; }

  Shared allocate_shared(int64_t bytes, const std::string& purpose, Sharing others) override {
    return allocate_with_gaps(bytes, /*gaps=*/0, purpose, others);
  }
  Shared allocate_with_gaps(int64_t bytes, int64_t gaps, const std::string& purpose,
                            Sharing others) override {
    Shared shared;
    if (table_.share_or_null) {
      fk_error error = backend_error_struct();
      const int32_t status = table_.share_or_null(
          device_, bytes, gaps, others == Sharing::write ? 1 : 0, &shared.data, &shared.fd, &error);
      if (status != FK_OK || !shared.data || shared.fd < 0)
        no_memory(bytes, purpose, text_of(error, status));
    } else {
      shared = mapped_.create(bytes, gaps, purpose, others);
      try {
        accept(shared.data, bytes, /*writable=*/1);
      } catch (...) {
        mapped_.close(shared.data);
        ::close(shared.fd);
        throw;
      }
    }
    given(shared.data, bytes);
    return shared;
  }
  void* open_shared(int fd, int64_t bytes, Sharing mine) override {
    const int32_t writable = mine == Sharing::write ? 1 : 0;
    void* memory = nullptr;
    if (table_.open_shared_or_null) {
      run("open shared memory", table_.open_shared_or_null, fd, bytes, writable, &memory);
      if (!memory) fail(opened_->name, "open shared memory: the backend gives none");
    } else {
      memory = mapped_.open(fd, bytes, mine);
      try {
        accept(memory, bytes, writable);
      } catch (...) {
        mapped_.close(memory);
        throw;
      }
    }
    return given(memory, bytes);
  }
  void close_shared(void* data, int64_t bytes) override {
    synchronize();
    given_.erase(reinterpret_cast<uintptr_t>(data));
    if (table_.close_shared_or_null)
      return run("close shared memory", table_.close_shared_or_null, data, bytes);
    run("drop a mapping", table_.drop_mapping_or_null, data, bytes);
    mapped_.close(data);
  }

 private:
  template <class F, class... Given>
  void run(const char* what, F function, Given... given) const {
    opened_->call(what, function, device_, given...);
  }
  template <class F, class... Given>
  bool may(const char* what, F function, Given... given) const {
    return opened_->may(what, function, device_, given...);
  }
  void* given(void* memory, int64_t bytes) {
    given_[reinterpret_cast<uintptr_t>(memory)] = static_cast<uint64_t>(bytes);
    return memory;
  }
  void accept(void* memory, int64_t bytes, int32_t writable) {
    run("its kernels do not reach memory that processes share", table_.accept_mapping_or_null,
        memory, bytes, writable);
  }
  uint64_t downloaded_checksum(std::span<const std::byte> part) {
    constexpr size_t kPiece = size_t{16} << 20;
    std::vector<std::byte> here(std::min(kPiece, part.size()));
    uint64_t sum = 0;
    for (size_t at = 0; at < part.size(); at += kPiece) {
      const size_t bytes = std::min(kPiece, part.size() - at);
      download(here.data(), part.data() + at, static_cast<int64_t>(bytes));
      sum += checksum_from({here.data(), bytes}, at / sizeof(uint64_t));
    }
    return sum;
  }
  [[noreturn]] void no_memory(int64_t bytes, const std::string& purpose, const std::string& why) {
    fail("memory",
         "cannot allocate " + human_bytes(bytes) + " of " + name_ + " for " + purpose + ": " + why);
  }

  int32_t index_ = 0;
  fk_device_info info_{};
  std::shared_ptr<const OpenedDevice> opened_;
  const fk_backend& table_;
  fk_device* device_ = nullptr;
  std::string name_;
  int32_t threads_ = 1;
  std::map<uint64_t, uint64_t> given_;  // memory which the host knows: address and bytes
  BackendCapture capture_;
  std::vector<double>* gaps_ = nullptr;
  SharedMappings mapped_;
};

}  // namespace

std::unique_ptr<Device> open_backend_device(const Backend& backend, int32_t index) {
  return std::make_unique<BackendDevice>(backend, index);
}

}  // namespace fk
