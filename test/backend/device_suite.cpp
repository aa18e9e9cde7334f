// SPDX-License-Identifier: Apache-2.0
// Conformance of a device backend (core/device/device.hpp, fk/device.h). FK_SUITE_DEVICE names the
// device, or a backend's library by its path. The program for CUDA is linked with CUDA. A function
// that a backend may leave out says so by its answer; then the suite demands that it has changed
// nothing.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/device/backends.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

// A failed test shows the beginning of memory, because it may have megabytes.
template <>
struct Catch::StringMaker<std::vector<std::byte>> {
  static std::string convert(const std::vector<std::byte>& bytes) {
    std::string out = std::to_string(bytes.size()) + " bytes:";
    for (size_t i = 0; i < std::min<size_t>(16, bytes.size()); ++i)
      out += " " + std::to_string(std::to_integer<int>(bytes[i]));
    return out;
  }
};

using namespace fk;

namespace {

using Bytes = std::vector<std::byte>;

const std::string& suite_device() {
  static const std::string name = environment("FK_SUITE_DEVICE", "cpu");
  return name;
}

// The library under test; null: the device has a name that the host knows.
const Backend* library() {
  if (!ends_with(suite_device(), ".so")) return nullptr;
  static const Backend tested = load_backend(suite_device());
  if (!tested.usable()) {  // one sentence in place of a failure in each test
    std::fprintf(stderr, "%s\n", tested.error.c_str());
    std::exit(1);
  }
  return &tested;
}

std::unique_ptr<Device> device() {
  if (const Backend* const tested = library()) {
    std::string why;
    if (names_of(*tested, &why).empty()) fail_host("device", "there is no device here: " + why);
    return open_backend_device(*tested, 0);
  }
  return open_device(suite_device());
}

Bytes pattern(int64_t count, int first = 1) {
  Bytes out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::byte>((static_cast<int>(i % 8191) * 7 + first) % 251);
  return out;
}

Bytes content(Device& d, const void* memory, int64_t count) {
  Bytes out(static_cast<size_t>(count), std::byte{0xcd});
  d.download(out.data(), memory, count);
  return out;
}

// Memory with `bytes`, or with a pattern.
struct Block {
  DeviceMemory memory;
  Block(Device& d, int64_t count) : memory(d, count, "a test") {}
  Block(Device& d, const Bytes& bytes) : Block(d, static_cast<int64_t>(bytes.size())) {
    d.upload(memory.data(), bytes.data(), memory.bytes());
  }
  std::byte* data() const { return memory.data(); }
};

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr int64_t kSizes[] = {1, 3, 64, 4097, (int64_t{1} << 20) + 5};

}  // namespace

TEST_CASE("device_identity") {
  const auto d = device();
  const std::string kind = d->name().substr(0, d->name().find_first_of(": "));
  const auto names = library() ? names_of(*library()) : device_names();
  CHECK(std::ranges::any_of(names, [&](const auto& n) { return d->name().starts_with(n); }));
  CHECK(d->id() >= 0);
  CHECK(d->cpu_threads() >= 1);
  CHECK_FALSE(d->lost());
  CHECK(d->host_memory() == (d->type() == FK_CPU));
  CHECK_THROWS_AS(library() ? open_backend_device(*library(), 999) : open_device(kind + ":999"),
                  Error);
  CHECK_THROWS_AS(open_device("x" + kind), Error);
}

TEST_CASE("device_memory_is_aligned_and_apart") {
  const auto d = device();
  std::vector<void*> all;
  for (const int64_t size : kSizes) all.push_back(d->allocate(size, "a test"));
  for (void* memory : all) CHECK(reinterpret_cast<uintptr_t>(memory) % 256 == 0);
  for (size_t i = 0; i < all.size(); ++i)
    d->upload(all[i], pattern(kSizes[i], static_cast<int>(i)).data(), kSizes[i]);
  for (size_t i = 0; i < all.size(); ++i)
    CHECK(content(*d, all[i], kSizes[i]) == pattern(kSizes[i], static_cast<int>(i)));
  for (void* memory : all) d->release(memory);
}

