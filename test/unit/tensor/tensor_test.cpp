// SPDX-License-Identifier: Apache-2.0
//
// If these fail, host tensors lose values, or a comparison or a random fill says something untrue.

#include "core/tensor/tensor.hpp"

#include <cmath>
#include <cstring>
#include <functional>

#include "core/base/error.hpp"
#include "core/tensor/compare.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

Tensor noise(Shape shape, DType dtype) {
  Tensor tensor(dtype, std::move(shape));
  fill_normal(tensor.data(), dtype, tensor.numel(), 42, 0, 0, 1, 1);
  return tensor;
}

// The difference between a [32, 16] bf16 tensor and its copy after `change`.
template <class Change>
Difference difference_after(const Change& change) {
  const Tensor want = noise({4, 8, 16}, DType::bf16);
  Tensor got = want;
  for (int64_t row = 0; row < 32; ++row) {
    for (int64_t column = 0; column < 16; ++column) {
      const int64_t i = row * 16 + column;
      got.set(i, change(row, column, want.at(i)));
    }
  }
  return compare(got, want);
}
template <class Change>
std::string pattern_after(const Change& change) {
  return difference_after(change).pattern;
}

}  // namespace

TEST_CASE("tensor_owns_aligned_memory", "[tensor]") {
  Tensor a = Tensor::of(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 256 == 0);
  CHECK(a.bytes() == 24);
  const Tensor b = a;
  a.set(0, 9);
  CHECK(b.at(0) == 1);
  const Tensor moved = std::move(a);
  CHECK(moved.at(0) == 9);
  CHECK(Tensor(DType::f32, {}).numel() == 1);
  CHECK(Tensor(DType::f32, {0, 5}).data() == nullptr);
  CHECK(b.reshaped({3, 2}).at(5) == 6);
  const TensorView turned(b.data(), DType::f32, {3, 2}, {1, 3});
  CHECK_FALSE(turned.contiguous());
  CHECK(turned.copy().values() == std::vector<double>{1, 4, 2, 5, 3, 6});
  CHECK(turned.to(DType::i32).values() == std::vector<double>{1, 4, 2, 5, 3, 6});
  CHECK_THROWS_AS(b.reshaped({4}), Error);
  CHECK_THROWS_AS(Tensor(DType::f32, {-1}), Error);
  CHECK_THROWS_AS(Tensor(DType::f32, {int64_t{1} << 40, int64_t{1} << 40}), Error);
  CHECK_THROWS_AS(Tensor(DType::f64, {int64_t{1} << 61}), Error);
  CHECK_THROWS_AS(Tensor::of(DType::f32, {2}, {1}), Error);
}

