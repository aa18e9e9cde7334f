// SPDX-License-Identifier: Apache-2.0
//
// SHA-256, in portable code and with the SHA extensions of x86.

#include "core/base/sha256.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace fk {
namespace {

constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

void compress_plain(std::array<uint32_t, 8>& state, const uint8_t* data, size_t blocks) {
  for (; blocks > 0; --blocks, data += 64) {
    std::array<uint32_t, 64> w;
    for (size_t i = 0; i < 16; ++i) w[i] = big_endian(data + 4 * i);
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                          ((e & f) ^ (~e & g)) + kRound[i] + w[i];
      const uint32_t t2 =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<uint32_t, 8> add = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state[i] += add[i];
  }
}

#if defined(__x86_64__)
bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & 1u << 29)) return false;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) && (c & bit_SSSE3);
}

// The instructions keep the state as ABEF and CDGH and do two rounds each.
__attribute__((target("sha,sse4.1,ssse3"))) void compress_sha(std::array<uint32_t, 8>& state,
                                                              const uint8_t* data, size_t blocks) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const auto load = [](const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); };
  const __m128i cdab = _mm_shuffle_epi32(load(state.data()), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(load(state.data() + 4), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; blocks > 0; --blocks, data += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(load(data + 16 * i), swap);
    for (size_t i = 0; i < 16; ++i) {
      __m128i& now = w[i % 4];
      if (i >= 4) {
        const __m128i last = w[(i + 3) % 4], middle = w[(i + 2) % 4];
        now = _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]),
                            _mm_alignr_epi8(last, middle, 4));
        now = _mm_sha256msg2_epu32(now, last);
      }
      const __m128i sum = _mm_add_epi32(now, load(kRound.data() + 4 * i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  const auto store = [](void* p, __m128i v) { _mm_storeu_si128(static_cast<__m128i*>(p), v); };
  store(state.data(), _mm_blend_epi16(feba, dchg, 0xf0));
  store(state.data() + 4, _mm_alignr_epi8(dchg, feba, 8));
}
#endif

void compress([[maybe_unused]] bool portable, std::array<uint32_t, 8>& state, const uint8_t* data,
              size_t blocks) {
#if defined(__x86_64__)
  static const bool fast = has_sha_instructions();
  if (fast && !portable) return compress_sha(state, data, blocks);
#endif
  compress_plain(state, data, blocks);
}

}  // namespace

Sha256::Sha256(bool portable)
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
      portable_(portable) {}

void Sha256::update(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size();
  const size_t filled = length_ % 64;
  length_ += left;
  if (filled > 0) {
    const size_t take = std::min(left, 64 - filled);
    std::memcpy(block_.data() + filled, data, take);
    if (filled + take < 64) return;
    compress(portable_, state_, block_.data(), 1);
    data += take;
    left -= take;
  }
  compress(portable_, state_, data, left / 64);
  if (left % 64 > 0) std::memcpy(block_.data(), data + left / 64 * 64, left % 64);
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

Sha256::Digest Sha256::finish() {
  const uint64_t bits = length_ * 8;
  const size_t filled = length_ % 64;
  std::array<uint8_t, 128> tail{};
  std::memcpy(tail.data(), block_.data(), filled);
  tail[filled] = 0x80;
  const size_t size = filled < 56 ? 64 : 128;
  for (size_t i = 0; i < 8; ++i) tail[size - 1 - i] = static_cast<uint8_t>(bits >> 8 * i);
  compress(portable_, state_, tail.data(), size / 64);
  Digest out;
  for (size_t i = 0; i < 32; ++i)
    out[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

std::string hex_text(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const uint8_t b : bytes) {
    out += kDigits[b >> 4];
    out += kDigits[b & 15];
  }
  return out;
}

std::string bytes_of_hex(std::string_view hex, std::size_t bytes, const std::string& where) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    const int high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high < 0 || low < 0) break;
    out += static_cast<char>(high * 16 + low);
  }
  if (hex.size() != 2 * bytes || out.size() != bytes)
    fail(where, "is not " + std::to_string(2 * bytes) + " lower-case hex digits");
  return out;
}

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hex_text(hash.finish());
}

Sha256::Digest hmac_sha256(std::string_view key, std::string_view message) {
  constexpr size_t kBlock = 64;
  const auto text_of = [](const Sha256::Digest& d) { return std::string(d.begin(), d.end()); };
  const auto digest = [](std::string_view pad, std::string_view text) {
    Sha256 hash;
    hash.update(pad);
    hash.update(text);
    return hash.finish();
  };
  std::string padded(key.size() > kBlock ? text_of(digest("", key)) : std::string(key));
  padded.resize(kBlock, 0);
  std::string inner = padded, outer = padded;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  return digest(outer, text_of(digest(inner, message)));
}

std::string sha256_file(const std::filesystem::path& path) {
  struct Descriptor {
    int fd;
    ~Descriptor() {
      if (fd >= 0) ::close(fd);
    }
  } file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat info {};
  if (file.fd < 0 || ::fstat(file.fd, &info) != 0)
    fail(path.string(), "cannot be read: " + errno_text());
  if (!S_ISREG(info.st_mode)) fail(path.string(), "is no regular file");
  const auto too_large = [&] {
    fail(path.string(), "is larger than " + human_bytes(kHashedBytesMax));
  };
  if (info.st_size > kHashedBytesMax) too_large();
  int64_t all = 0;
  std::vector<std::byte> buffer(size_t{1} << 18);
  Sha256 hash;
  for (;;) {
    const ssize_t got = ::read(file.fd, buffer.data(), buffer.size());
    if (got == 0) return hex_text(hash.finish());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path.string(), "cannot be read: " + errno_text());
    hash.update(std::span(buffer).first(static_cast<size_t>(got)));
    if ((all += got) > kHashedBytesMax) too_large();
  }
}

}  // namespace fk