TEST_CASE("device_without_memory_says_for_what_and_goes_on") {
  const auto d = device();
  const std::string why = message_of<Error>([&] { d->allocate(int64_t{1} << 52, "the moon"); });
  CHECK_THAT(why, ContainsSubstring("the moon"));
  CHECK_THAT(why, ContainsSubstring(human_bytes(int64_t{1} << 52)));
  const Block after(*d, pattern(4096));
  CHECK(content(*d, after.data(), 4096) == pattern(4096));
}

TEST_CASE("device_reports_memory_that_is_taken") {
  const auto d = device();
  const auto all = d->memory_bytes(), before = d->free_bytes();
  // The CPU has the host's memory, and OpenCL has no call for free memory.
  if (!all || !before) return;
  CHECK(*before <= *all);
  constexpr int64_t kTaken = int64_t{256} << 20;
  const Block block(*d, kTaken);
  CHECK(*before - d->free_bytes().value() > kTaken / 2);
}

TEST_CASE("device_copies_in_the_order_of_the_calls") {
  const auto d = device();
  for (const int64_t size : kSizes) {
    const Block a(*d, pattern(size)), b(*d, size);
    Bytes host = pattern(size, 9);
    d->copy(b.data(), a.data(), size);  // the first pattern
    d->upload(a.data(), host.data(), size);
    std::ranges::fill(host, std::byte{0});  // the host side is free again
    CHECK(content(*d, b.data(), size) == pattern(size));
    CHECK(content(*d, a.data(), size) == pattern(size, 9));
    d->fill_zero(a.data(), size);
    CHECK(content(*d, a.data(), size) == Bytes(static_cast<size_t>(size)));
    d->upload(a.data(), host.data(), 0);
    d->fill_zero(b.data(), 0);
    CHECK(content(*d, b.data(), size) == pattern(size));
  }
}

TEST_CASE("device_writes_only_the_bytes_of_a_copy") {
  const auto d = device();
  const Block a(*d, pattern(300)), b(*d, Bytes(300, std::byte{7}));
  d->copy(b.data() + 5, a.data() + 11, 133);
  Bytes want(300, std::byte{7});
  const Bytes from = pattern(300);
  std::copy(from.begin() + 11, from.begin() + 144, want.begin() + 5);
  CHECK(content(*d, b.data(), 300) == want);
  d->fill_zero(b.data() + 200, 7);
  std::fill(want.begin() + 200, want.begin() + 207, std::byte{0});
  CHECK(content(*d, b.data(), 300) == want);
}

TEST_CASE("device_copies_from_and_to_host_memory_of_its_own") {
  const auto d = device();
  constexpr int64_t kBytes = 70001;
  HostMemory given(*d, kBytes), taken(*d, kBytes);
  CHECK(reinterpret_cast<uintptr_t>(given.data()) % 256 == 0);
  const Block block(*d, kBytes);
  const Bytes want = pattern(kBytes, 3);
  std::ranges::copy(want, given.data());
  d->upload_later(block.data(), given.data(), kBytes);
  d->uploads_enqueued();
  d->wait_for_uploads();
  std::fill_n(given.data(), kBytes, std::byte{0});  // may change now
  d->download_later(taken.data(), block.data(), kBytes);
  d->synchronize();
  CHECK(std::equal(want.begin(), want.end(), taken.data()));
}

TEST_CASE("device_copies_rows_between_steps") {
  const auto d = device();
  std::vector<int32_t> from(35);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int32_t>(i);
  const Block source(*d, 35 * 4), target(*d, Bytes(20 * 4, std::byte{0xff}));
  d->upload(source.data(), from.data(), 35 * 4);
  // Columns 2 and 3 of five rows of 7 become columns 1 and 2 of rows of 4.
  d->copy_rows(target.data() + 4, 16, source.data() + 8, 28, 8, 5);
  d->copy_rows(target.data(), 16, source.data(), 28, 8, 0);  // no row
  std::vector<int32_t> got(20);
  d->download(got.data(), target.data(), 80);
  for (int32_t row = 0; row < 5; ++row)
    CHECK(std::vector<int32_t>(got.begin() + 4 * row, got.begin() + 4 * row + 4) ==
          std::vector<int32_t>{-1, row * 7 + 2, row * 7 + 3, -1});
}