TEST_CASE("random_slices_and_threads_agree", "[tensor]") {
  // The known answer of Philox4x32-10 for counter 0 and key 0.
  CHECK(philox(0, 0) == std::array<uint32_t, 4>{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  const int64_t count = 300000;
  for (const DType dtype : {DType::bf16, DType::f32, DType::f64, DType::i32}) {
    const auto filled = [&](int kind, int64_t size, uint64_t offset, int threads) {
      Tensor tensor(dtype, {size});
      if (kind == 0) fill_normal(tensor.data(), dtype, size, 5, offset, 1, 20, threads);
      if (kind == 1) fill_uniform(tensor.data(), dtype, size, 5, offset, -9, 9, threads);
      if (kind == 2) fill_int(tensor.data(), dtype, size, 5, offset, -9, 10, threads);
      return tensor;
    };
    for (int kind = 0; kind < 3; ++kind) {
      const Tensor whole = filled(kind, count, 0, 1);
      CHECK(compare(filled(kind, count, 0, 3), whole).identical());
      for (const int64_t offset : {1, 1023, 1026, 77777}) {
        const Tensor slice = filled(kind, 2500, static_cast<uint64_t>(offset), 1);
        const auto* start = static_cast<const std::byte*>(whole.data()) + offset * bytes(dtype);
        CHECK(std::memcmp(slice.data(), start, static_cast<std::size_t>(slice.bytes())) == 0);
      }
    }
  }
}

TEST_CASE("random_has_the_right_moments", "[tensor]") {
  const int64_t count = 1 << 20;
  Tensor tensor(DType::f32, {count});
  fill_normal(tensor.data(), DType::f32, count, 1, 0, 3, 2, 1);
  double sum = 0, squares = 0;
  int64_t beyond = 0;
  for (const double value : tensor.values()) {
    sum += value;
    squares += (value - 3) * (value - 3);
    beyond += std::abs(value - 3) > 4 ? 1 : 0;
  }
  const auto n = static_cast<double>(count);
  CHECK(sum / n == Approx(3).margin(0.01));
  CHECK(squares / n == Approx(4).margin(0.03));
  CHECK(static_cast<double>(beyond) / n == Approx(0.0455).margin(0.001));
  fill_int(tensor.data(), DType::f32, count, 1, 0, 0, 4, 1);
  double low = 9, high = -9;
  for (const double value : tensor.values()) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  CHECK(low == 0);
  CHECK(high == 3);
  CHECK_THROWS_AS(fill_int(tensor.data(), DType::f32, 1, 1, 0, 4, 4, 1), Error);
  CHECK(seed_of("a", 1) != seed_of("b", 1));
  CHECK(seed_of("a", 1) != seed_of("a", 2));
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const int64_t value = random.integer(-2, 3);
    CHECK((value >= -2 && value < 3));
  }
}

TEST_CASE("compare_numbers", "[tensor]") {
  const Tensor want = Tensor::of(DType::f32, {4}, {-1, 1, -1, 1});
  Tensor got = want;
  got.set(2, -0.5);
  const Difference d = compare(got, want);
  CHECK(d.spread == 1);
  CHECK(d.max_abs == 0.5);
  CHECK(d.max_error_of_spread == 0.5);
  CHECK(d.rms_of_spread == 0.25);
  CHECK(d.worst_index == 2);
  CHECK(d.got == -0.5);
  CHECK(d.want == -1);
  CHECK(d.mismatched == 1);
  CHECK(compare(want, want).pattern == "identical");
  CHECK(compare(Tensor(DType::f32, {0}), Tensor(DType::f32, {0})).identical());
  CHECK_THROWS_AS(compare(want, Tensor(DType::f32, {2, 2})), Error);
  Tensor special = Tensor::of(DType::f32, {4}, {INFINITY, NAN, 1, 2});
  CHECK(compare(special, special).identical());
  CHECK(compare(want, special).nan_count == 1);
  CHECK(std::isinf(compare(want, special).max_abs));
  CHECK(position_text({2, 3, 4}, 23) == "[1, 2, 3]");
}

TEST_CASE("compare_patterns_know_right_values_in_wrong_places", "[tensor]") {
  const auto from = [](const std::function<int64_t(int64_t, int64_t)>& place, int64_t rows = 6,
                       int64_t columns = 16) {
    const Tensor want = noise({rows, columns}, DType::f32);
    Tensor got = want;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t at = place(r, c);
        got.set(r * columns + c, at >= 0 && at < want.numel() ? want.at(at) : 0);
      }
    const Difference d = compare(got, want);
    CHECK_THAT(d.next, ContainsSubstring("right at wrong positions"));
    return d.pattern;
  };
  CHECK(from([](int64_t r, int64_t c) { return r * 16 + c + 1; }) ==
        "every element holds what belongs 1 further on");
  CHECK(from([](int64_t r, int64_t c) { return r * 16 + c - 4; }) ==
        "every element holds what belongs 4 before");
  CHECK(from([](int64_t r, int64_t c) { return (r + 1) * 16 + c; }, 20) ==
        "every row holds the values of the next one");
  CHECK(from([](int64_t r, int64_t c) { return (r * 16 + c) % 6 * 16 + (r * 16 + c) / 6; }) ==
        "transposed: rows and columns are exchanged");
  CHECK(from([](int64_t r, int64_t c) { return c * 16 + r; }, 16) ==
        "transposed: rows and columns are exchanged");
  CHECK(from([](int64_t r, int64_t c) { return r * 16 + (c + 8) % 16; }) ==
        "the halves of every row are exchanged");
  CHECK(from([](int64_t r, int64_t c) { return r * 16 + c % 2 * 8 + c / 2; }) ==
        "values that belong half a row apart are neighbours");
  CHECK(from([](int64_t r, int64_t c) { return r * 16 + c % 8 * 2 + c / 8; }) ==
        "neighbours are half a row apart");
  CHECK(from([](int64_t r, int64_t c) { return 95 - r * 16 - c; }) ==
        "the right values, in another order");
}

