// SPDX-License-Identifier: Apache-2.0
// Guarded memory. The canary depends on the position, so that writes of a constant are noticed.
#include "core/cases/guarded.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/machine.hpp"
#include "core/base/parts.hpp"
#include "core/base/text.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

constexpr size_t kGuardPage = 4096;
constexpr size_t kFar =
    64 << 20;  // without access on either side: what an index that is off by rows hits
constexpr int64_t kPattern = 1 << 20;  // bytes of poison made at a time

// Pages in front of a buffer, and pages of the buffer with its canaries.
struct Room {
  size_t before = 0, used = 0;
};
Room room_of(int64_t bytes, int shift, bool at_end, int64_t behind) {
  const auto pages = [](size_t size) { return (size + kGuardPage - 1) / kGuardPage * kGuardPage; };
  const auto more = static_cast<size_t>(behind);
  const size_t aligned = (static_cast<size_t>(bytes) + more + 255) / 256 * 256;
  if (at_end) return {kGuardPage + pages(aligned) - aligned + more, kGuardPage + pages(aligned)};
  const size_t before = kGuardPage + 256 * static_cast<size_t>(shift % 15) + more;
  return {before, pages(before + static_cast<size_t>(bytes) + kGuardPage / 2)};
}

// The canary bytes of addresses [from, to). They repeat every 64 KiB of addresses and are made
// once, because every tensor of every call needs thousands of them.
std::span<const std::byte> canaries(const std::byte* from, const std::byte* to) {
  constexpr size_t kPeriod = 1 << 16;
  static const std::vector<std::byte> all = [] {
    std::vector<std::byte> out(2 * kPeriod);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::byte>(0x5a ^ (i * 0x9e) ^ (i >> 8));
    return out;
  }();
  const auto count = static_cast<size_t>(to - from);
  FK_CHECK(count <= kPeriod, "canaries are few");
  return {all.data() + reinterpret_cast<uintptr_t>(from) % kPeriod, count};
}

void fill_poison(std::byte* to, int64_t bytes, Poison kind) {
  if (kind == Poison::ones) {
    std::memset(to, 0xff, static_cast<size_t>(bytes));
    return;
  }
  constexpr int64_t kPart = int64_t{1} << 20;  // bytes
  in_pieces(bytes, kPart, [&](int64_t first, int64_t size) {
    const int64_t last = first + size;
    uint64_t state = 0x1234567 + static_cast<uint64_t>(first / kPart);
    for (int64_t i = first; i < last; i += 8) {
      state += 0x9e3779b97f4a7c15;
      uint64_t z = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
      z ^= z >> 27;
      std::memcpy(to + i, &z, static_cast<size_t>(std::min<int64_t>(8, last - i)));
    }
  });
}

}  // namespace

uint64_t fingerprint(std::span<const std::byte> memory) {
  // Four independent chains, so that multiplications overlap.
  std::array<uint64_t, 4> lanes = {1, 2, 3, 4};
  const auto mix = [](uint64_t lane, uint64_t word) {
    return std::rotl((lane ^ word) * 0x9e3779b97f4a7c15u, 29);
  };
  size_t at = 0;
  for (; at + 32 <= memory.size(); at += 32) {
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), memory.data() + at, 32);
    for (size_t i = 0; i < 4; ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  uint64_t out = memory.size();
  for (; at < memory.size(); ++at) out = mix(out, static_cast<uint64_t>(memory[at]));
  for (const uint64_t lane : lanes) out = mix(out, lane);
  return out;
}

std::byte* SharedRegion::take(int64_t bytes, int64_t gaps) {
  gaps_ += gaps;
  const int64_t at = taken_;
  taken_ += (bytes + 255) / 256 * 256;
  if (!begin_) return nullptr;
  FK_CHECK(taken_ <= bytes_, "a region is as large as what is taken from it");
  return begin_ + at;
}

GuardedBuffer::GuardedBuffer(Device& device, int64_t bytes, int shift, bool at_end, int64_t behind,
                             std::vector<HeldPart> held)
    : device_(device), bytes_(bytes), held_(std::move(held)) {
  if (!bytes) return;
  const Room room = room_of(bytes, shift, at_end && device.host_memory(), behind);
  map(room.before, room.used);
  if (at_end && device.host_memory()) forbidden_ = end_;
  write_canaries();
}