TEST_CASE("device_copies_tokens_of_the_vocabulary_alone") {
  const auto d = device();
  const std::vector<int64_t> given = {0, 96, 97, -1, int64_t{1} << 40, 5};
  std::vector<int64_t> got(7, 7);
  const Block from(*d, 48), to(*d, 56);
  d->upload(from.data(), given.data(), 48);
  d->upload(to.data(), got.data(), 56);
  d->copy_tokens(reinterpret_cast<int64_t*>(to.data()),
                 reinterpret_cast<const int64_t*>(from.data()), 6, 97);
  d->download(got.data(), to.data(), 56);
  CHECK(got == std::vector<int64_t>{0, 96, 0, 0, 0, 5, 7});
}

TEST_CASE("device_has_addresses_with_memory_for_parts_alone") {
  const auto d = device();
  const int64_t far = (int64_t{5} << 32) + 4096, bytes = far + 64;
  const std::vector<HeldPart> parts = {{64, 64}, {4096, 64}, {far, 64}};
  std::byte* memory = nullptr;
  try {
    memory = static_cast<std::byte*>(d->allocate_parts(bytes, parts, "a test"));
  } catch (const Error& error) {
    SUCCEED("left out: " << error.what());
    return;
  }
  for (size_t i = 0; i < parts.size(); ++i)
    d->upload(memory + parts[i].at, Bytes(64, std::byte(i + 1)).data(), 64);
  for (size_t i = 0; i < parts.size(); ++i)
    CHECK(content(*d, memory + parts[i].at, 64) == Bytes(64, std::byte(i + 1)));
  d->release(memory);
}

TEST_CASE("device_shares_memory_by_a_descriptor") {
  const auto d = device();
  constexpr int64_t kBytes = (int64_t{3} << 20) + 512;
  for (const auto sharing : {Device::Sharing::read, Device::Sharing::write}) {
    const SharedMapping mine(*d, d->allocate_shared(kBytes, "a test", sharing), kBytes);
    d->upload(mine.data(), pattern(kBytes).data(), kBytes);
    void* other = d->open_shared(mine.fd(), kBytes, sharing);
    CHECK(other != mine.data());
    CHECK(content(*d, other, kBytes) == pattern(kBytes));
    d->upload(mine.data(), pattern(64, 5).data(), 64);  // one physical copy
    CHECK(content(*d, other, 64) == pattern(64, 5));
    if (sharing == Device::Sharing::write) {
      d->upload(other, pattern(64, 8).data(), 64);
      d->synchronize();
      CHECK(content(*d, mine.data(), 64) == pattern(64, 8));
    }
    d->close_shared(other, kBytes);
    d->upload(mine.data(), pattern(64).data(), 64);  // the other mapping is closed, not this one
    CHECK(content(*d, mine.data(), 64) == pattern(64));
  }
  const SharedMapping gaps(
      *d, d->allocate_with_gaps(kBytes, kBytes / 2, "a test", Device::Sharing::read), kBytes);
  d->upload(gaps.data(), pattern(4096).data(), 4096);
  CHECK(content(*d, gaps.data(), 4096) == pattern(4096));
}