TEST_CASE("compare_patterns_tell_what_was_not_written_from_what_is_no_number", "[tensor]") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor want = noise({4, 16}, dtype);
    Tensor got = want;
    const auto size = static_cast<size_t>(bytes(dtype));
    std::memset(static_cast<std::byte*>(got.data()) + 32 * size, 0xFF, 16 * size);
    CHECK(compare(got, want).pattern == "nothing was written to 16 elements: row 2");
    CHECK_THAT(compare(got, want).next, ContainsSubstring("were not written"));
    got.set(0, NAN);
    CHECK_THAT(compare(got, want).pattern, ContainsSubstring("NaN in 17 elements"));
    std::memset(got.data(), 0xFF, 64 * size);
    CHECK(compare(got, want).pattern == "nothing was written to any element");
  }
}

TEST_CASE("compare_patterns_say_what_to_look_at", "[tensor]") {
  const auto next = [](const std::function<double(int64_t, int64_t, double)>& change) {
    return difference_after(change).next;
  };
  const auto at = [&](int64_t row, int64_t column) {
    return next([=](int64_t r, int64_t c, double v) {
      return (row < 0 || r == row) && (column < 0 || c == column) ? 9 : v;
    });
  };
  CHECK_THAT(at(2, 3), ContainsSubstring("conditions on this index"));
  CHECK_THAT(at(2, -1), ContainsSubstring("conditions on this index"));
  CHECK_THAT(at(-1, 15), ContainsSubstring("tail"));
  CHECK_THAT(next([](int64_t, int64_t, double v) { return 2 * v; }), ContainsSubstring("factor"));
  CHECK_THAT(next([](int64_t, int64_t, double v) { return -v; }), ContainsSubstring("sign"));
  CHECK_THAT(next([](int64_t, int64_t, double v) { return v < 0 ? -v : v; }),
             ContainsSubstring("sign"));
  CHECK_THAT(next([](int64_t, int64_t, double v) { return v + 2; }), ContainsSubstring("term"));
  CHECK_THAT(next([](int64_t, int64_t, double) { return 0.0; }), ContainsSubstring("stored"));
  CHECK_THAT(next([](int64_t, int64_t, double) { return 3.0; }),
             ContainsSubstring("All values are equal"));
  CHECK_THAT(next([](int64_t r, int64_t, double v) { return r == 5 ? NAN : v; }),
             ContainsSubstring("0/0"));
  CHECK_THAT(next([](int64_t r, int64_t, double v) { return r % 4 == 1 ? 9 : v; }),
             ContainsSubstring("lane"));
  CHECK_THAT(next([](int64_t, int64_t, double v) { return v * 1.008; }),
             ContainsSubstring("float32"));
  const auto own = [](int64_t line) { return 2 + static_cast<double>(line * line % 7); };
  const std::function<double(int64_t, int64_t, double)> of_lines[] = {
      [=](int64_t, int64_t c, double v) { return v + own(c); },
      [=](int64_t r, int64_t, double v) { return v + own(r); },
      [=](int64_t, int64_t c, double v) { return v * own(c); },
      [=](int64_t r, int64_t, double v) { return v * own(r); }};
  const char* const told[] = {
      "each column has a different constant error", "each row has a different constant error",
      "each column is wrong by a different factor", "each row is wrong by a different factor"};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(difference_after(of_lines[i]).pattern == told[i]);
    CHECK_THAT(next(of_lines[i]), ContainsSubstring(i < 2 ? "term" : "factor"));
  }
  CHECK_THAT(next([](int64_t, int64_t, double v) { return v * v - 3; }),
             ContainsSubstring("by hand"));
  CHECK_THAT(next([](int64_t r, int64_t c, double v) { return (r * 7 + c * 5) % 11 ? v : 9; }),
             ContainsSubstring("barrier"));
}

