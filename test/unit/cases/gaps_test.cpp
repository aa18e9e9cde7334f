// SPDX-License-Identifier: Apache-2.0
// Tensors with memory for a few rows only, on a device of this test. The device has the host's
// memory, so an access to a gap ends the test. There is no GPU here.
#include <sys/mman.h>

#include <cstring>

#include "core/base/paths.hpp"
#include "core/cases/case_frames.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

constexpr size_t kApartPage = 4096;

class ApartDevice final : public Device {
 public:
  std::map<void*, size_t> ranges;  // with gaps

  int32_t type() const override { return FK_CUDA; }
  int32_t id() const override { return 0; }
  std::string name() const override { return "apart"; }
  void* allocate(int64_t n, const std::string& why) override { return cpu_->allocate(n, why); }
  void* allocate_parts(int64_t n, std::span<const HeldPart> parts, const std::string&) override {
    const auto size = (static_cast<size_t>(n) + kApartPage - 1) / kApartPage * kApartPage;
    void* const at =
        mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(at != MAP_FAILED);
    ranges[at] = size;
    for (const HeldPart& part : parts) {
      const auto from = static_cast<size_t>(part.at) / kApartPage * kApartPage;
      const auto bytes = static_cast<size_t>(part.at + part.bytes) - from;
      REQUIRE(mprotect(static_cast<std::byte*>(at) + from, bytes, PROT_READ | PROT_WRITE) == 0);
    }
    return at;
  }
  void release(void* memory) override {
    const auto range = ranges.find(memory);
    if (range == ranges.end()) return cpu_->release(memory);
    munmap(memory, range->second);
    ranges.erase(range);
  }
  void upload(void* to, const void* from, int64_t n) override { cpu_->upload(to, from, n); }
  void download(void* to, const void* from, int64_t n) override { cpu_->download(to, from, n); }
  void* allocate_host(int64_t n) override { return cpu_->allocate_host(n); }
  void release_host(void* memory) override { cpu_->release_host(memory); }
  void upload_later(void* to, const void* from, int64_t n) override { upload(to, from, n); }
  void fill_zero(void* to, int64_t n) override { cpu_->fill_zero(to, n); }
  void copy(void* to, const void* from, int64_t n) override { cpu_->copy(to, from, n); }
  void synchronize() override {}
  void* stream() override { return nullptr; }
  int32_t cpu_threads() const override { return 1; }
  std::unique_ptr<Stopwatch> stopwatch() override { return nullptr; }
  Shared allocate_shared(int64_t, const std::string&, Sharing) override { return {}; }
  void* open_shared(int, int64_t, Sharing) override { return nullptr; }
  void close_shared(void*, int64_t) override {}
  std::vector<uint64_t> checksums(std::span<const std::span<const std::byte>> parts) override {
    std::vector<uint64_t> out;
    for (const auto part : parts) out.push_back(checksum_of(part));
    return out;
  }

 private:
  std::unique_ptr<Device> cpu_ = open_device("cpu");
};

struct OffsetsCase {
  explicit OffsetsCase(const std::string& op)
      : contract(Catalog(paths::registry_dirs()).at(op)),
        source(*std::ranges::find(contract.cases, "offsets", &Case::name)),
        resolved(resolve(contract, source, {})),
        values(make_inputs(resolved, 1, 1)) {}
  Contract contract;
  Case source;
  ResolvedCase resolved;
  CaseValues values;
};

bool same_contents(const Tensor& a, const Tensor& b) {
  return a.shape == b.shape && std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

}  // namespace

TEST_CASE("a device's frames with gaps hold the contents of those of the CPU") {
  const OffsetsCase of("kv_cache_append");
  ApartDevice device;
  const auto cpu = open_device("cpu");
  {
    CaseFrames frames(device, of.resolved, of.values, {});
    const CaseFrames known(*cpu, of.resolved, of.values, {});
    CHECK(device.ranges.size() == 2);
    CHECK(same_contents(frames.contents("k_cache"), known.contents("k_cache")));
    const CaseFrames other(frames, {});
    CHECK(same_contents(other.contents("v_cache"), known.contents("v_cache")));
    CHECK(frames.broken().empty());
    const auto before = frames.writable_print();
    const std::vector<const GuardedBuffer*> buffers = frames.buffers();
    {
      const GuardedBuffer::Glance glance(device, buffers);
      CHECK(frames.writable_print() == before);
    }
    // A byte behind the last row of a cache, which no call may write.
    const auto held =
        std::ranges::find_if(buffers, [](const auto* b) { return b->parts().size() > 1; });
    REQUIRE(held != buffers.end());
    (*held)->parts()[0].back() ^= std::byte{1};
    CHECK(frames.writable_print() != before);
    REQUIRE_FALSE(frames.broken().empty());
    CHECK(frames.broken()[0].rule == "footprint");
    frames.restore(Poison::random);
    CHECK(frames.broken().empty());
    CHECK(same_contents(frames.contents("k_cache"), known.contents("k_cache")));
  }
  CHECK(device.ranges.empty());
}

TEST_CASE("a device's table has memory for the rows that are named") {
  const OffsetsCase of("embedding");
  ApartDevice device;
  const CaseFrames frames(device, of.resolved, of.values, {});
  CHECK(device.ranges.size() == 1);
  CHECK(same_contents(frames.contents("table"), of.values.at("table")[0]));
  CHECK(frames.broken().empty());
}