GuardedBuffer::GuardedBuffer(Device& device, SharedRegion& region, int64_t bytes, int shift,
                             bool at_end, bool owner, int64_t behind, std::vector<HeldPart> held)
    : device_(device), bytes_(bytes), held_(std::move(held)) {
  if (!bytes) return;
  FK_CHECK(held_.empty() || device.host_memory(), "shared memory of a device has no gaps");
  at_end &= device.host_memory();
  const Room room = room_of(bytes, shift, at_end, behind);
  int64_t gaps = held_.empty() ? 0 : bytes;
  for (const HeldPart& part : held_) gaps -= part.bytes;
  begin_ = region.take(static_cast<int64_t>(room.used + (at_end ? kGuardPage : 0)), gaps);
  if (!begin_) return;
  end_ = begin_ + room.used;
  data_ = begin_ + room.before;
  if (owner)
    write_canaries();
  else if (at_end && mprotect(end_, kGuardPage, PROT_NONE) == 0)
    forbidden_ = end_;
  // A shared file's pages exist from the first touch: other processes must not touch the gaps.
  if (!owner) close_gaps();
}

// Makes whole pages beside held parts inaccessible; canaries stay.
void GuardedBuffer::close_gaps() const {
  const auto page_of = [](const std::byte* at, size_t up) {
    return (reinterpret_cast<uintptr_t>(at) + up) / kGuardPage * kGuardPage;
  };
  for (size_t i = 0; !held_.empty() && i <= held_.size(); ++i) {
    const int64_t begin = i == 0 ? 0 : held_[i - 1].at + held_[i - 1].bytes;
    const int64_t end = i == held_.size() ? bytes_ : held_[i].at;
    const uintptr_t from = page_of(data_ + begin, kGuardPage - 1), to = page_of(data_ + end, 0);
    if (from < to && mprotect(reinterpret_cast<void*>(from), to - from, PROT_NONE) != 0)
      fail_host("memory", "cannot take the access to a gap of " +
                              human_bytes(static_cast<int64_t>(to - from)) + " away");
  }
}

std::vector<std::span<std::byte>> GuardedBuffer::parts() const {
  if (held_.empty()) return {{data_, static_cast<size_t>(bytes_)}};
  std::vector<std::span<std::byte>> out;
  for (const HeldPart& part : held_)
    out.emplace_back(data_ + part.at, static_cast<size_t>(part.bytes));
  return out;
}

void GuardedBuffer::write_canaries() {
  for (const auto& [from, to] : {std::pair(begin_, data_), std::pair(data_ + bytes_, end_)}) {
    const auto good = canaries(from, to);
    device_.upload(from, good.data(), static_cast<int64_t>(good.size()));
  }
}

// Makes all of the memory accessible, or only the held parts and the canaries.
bool GuardedBuffer::open_parts(std::byte* begin, size_t before, size_t used) const {
  const auto open = [&](size_t from, size_t to) {
    from = from / kGuardPage * kGuardPage;
    to = std::min(used, (to + kGuardPage - 1) / kGuardPage * kGuardPage);
    return from >= to || mprotect(begin + from, to - from, PROT_READ | PROT_WRITE) == 0;
  };
  if (held_.empty()) return open(0, used);
  bool good = open(0, before) && open(before + static_cast<size_t>(bytes_), used);
  for (const HeldPart& part : held_) {
    const size_t from = before + static_cast<size_t>(part.at);
    good &= open(from, from + static_cast<size_t>(part.bytes));
  }
  return good;
}