TEST_CASE("compare_patterns_say_where", "[tensor]") {
  CHECK(pattern_after([](int64_t row, int64_t, double v) { return row >= 16 ? v + 3 : v; }) ==
        "all rows from 16 on");
  CHECK(pattern_after([](int64_t, int64_t column, double v) { return column >= 13 ? 9 : v; }) ==
        "last 3 columns of every row");
  CHECK(pattern_after([](int64_t, int64_t column, double v) { return column == 15 ? 9 : v; }) ==
        "the last column (15) of every row");
  CHECK(pattern_after([](int64_t row, int64_t, double v) {
          return row == 3 || row == 7 ? 9 : v;
        }) == "rows 3 and 7");
  CHECK(pattern_after([](int64_t row, int64_t, double v) { return row % 4 == 1 ? 9 : v; }) ==
        "every 4th row from 1");
  CHECK(pattern_after([](int64_t r, int64_t c, double v) {
          return r >= 8 && r < 16 && c < 4 ? 9 : v;
        }) == "first 4 columns of rows 8 to 15");
  CHECK(pattern_after([](int64_t, int64_t, double v) { return 2 * v; }) == "every element x 2.0");
  CHECK(pattern_after([](int64_t, int64_t, double v) { return -v; }) == "every element x -1.0");
  CHECK(pattern_after([](int64_t, int64_t, double v) { return v + 2; }) == "every element + 2.0");
  CHECK(pattern_after([](int64_t, int64_t, double) { return 0.0; }) == "all zeros");
  CHECK(pattern_after([](int64_t r, int64_t, double) { return r == 3 ? -0.0 : 0.0; }) ==
        "all zeros, of both signs");
  // Bits that were taken for those of another dtype.
  const auto misread = [](int64_t, int64_t c, double v) { return c % 3 ? v * 1e-9 : v * 1e30; };
  CHECK_THAT(pattern_after(misread), ContainsSubstring(", of sizes up to 3.5"));
  CHECK_THAT(pattern_after([&](int64_t r, int64_t c, double v) {
               return r == 2 && c == 1 ? NAN : misread(r, c, v);
             }),
             ContainsSubstring(", of sizes up to 3.5"));
  CHECK_THAT(difference_after(misread).next, ContainsSubstring("float32 as bfloat16"));
  CHECK(pattern_after([](int64_t, int64_t, double) { return 3.0; }) ==
        "constant 3.0 in every element");
  CHECK(pattern_after([](int64_t row, int64_t, double v) { return row == 5 ? 0 : v; }) ==
        "row 5: zeros");
  CHECK(pattern_after([](int64_t r, int64_t c, double v) { return r == 2 && c < 12 ? NAN : v; }) ==
        "NaN in 12 elements: first 12 columns of row 2");
  CHECK(pattern_after([](int64_t, int64_t, double v) { return v * 1.008; }) ==
        "looks like rounding noise");
  CHECK(pattern_after([](int64_t r, int64_t c, double v) { return r == 4 && c == 5 ? 9 : v; }) ==
        "one element, row 4, column 5");
  CHECK_THAT(
      pattern_after([](int64_t r, int64_t c, double v) { return (r * 7 + c * 5) % 11 ? v : 9; }),
      ContainsSubstring("scattered over"));
}