TEST_CASE("device_has_the_random_numbers_of_the_host_or_none") {
  const auto d = device();
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const int64_t count : {1, 5, 4096, 1000003}) {
      const int64_t size = count * bytes(dtype);
      const Block block(*d, pattern(size));
      Bytes want(static_cast<size_t>(size));
      if (d->fill_normal(block.data(), dtype, count, 77, 0.25, 1.5))
        fill_normal(want.data(), dtype, count, 77, 0, 0.25, 1.5);
      else
        want = pattern(size);
      CHECK(content(*d, block.data(), size) == want);
    }
  }
  const Block block(*d, pattern(256));
  if (!d->fill_normal(block.data(), DType::f8e4m3, 4, 1, 0, 1))
    CHECK(content(*d, block.data(), 256) == pattern(256));
}

TEST_CASE("device_fills_all_bits_or_random_ones_or_nothing") {
  const auto d = device();
  constexpr int64_t kBytes = 4096 + 24;
  const Block block(*d, pattern(kBytes));
  if (!d->fill_bits(block.data(), kBytes, false)) {
    CHECK(content(*d, block.data(), kBytes) == pattern(kBytes));
    return;
  }
  CHECK(content(*d, block.data(), kBytes) == Bytes(kBytes, std::byte{0xff}));
  REQUIRE(d->fill_bits(block.data(), kBytes, true));
  int64_t ones = 0;
  for (const std::byte b : content(*d, block.data(), kBytes))
    ones += std::popcount(static_cast<unsigned char>(b));
  CHECK(ones > kBytes * 8 * 2 / 5);
  CHECK(ones < kBytes * 8 * 3 / 5);
}

TEST_CASE("device_has_the_checksums_of_the_host") {
  const auto d = device();
  constexpr int64_t kBytes = (int64_t{1} << 20) + 256 + 24;
  const Bytes here = pattern(kBytes);
  const Block block(*d, here);
  CHECK(d->checksum(block.data(), kBytes) == checksum_of(here));
  std::vector<std::span<const std::byte>> parts;
  const std::pair<size_t, size_t> cuts[] = {
      {0, 1}, {3, 5}, {8, 64}, {1, 4097}, {0, 0}, {256, size_t{1} << 20}, {7, size_t{1} << 19}};
  for (const auto& [at, size] : cuts) parts.emplace_back(block.data() + at, size);
  const auto sums = d->checksums(parts);
  REQUIRE(sums.size() == std::size(cuts));
  for (size_t i = 0; i < sums.size(); ++i)
    CHECK(sums[i] == checksum_of(std::span(here).subspan(cuts[i].first, cuts[i].second)));
  Bytes changed = here;
  changed.back() ^= std::byte{1};  // one bit of the last word
  d->upload(block.data(), changed.data(), kBytes);
  CHECK(d->checksum(block.data(), kBytes) == checksum_of(changed));
  CHECK(d->checksum(block.data(), kBytes) != checksum_of(here));
}

TEST_CASE("device_gathers_small_parts_without_a_difference") {
  const auto d = device();
  constexpr int64_t kEach = 512, kParts = 200, kAll = kEach * kParts;
  const Block from(*d, pattern(kAll)), to(*d, kAll);
  const auto written = [&](bool on) {
    d->fill_zero(to.data(), kAll);
    d->gather(on);
    for (int64_t part = 0; part < kParts; ++part) {
      std::byte* const at = to.data() + part * kEach;
      const int64_t size = kEach - part % 19;  // the last word is not whole
      if (part % 3 == 0 || !d->fill_bits(at, size, part % 3 == 1))
        d->copy(at, from.data() + part * kEach, size);
    }
    const Bytes got = content(*d, to.data(), kAll);  // while it is on
    d->gather(false);
    return got;
  };
  CHECK(written(true) == written(false));
  d->gather(true);
  d->copy(to.data(), from.data(), kEach);
  d->fill_zero(to.data(), kEach);  // comes after the copy
  d->gather(false);
  CHECK(content(*d, to.data(), kEach) == Bytes(kEach));
}