void GuardedBuffer::map(size_t before, size_t used) {
  if (device_.host_memory()) {
    // Reserved addresses are free: only accessible pages count as memory.
    map_bytes_ = used + 2 * kFar;
    void* memory =
        mmap(nullptr, map_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    map_ = memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
    if (!map_ || !open_parts(map_ + kFar, before, used)) {
      if (map_) munmap(map_, map_bytes_);
      const std::string what = "cannot allocate " + human_bytes(bytes_) + " to check with";
      // The addresses around buffers are more than all other addresses of a process.
      if (const auto limit = address_limit())
        fail_host("memory", what + ": a process may have " + human_bytes(*limit) + " of addresses",
                  "ulimit -v unlimited");
      fail("memory", what);
    }
    begin_ = map_ + kFar;
  } else {
    const auto size = static_cast<int64_t>(used), front = static_cast<int64_t>(before);
    const std::string purpose = "a buffer to check with";
    std::vector<HeldPart> parts = {{0, front}};  // and one canary at the other end
    for (const HeldPart& part : held_) parts.push_back({front + part.at, part.bytes});
    parts.push_back({front + bytes_, size - front - bytes_});
    map_ = static_cast<std::byte*>(held_.empty() ? device_.allocate(size, purpose)
                                                 : device_.allocate_parts(size, parts, purpose));
    begin_ = map_;
  }
  end_ = begin_ + used;
  data_ = begin_ + before;
}

GuardedBuffer::~GuardedBuffer() {
  if (!map_) return;
  if (device_.host_memory())
    munmap(map_, map_bytes_);
  else
    device_.release(map_);
}

std::span<const std::byte> GuardedBuffer::held_bytes(std::vector<std::byte>& keep) const {
  if (held_.empty()) return host(keep);
  for (const HeldPart& part : held_) {
    const size_t before = keep.size();
    keep.resize(before + static_cast<size_t>(part.bytes));
    read(keep.data() + before, part.at, part.bytes);
  }
  return keep;
}

int64_t GuardedBuffer::place_of(int64_t at) const {
  if (held_.empty()) return at;
  int64_t before = 0;
  for (const HeldPart& part : held_) {
    if (at < part.at + part.bytes) return before + at - part.at;
    before += part.bytes;
  }
  return before;
}

void GuardedBuffer::poison(Poison kind) {
  if (!bytes_) return;
  for (const auto part : parts()) poison_part(part, kind);
}

void GuardedBuffer::poison_part(std::span<std::byte> part, Poison kind) {
  const auto bytes = static_cast<int64_t>(part.size());
  std::byte* const data = part.data();
  if (device_.host_memory()) return fill_poison(data, bytes, kind);
  if (device_.fill_bits(data, bytes, kind == Poison::random)) return;
  std::vector<std::byte> pattern(static_cast<size_t>(std::min(bytes, kPattern)));
  fill_poison(pattern.data(), static_cast<int64_t>(pattern.size()), kind);
  device_.upload(data, pattern.data(), static_cast<int64_t>(pattern.size()));
  for (auto done = static_cast<int64_t>(pattern.size()); done < bytes; done *= 2)
    device_.copy(data + done, data, std::min(done, bytes - done));
}

void GuardedBuffer::write(int64_t at, const void* from, int64_t bytes) {
  device_.upload(data_ + at, from, bytes);
}

void GuardedBuffer::write(int64_t at, const Tensor& from, DType dtype) {
  if (from.dtype == dtype) return write(at, from.data(), from.bytes());
  constexpr int64_t kBlock = int64_t{1} << 24, kPart = int64_t{1} << 18;  // elements
  const int64_t width = fk::bytes(dtype), own = fk::bytes(from.dtype);
  std::vector<std::byte> block(static_cast<size_t>(std::min(kBlock, from.numel()) * width));
  for (int64_t first = 0; first < from.numel(); first += kBlock) {
    const int64_t count = std::min(kBlock, from.numel() - first);
    in_pieces(count, kPart, [&](int64_t begin, int64_t size) {
      convert(static_cast<const std::byte*>(from.data()) + (first + begin) * own, from.dtype,
              block.data() + begin * width, dtype, size);
    });
    write(at + first * width, block.data(), count * width);
  }
}
void GuardedBuffer::read(void* to, int64_t at, int64_t bytes) const {
  device_.download(to, data_ + at, bytes);
}
void GuardedBuffer::copy_from(const GuardedBuffer& other) {
  FK_CHECK(other.bytes_ == bytes_, "buffers of one size");
  const auto mine = parts(), theirs = other.parts();
  FK_CHECK(mine.size() == theirs.size(), "buffers with the same gaps");
  for (size_t i = 0; i < mine.size(); ++i)
    device_.copy(mine[i].data(), theirs[i].data(), static_cast<int64_t>(mine[i].size()));
}

std::span<const std::byte> GuardedBuffer::host(std::vector<std::byte>& keep) const {
  const auto size = static_cast<size_t>(bytes_);
  if (device_.host_memory() || !bytes_) return {data_, size};
  keep.resize(size);
  read(keep.data(), 0, bytes_);
  return keep;
}

uint64_t GuardedBuffer::print() const {
  std::vector<std::byte> keep;
  if (!bytes_ || device_.host_memory() || !held_.empty()) return fingerprint(held_bytes(keep));
  if (seen_) return seen_->print;
  const std::span<const std::byte> all[] = {{data_, static_cast<size_t>(bytes_)}};
  return device_.checksums(all)[0];
}

GuardedBuffer::Glance::Glance(Device& device, std::vector<const GuardedBuffer*> buffers)
    : buffers_(std::move(buffers)) {
  if (device.host_memory()) buffers_.clear();
  // Buffers with gaps are few and small; they are read one by one.
  std::erase_if(buffers_, [](const GuardedBuffer* b) { return !b->bytes_ || !b->held_.empty(); });
  std::vector<std::span<const std::byte>> parts;
  for (const GuardedBuffer* b : buffers_) {
    parts.emplace_back(b->begin_, b->data_);
    parts.emplace_back(b->data_ + b->bytes_, b->end_);
    parts.emplace_back(b->data_, static_cast<size_t>(b->bytes_));
  }
  if (parts.empty()) return;
  const auto sums = device.checksums(parts);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const auto wanted = [&](size_t part) {
      const std::byte* const from = parts[part].data();
      return checksum_of(canaries(from, from + parts[part].size()));
    };
    auto& good = buffers_[i]->canaries_;
    if (!good) good.emplace(wanted(3 * i), wanted(3 * i + 1));
    const bool whole = sums[3 * i] == good->first && sums[3 * i + 1] == good->second;
    buffers_[i]->seen_ = {whole, sums[3 * i + 2]};
  }
}

