// SPDX-License-Identifier: Apache-2.0
// fk_plain_clock_cpu ROWS WIDTH LAUNCHES [malloc] [zeros]: plain_clock.cu for the CPU: the kernel
// of known.hpp on LAUNCHES cold sets of buffers under the steady clock. The tensors are shared
// memory of a descriptor, as the judge's, or what malloc gives, and hold values like the judge's,
// or zeros. Prints the same line of JSON; nothing is launched, so null_seconds is an empty
// interval.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "known.hpp"

namespace {

constexpr int kSamples = 31;
using Clock = std::chrono::steady_clock;

uint16_t* memory(size_t bytes, bool has_malloc, bool zeros) {
  void* out = nullptr;
  if (has_malloc) {
    out = std::malloc(bytes);
  } else {
    const int fd = memfd_create("tensors", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) std::exit(3);
    out = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (out == MAP_FAILED) out = nullptr;
  }
  if (!out) std::exit(3);
  auto* const to = static_cast<uint16_t*>(out);
  if (zeros)
    std::memset(out, 0, bytes);
  else
    known::values(to, static_cast<int64_t>(bytes / 2));
  return to;
}

template <class Work>
double median_s(const std::vector<int64_t>& other, Work work) {
  std::vector<double> all;
  for (int i = 0; i < kSamples; ++i) {
    volatile int64_t seen = std::accumulate(other.begin(), other.end(), int64_t{0});  // the flush
    (void)seen;
    const auto start = Clock::now();
    work();
    all.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  bool has_malloc = false, zeros = false, good = argc >= 4;
  for (int i = 4; i < argc; ++i) {
    bool* const word = !std::strcmp(argv[i], "malloc")  ? &has_malloc
                       : !std::strcmp(argv[i], "zeros") ? &zeros
                                                        : nullptr;
    good = good && word;
    if (word) *word = true;
  }
  if (!good) {
    std::fprintf(stderr, "usage: fk_plain_clock_cpu ROWS WIDTH LAUNCHES [malloc] [zeros]\n");
    return 2;
  }
  const int64_t rows = std::atoll(argv[1]), width = std::atoll(argv[2]);
  const int launches = std::atoi(argv[3]);
  const std::vector<int64_t> other((size_t{64} << 20) / sizeof(int64_t), 1);
  std::vector<uint16_t*> from, to;
  for (int i = 0; i < launches; ++i) {
    from.push_back(memory(static_cast<size_t>(rows * width) * 4, has_malloc, zeros));
    to.push_back(memory(static_cast<size_t>(rows * width) * 2, has_malloc, zeros));
  }
  const double seconds = median_s(other, [&] {
    for (size_t i = 0; i < from.size(); ++i) known::silu(from[i], to[i], rows, width);
  });
  std::printf(
      "{\"rows\": %lld, \"width\": %lld, \"launches\": %d, \"malloc\": %d, \"zeros\": %d, "
      "\"divides\": 1, \"seconds\": %.9g, \"null_seconds\": %.9g}\n",
      static_cast<long long>(rows), static_cast<long long>(width), launches, has_malloc, zeros,
      seconds, median_s(other, [] {}));
  return 0;
}