TEST_CASE("device_runs_captured_work_at_every_launch_and_not_before") {
  const auto d = device();
  const Block from(*d, pattern(4096)), to(*d, Bytes(4096));
  if (!d->can_capture()) {
    CHECK_FALSE(d->end_capture());
    CHECK_FALSE(d->captured_facts().has_value());
    return;
  }
  d->begin_capture();
  d->mark_capture("copy", false);
  d->copy(to.data(), from.data(), 4096);
  CHECK(d->capture_is_whole());
  const auto captured = d->end_capture();
  REQUIRE(captured);
  d->synchronize();
  CHECK(content(*d, to.data(), 4096) == Bytes(4096));
  for (const int first : {1, 6}) {
    d->upload(from.data(), pattern(4096, first).data(), 4096);
    d->launch(captured.get());
    CHECK(content(*d, to.data(), 4096) == pattern(4096, first));
  }
}

TEST_CASE("device_holds_its_stream_until_it_is_let_go") {
  const auto d = device();
  const Block block(*d, pattern(4096));
  d->synchronize();
  if (!d->hold(5)) return;  // left out: work begins at once
  d->fill_zero(block.data(), 4096);
  Bytes now(4096);
  d->peek(now.data(), block.data(), 4096);  // does not wait
  CHECK(now == pattern(4096));
  d->let_go();
  CHECK(content(*d, block.data(), 4096) == Bytes(4096));
  // A host that dies must not hold the device for ever.
  REQUIRE(d->hold(0.05));
  d->fill_zero(block.data(), 4096);
  CHECK(seconds_of([&] { d->synchronize(); }) < 2);
  d->let_go();
}

TEST_CASE("device_peeks_at_the_present_content") {
  const auto d = device();
  const Block block(*d, pattern(1000));
  d->synchronize();
  Bytes now(1000);
  d->peek(now.data(), block.data(), 1000);
  CHECK(now == pattern(1000));
}

TEST_CASE("device_stopwatch_measures_enqueued_work") {
  const auto d = device();
  constexpr int64_t kBytes = int64_t{64} << 20;
  const Block from(*d, pattern(kBytes)), to(*d, kBytes);
  const auto watch = d->stopwatch();
  const auto time_of = [&](int copies) {
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
      watch->flush();
      watch->start();
      for (int i = 0; i < copies; ++i) d->copy(to.data(), from.data(), kBytes);
      watch->stop();
      best = std::min(best, watch->seconds());
    }
    return best;
  };
  const double one = time_of(1), four = time_of(4);
  CHECK(one > 0);
  CHECK(four > 2 * one);
  CHECK(four < 8 * one);
  // Caches are flushed, contents stay.
  watch->flush_all();
  watch->fix_passes(2);
  watch->flush();
  (void)watch->evict(to.data(), 4096);
  CHECK(content(*d, to.data(), 4096) == pattern(4096));
}

TEST_CASE("device_watches_the_gaps_between_launches") {
  const auto d = device();
  std::vector<double> gaps;
  d->watch_launches(&gaps);
  if (d->can_capture()) {
    const Block block(*d, 4096);
    d->begin_capture();
    d->mark_capture("fill", false);
    d->fill_zero(block.data(), 4096);
    const auto captured = d->end_capture();
    d->launch(captured.get());
    d->synchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    d->launch(captured.get());
    d->synchronize();
    d->watch_launches(nullptr);
    REQUIRE(gaps.size() == 1);
    CHECK(gaps[0] > 0.015);
    CHECK(gaps[0] < 1);
    return;
  }
  d->watch_launches(nullptr);
  CHECK(gaps.empty());
}

TEST_CASE("device_of_clean_code_has_nothing_left_behind") {
  const auto d = device();
  const Block block(*d, pattern(64));
  d->synchronize_all();
  CHECK(d->left_behind().empty());
}

TEST_CASE("device_is_used_by_several_threads_in_turn") {
  const auto d = device();
  const Block block(*d, 4096);
  for (int first = 0; first < 4; ++first) {
    std::thread other([&] {
      d->upload(block.data(), pattern(4096, first).data(), 4096);
      d->synchronize();
    });
    other.join();
    CHECK(content(*d, block.data(), 4096) == pattern(4096, first));
  }
}