GuardedBuffer::Glance::~Glance() {
  for (const GuardedBuffer* b : buffers_) b->seen_.reset();
}

std::string GuardedBuffer::damage() const {
  if (!bytes_ || (seen_ && seen_->whole)) return "";
  // Number of bytes of [from, to) that differ from their canary, and the first and last of them.
  struct Damage {
    int64_t count = 0, first = 0, last = 0;
  };
  const auto look = [&](const std::byte* from, const std::byte* to) {
    const auto good = canaries(from, to);
    Damage out;
    if (device_.host_memory() && std::memcmp(from, good.data(), good.size()) == 0) return out;
    std::vector<std::byte> now(good.size());
    device_.download(now.data(), from, static_cast<int64_t>(now.size()));
    for (size_t i = 0; i < good.size(); ++i) {
      if (good[i] == now[i]) continue;
      if (!out.count++) out.first = static_cast<int64_t>(i);
      out.last = static_cast<int64_t>(i);
    }
    return out;
  };
  const auto text = [](int64_t count, int64_t distance, const char* where) {
    return std::to_string(count) + (count == 1 ? " byte" : " bytes") + " written " +
           std::to_string(distance) + " bytes " + where;
  };
  if (const Damage d = look(data_ + bytes_, end_); d.count)
    return text(d.count, d.first, "past its end");
  if (const Damage d = look(begin_, data_); d.count)
    return text(d.count, data_ - begin_ - d.last, "before its start");
  return "";
}

void* GuardDevice::allocate(int64_t bytes, const std::string& purpose) {
  auto memory = std::make_unique<GuardedBuffer>(device_, bytes, shift_++);
  memory->poison(Poison::ones);
  void* data = memory->data();
  live_[data] = {std::move(memory), purpose};
  return data;
}

void GuardDevice::release(void* memory) {
  const auto it = live_.find(memory);
  if (it == live_.end()) return;
  damage_ = damage();
  live_.erase(it);
}

std::string GuardDevice::damage() const {
  if (!damage_.empty()) return damage_;
  for (const auto& [data, allocation] : live_) {
    if (const std::string found = allocation.memory->damage(); !found.empty())
      return allocation.purpose + ": " + found;
  }
  return "";
}

std::vector<std::span<const std::byte>> GuardDevice::memory() const {
  std::vector<std::span<const std::byte>> out;
  for (const auto& [data, allocation] : live_)
    out.emplace_back(allocation.memory->data(), static_cast<size_t>(allocation.memory->bytes()));
  return out;
}

std::vector<uint64_t> GuardDevice::fingerprints_of(const std::string& word) const {
  std::vector<uint64_t> all;
  for (const auto& [data, allocation] : live_) {
    if (allocation.purpose.find(word) == std::string::npos) continue;
    std::vector<std::byte> keep;
    all.push_back(fingerprint(allocation.memory->host(keep)));
  }
  return all;
}

}  // namespace fk
