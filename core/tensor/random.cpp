// SPDX-License-Identifier: Apache-2.0
//
// Philox and the distributions made from it. Work goes in chunks that stay in the first-level
// cache: raw words, float32 deviates, then one conversion. The loops are simple enough to be
// vectorised. None of them calls the C library, whose results differ between machines.

#include "core/tensor/random.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "core/base/error.hpp"
#include "core/tensor/random_element.hpp"

// AVX2 has no fused multiply-add of its own, so both versions give the same bits.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FK_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define FK_CLONES
#endif

namespace fk {
namespace {

constexpr int kBlocks = 256;             // blocks of four words
constexpr int kWords = 4 * kBlocks;      // words per chunk
constexpr int64_t kPerThread = 1 << 16;  // smallest number of elements for a further thread

using Lanes = uint32_t[4][kBlocks];

FK_CLONES void philox_blocks(uint64_t first, uint64_t key, Lanes& out) {
  const auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const auto low = static_cast<uint32_t>(first), high = static_cast<uint32_t>(first >> 32);
  for (int i = 0; i < kBlocks; ++i) {
    uint32_t c0 = low + static_cast<uint32_t>(i);
    uint32_t c1 = high + (c0 < low ? 1U : 0U);
    uint32_t c2 = 0, c3 = 0;
    philox_rounds(c0, c1, c2, c3, k0, k1);
    out[0][i] = c0;
    out[1][i] = c1;
    out[2][i] = c2;
    out[3][i] = c3;
  }
}

// std::sqrt sets errno, which keeps the loop scalar. With this option the builtin is one
// instruction, correctly rounded on every machine.
#pragma GCC push_options
#pragma GCC optimize("no-math-errno", "no-trapping-math")
FK_CLONES void box_muller(const uint32_t* radius, const uint32_t* angle, float* first,
                          float* second) {
  for (int i = 0; i < kBlocks; ++i) {
    const float r = __builtin_sqrtf(minus_two_log(radius[i]));
    float sine, cosine;
    sine_cosine(angle[i], sine, cosine);
    first[i] = r * cosine;
    second[i] = r * sine;
  }
}
#pragma GCC pop_options

FK_CLONES void scale(float* values, float mean, float stddev) {
  for (int i = 0; i < kWords; ++i) values[i] = mean + stddev * values[i];
}

// Lanes side by side: word 4 i + lane.
FK_CLONES void interleave(const uint32_t* a, const uint32_t* b, const uint32_t* c,
                          const uint32_t* d, uint32_t* out) {
  for (int i = 0; i < kBlocks; ++i) {
    out[4 * i] = a[i];
    out[4 * i + 1] = b[i];
    out[4 * i + 2] = c[i];
    out[4 * i + 3] = d[i];
  }
}

struct Chunk {
  alignas(64) Lanes lanes;
  alignas(64) uint32_t words[kWords];
  alignas(64) float planes[4][kBlocks];
  alignas(64) float floats[kWords];
  alignas(64) double doubles[kWords];
  alignas(64) int64_t integers[kWords];
};

void interleave_floats(Chunk& chunk) {
  interleave(reinterpret_cast<const uint32_t*>(chunk.planes[0]),
             reinterpret_cast<const uint32_t*>(chunk.planes[1]),
             reinterpret_cast<const uint32_t*>(chunk.planes[2]),
             reinterpret_cast<const uint32_t*>(chunk.planes[3]),
             reinterpret_cast<uint32_t*>(chunk.floats));
}

// Calls make(chunk, block) for every chunk of the stream and copies the part in the range. `make`
// returns a pointer to kWords elements of type `made`.
template <class Make>
void fill_range(char* target, DType dtype, int64_t count, uint64_t offset, DType made,
                const Make& make) {
  const auto memory = std::make_unique<Chunk>();
  const int64_t width = bytes(dtype), made_width = bytes(made);
  while (count > 0) {
    const auto skipped = static_cast<int64_t>(offset % 4);
    const void* elements = make(*memory, offset / 4);
    const int64_t taken = std::min<int64_t>(count, kWords - skipped);
    convert(static_cast<const char*>(elements) + skipped * made_width, made, target, dtype, taken);
    target += taken * width;
    offset += static_cast<uint64_t>(taken);
    count -= taken;
  }
}

template <class Make>
void fill(void* target, DType dtype, int64_t count, uint64_t offset, DType made, int threads,
          const Make& make) {
  if (count <= 0) return;
  auto* start = static_cast<char*>(target);
  const int64_t workers = std::clamp<int64_t>(count / kPerThread, 1, std::max(threads, 1));
  // Ranges begin at multiples of a chunk, so no chunk is computed twice.
  const int64_t share = ((count + workers - 1) / workers + kWords - 1) / kWords * kWords;
  std::vector<std::jthread> others;
  for (int64_t begin = share; begin < count; begin += share) {
    const int64_t part = std::min(share, count - begin);
    others.emplace_back([=, &make] {
      fill_range(start + begin * bytes(dtype), dtype, part, offset + static_cast<uint64_t>(begin),
                 made, make);
    });
  }
  fill_range(start, dtype, std::min(share, count), offset, made, make);
}

}  // namespace

std::array<uint32_t, 4> philox(uint64_t counter, uint64_t key) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                               0, 0};
  philox_rounds(c[0], c[1], c[2], c[3], static_cast<uint32_t>(key),
                static_cast<uint32_t>(key >> 32));
  return c;
}

uint64_t seed_of(std::string_view name, uint64_t seed) {
  // FNV-1a over the name, then SplitMix64's finaliser, which spreads every bit.
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  uint64_t z = hash + 0x9E3779B97F4A7C15 * (seed + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

void fill_normal(void* target, DType dtype, int64_t count, uint64_t seed, uint64_t offset,
                 double mean, double stddev, int threads) {
  const auto mean_f = static_cast<float>(mean), stddev_f = static_cast<float>(stddev);
  fill(target, dtype, count, offset, DType::f32, threads,
       [=](Chunk& chunk, uint64_t block) -> const void* {
         philox_blocks(block, seed, chunk.lanes);
         box_muller(chunk.lanes[0], chunk.lanes[1], chunk.planes[0], chunk.planes[1]);
         box_muller(chunk.lanes[2], chunk.lanes[3], chunk.planes[2], chunk.planes[3]);
         interleave_floats(chunk);
         scale(chunk.floats, mean_f, stddev_f);
         return chunk.floats;
       });
}

void fill_uniform(void* target, DType dtype, int64_t count, uint64_t seed, uint64_t offset,
                  double low, double high, int threads) {
  fill(target, dtype, count, offset, DType::f64, threads,
       [=](Chunk& chunk, uint64_t block) -> const void* {
         philox_blocks(block, seed, chunk.lanes);
         interleave(chunk.lanes[0], chunk.lanes[1], chunk.lanes[2], chunk.lanes[3], chunk.words);
         const double unit = (high - low) * 0x1p-24;
         for (int i = 0; i < kWords; ++i) {
           chunk.doubles[i] = low + unit * static_cast<double>(chunk.words[i] >> 8);
         }
         return chunk.doubles;
       });
}

void fill_int(void* target, DType dtype, int64_t count, uint64_t seed, uint64_t offset, int64_t low,
              int64_t high, int threads) {
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (low >= high || range > uint64_t{1} << 32) {
    fail("random integers",
         fmt::format("the range [{}, {}) is empty or wider than 2^32", low, high));
  }
  fill(target, dtype, count, offset, DType::i64, threads,
       [=](Chunk& chunk, uint64_t block) -> const void* {
         philox_blocks(block, seed, chunk.lanes);
         interleave(chunk.lanes[0], chunk.lanes[1], chunk.lanes[2], chunk.lanes[3], chunk.words);
         for (int i = 0; i < kWords; ++i) {
           const uint64_t step =
               range == uint64_t{1} << 32 ? chunk.words[i] : (range * chunk.words[i]) >> 32;
           chunk.integers[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + step);
         }
         return chunk.integers;
       });
}

uint64_t Random::next() {
  const std::array<uint32_t, 4> words = philox(index_ / 2, seed_);
  const std::size_t half = index_++ % 2 * 2;
  return uint64_t{words[half + 1]} << 32 | words[half];
}

int64_t Random::integer(int64_t low, int64_t high) {
  FK_CHECK(low < high, "empty range");
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  __extension__ using Wide = unsigned __int128;
  const auto step = static_cast<uint64_t>((static_cast<Wide>(next()) * range) >> 64);
  return static_cast<int64_t>(static_cast<uint64_t>(low) + step);
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(6.283185307179586 * uniform());
}

}  // namespace fk
