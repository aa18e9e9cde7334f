// SPDX-License-Identifier: Apache-2.0
// The error model lets honest rounding pass at every length, and no wrong element.
#include "core/cases/numerics/judgement.hpp"

#include <cmath>

#include "core/base/error.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

namespace {

fk::Contract product(int64_t length) {
  return fk::Contract::parse(
      "op: product\nrevision: 1\nsummary: sums\naxes: {T: rows, C: terms}\n"
      "init:\n  - {name: size, type: int, axis: C}\n"
      "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
      "  - {name: out, role: out, shape: [T], dtype: x}\n"
      "tolerance: {numerics: reduction, length: C}\n"
      "cases:\n  smoke:\n    - {T: 512, size: " +
          std::to_string(length) + "}\n",
      "product.yaml", 1, "test");
}

}  // namespace

TEST_CASE("tolerance_admits_sums_in_any_order_and_refuses_a_lost_term") {
  for (const int64_t n : {1, 16, 300, 4096, 20000}) {
    for (const bool positive : {false, true}) {
      const auto c = product(n);
      const auto resolved = fk::resolve(c, c.cases[0], {});
      const auto model = fk::error_model(resolved, *resolved.find("out"));
      fk::Random random(static_cast<uint64_t>(n));
      fk::Tensor got(fk::DType::f32, {512}), lost(fk::DType::f32, {512}),
          want(fk::DType::f32, {512});
      for (int64_t t = 0; t < 512; ++t) {
        float sum = 0;
        double exact = 0, last = 0;
        for (int64_t i = 0; i < n; ++i) {
          const auto term = static_cast<float>(positive ? random.uniform() : random.normal());
          sum += term;
          exact += last = static_cast<double>(term);
        }
        got.set(t, static_cast<double>(sum));
        want.set(t, exact);
        lost.set(t, exact - last);
      }
      INFO(n << (positive ? " positive terms, " : " terms, ") << model.text);
      const auto honest = fk::judge(got, want, model);
      INFO(honest.worst << " " << honest.text);
      CHECK(honest.ok);
      CHECK_FALSE(fk::judge(lost, want, model).ok);
    }
  }
}

TEST_CASE("tolerance_admits_one_rounding_to_half_and_no_more_than_two") {
  const auto c = product(64);
  fk::Variant half;
  half.dtypes["x"] = fk::DType::bf16;
  const auto resolved = fk::resolve(c, c.cases[0], half);
  const auto model = fk::error_model(resolved, *resolved.find("out"));
  fk::Random random(5);
  fk::Tensor want(fk::DType::f32, {512});
  for (int64_t i = 0; i < 512; ++i) want.set(i, random.normal());
  const fk::Tensor rounded = want.to(fk::DType::bf16);
  CHECK(fk::judge(rounded, want, model).ok);
  fk::Tensor off = rounded;
  off.set(100, want.at(100) + 4 * fk::epsilon(fk::DType::bf16) * std::abs(want.at(100)) + 0.01);
  const auto wrong = fk::judge(off, want, model);
  CHECK_FALSE(wrong.ok);
  CHECK_THAT(wrong.text, ContainsSubstring("1 of 512 elements") && ContainsSubstring("[100]"));
}

TEST_CASE("tolerance_counts_nan_and_infinity_as_wrong_unless_wanted") {
  const auto c = product(4);
  const auto resolved = fk::resolve(c, c.cases[0], {});
  const auto model = fk::error_model(resolved, *resolved.find("out"));
  const double inf = HUGE_VAL, nan = std::nan("");
  const auto t = [](std::vector<double> v) { return fk::Tensor::of(fk::DType::f32, {3}, v); };
  CHECK(fk::judge(t({1, inf, nan}), t({1, inf, nan}), model).ok);
  CHECK_FALSE(fk::judge(t({1, -inf, nan}), t({1, inf, nan}), model).ok);
  CHECK_FALSE(fk::judge(t({nan, 1, 1}), t({1, 1, 1}), model).ok);
  CHECK_FALSE(fk::judge(t({1, 1, 1}), t({nan, 1, 1}), model).ok);
}

TEST_CASE("tolerance_is_measured_by_the_spread_of_the_elements_own_block") {
  fk::ErrorModel model;
  model.of_spread = 0.01;
  model.hard = 0.1;
  fk::Tensor want(fk::DType::f32, {100, 300});
  fk::Random random(1);
  for (int64_t i = 0; i < want.numel(); ++i)  // the first row is large, the end of the last small
    want.set(i, random.normal() * (i < 300 ? 1 : i >= 29900 ? 1e-4 : 0.03));
  const auto with_error = [&](int64_t at, double error) {
    fk::Tensor got = want;
    got.set(at, want.at(at) + error);
    return fk::judge(got, want, model).ok;
  };
  CHECK(with_error(5, 0.006));
  CHECK_FALSE(with_error(5, 0.03));
  CHECK_FALSE(with_error(300 + 5, 0.006));
  CHECK(with_error(300 + 5, 0.0001));
  // A tile of small values that is left out, in a tensor of large ones.
  fk::Tensor got = want;
  for (int64_t i = 29900; i < 30000; ++i) got.set(i, 0);
  CHECK_FALSE(fk::judge(got, want, model).ok);
}

TEST_CASE("tolerance_blocks_are_pieces_of_rows_or_several_short_rows") {
  const auto begins = [](const fk::Shape& shape) { return fk::blocks_of(shape).begin; };
  CHECK(begins({2, 300}) == std::vector<int64_t>{0, 100, 200, 300, 400, 500, 600});
  CHECK(begins({7, 5}) == std::vector<int64_t>{0, 35});
  CHECK(begins({12, 3}) == std::vector<int64_t>{0, 18, 36});
  CHECK(begins({3, 40}) == std::vector<int64_t>{0, 40, 80, 120});
  CHECK(begins({}) == std::vector<int64_t>{0, 1});
  CHECK(begins({4, 0}) == std::vector<int64_t>{0});
}

TEST_CASE("tolerance_refuses_a_factor_and_a_lower_precision_that_no_element_shows") {
  const auto c = product(64);
  fk::Variant half;
  half.dtypes["x"] = fk::DType::bf16;
  const auto resolved = fk::resolve(c, c.cases[0], half);
  const auto model = fk::error_model(resolved, *resolved.find("out"));
  fk::Random random(5);
  fk::Tensor want(fk::DType::f32, {512}), scaled(fk::DType::f32, {512}),
      noisy(fk::DType::f32, {512});
  for (int64_t i = 0; i < 512; ++i) {
    want.set(i, random.normal());
    scaled.set(i, 1.01 * want.at(i));
    noisy.set(i, want.at(i) * (1 + 0.013 * (random.integer(0, 2) ? 1 : -1)));
  }
  CHECK(fk::judge(want.to(fk::DType::bf16), want, model).ok);
  const auto factor = fk::judge(scaled.to(fk::DType::bf16), want, model);
  CHECK(factor.worst < 1);
  CHECK_FALSE(factor.ok);
  CHECK(std::abs(factor.factor - 1.01) < 0.001);
  CHECK_THAT(factor.text, ContainsSubstring("every element is 1.0"));
  const auto noise = fk::judge(noisy, want, model);
  CHECK(noise.worst < 1);
  CHECK_FALSE(noise.ok);
  CHECK_THAT(noise.text, ContainsSubstring("lower precision"));
}

TEST_CASE("tolerance_counts_what_an_inout_field_kept_as_no_sign_of_precision") {
  fk::ErrorModel model;
  model.of_value = 0.02;
  model.hard = 0.1;
  fk::Tensor before(fk::DType::f32, {4096}), want(fk::DType::f32, {4096}),
      got(fk::DType::f32, {4096});
  fk::Random random(5);
  for (int64_t i = 0; i < 4096; ++i) {
    before.set(i, random.normal());
    want.set(i, i < 64 ? random.normal() : before.at(i));
    got.set(i, want.at(i) * (i < 64 ? 1 + 0.018 * (i % 2 ? 1 : -1) : 1));
  }
  CHECK(fk::judge(got, want, model).ok);
  CHECK_FALSE(fk::judge(got, want, model, {}, before).ok);
}

TEST_CASE("tolerance_lets_small_numbers_be_flushed_to_zero") {
  const auto c = product(4);
  const auto resolved = fk::resolve(c, c.cases[0], {});
  const auto model = fk::error_model(resolved, *resolved.find("out"));
  const auto t = [](std::vector<double> v) { return fk::Tensor::of(fk::DType::f32, {3}, v); };
  CHECK(fk::judge(t({1, 0, 2}), t({1, 1e-39, 2}), model).ok);
  CHECK_FALSE(fk::judge(t({0, 0, 0}), t({1e-30, 1e-31, 2e-30}), model).ok);
}

TEST_CASE("tolerance_knows_what_rounding_does_to_a_block") {
  fk::ErrorModel model;
  model.of_value = 0.001;
  model.hard = 0.1;
  model.probe = 1e-6;
  fk::Tensor want(fk::DType::f32, {4, 100}), got(fk::DType::f32, {4, 100});
  fk::Random random(5);
  for (int64_t i = 0; i < 400; ++i) {
    want.set(i, random.normal());
    got.set(i, want.at(i) + (i / 100 == 2 ? 0.01 * random.normal() : 0));
  }
  CHECK_FALSE(fk::judge(got, want, model).ok);
  CHECK(fk::judge(got, want, model, {0, 0, 0.01, 0}).ok);
  CHECK_FALSE(fk::judge(got, want, model, {0, 0.01, 0, 0}).ok);
  // No noise excuses what is beyond the hard maximum.
  got.set(205, want.at(205) + 0.5);
  CHECK_FALSE(fk::judge(got, want, model, {0, 0, 10, 0}).ok);
}

TEST_CASE("tolerance_leaves_noise_where_terms_cancel_to_nothing") {
  fk::ErrorModel model;
  model.of_value = 0.001;
  model.hard = 1e-3;
  model.probe = 1e-8;
  fk::Tensor want(fk::DType::f32, {2, 100}), got(fk::DType::f32, {2, 100});
  fk::Random random(5);
  for (int64_t i = 0; i < 200; ++i) {
    want.set(i, i < 100 ? random.normal() : 0);
    got.set(i, want.at(i) + (i < 100 ? 0 : 3e-8 * random.normal()));
  }
  CHECK_FALSE(fk::judge(got, want, model).ok);  // nothing says that terms cancel there
  CHECK(fk::judge(got, want, model, {0, 1e-7}).ok);
  // However large the noise, not beyond a millionth of what the output is elsewhere.
  for (int64_t i = 100; i < 200; ++i) got.set(i, 1e-5);
  CHECK_FALSE(fk::judge(got, want, model, {0, 1}).ok);
}

// Terms of other ranks do not move with this one's inputs. Steps that fuse one product with its sum
// add up x and -x.
TEST_CASE("tolerance_leaves_what_float32_leaves_of_terms_that_cancel_in_bfloat16") {
  const auto c = product(2);
  for (const auto dtype : {fk::DType::bf16, fk::DType::f32}) {
    fk::Variant variant;
    variant.dtypes["x"] = dtype;
    const auto r = fk::resolve(c, c.cases[0], variant);
    const auto model = fk::error_model(r, *r.find("out"));
    fk::Tensor want(dtype, {512}), got(dtype, {512});
    for (int64_t i = 0; i < 512; ++i) want.set(i, i < 384 ? 1.5 : 0), got.set(i, want.at(i));
    for (int64_t i = 384; i < 512; ++i) got.set(i, i % 2 ? 0x1p-24 : -0x1p-24);
    INFO(fk::name(dtype));
    CHECK(fk::judge(got, want, model).ok == (dtype == fk::DType::bf16));
    for (int64_t i = 384; i < 512; ++i) got.set(i, 1e-6);
    CHECK_FALSE(fk::judge(got, want, model).ok);
  }
}

TEST_CASE("tolerance_is_coarse_where_an_init_value_says_that_intermediates_are_rounded") {
  const std::string text =
      "op: product\nrevision: 1\nsummary: sums\naxes: {T: rows, C: terms}\n"
      "init:\n  - {name: size, type: int, axis: C}\n"
      "  - {name: quantize_input, type: bool, default: false}\n"
      "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
      "  - {name: out, role: out, shape: [T], dtype: x}\n"
      "tolerance: {numerics: reduction, length: C, coarse_if: quantize_input}\n"
      "cases:\n  smoke:\n    - {T: 4, size: 8}\n    - {T: 4, size: 8, quantize_input: true}\n";
  const auto c = fk::Contract::parse(text, "product.yaml", 1, "test");
  const auto model = [&](size_t i) {
    const auto resolved = fk::resolve(c, c.cases[i], {});
    return fk::error_model(resolved, *resolved.find("out"));
  };
  CHECK(model(0).of_spread < 1e-4);
  CHECK(model(1).of_spread > 10 * model(0).of_spread);
  CHECK(model(1).of_spread < fk::epsilon(fk::DType::f8e4m3));
  const auto wrong = [&](const std::string& name) {
    std::string other = text;
    other.replace(other.find("coarse_if: ") + 11, 14, name);
    return message_of<fk::Error>([&] { fk::Contract::parse(other, "product.yaml", 1, "test"); });
  };
  CHECK_THAT(wrong("quantise_input"), ContainsSubstring("did you mean `quantize_input`"));
  CHECK_THAT(wrong("size"), ContainsSubstring("is no boolean of init"));
}

namespace {

// The sum so far and up to 32 products, as Hopper's tensor cores add them: shifted to the largest
// and cut off after 14 bits.
double add_14_bits(double sum, const std::vector<double>& products) {
  double top = std::abs(sum), out = 0;
  for (const double p : products) top = std::max(top, std::abs(p));
  if (top == 0) return 0;
  const double unit = std::exp2(std::floor(std::log2(top)) - 13);
  for (const double p : products) out += std::trunc(p / unit) * unit;
  return static_cast<double>(static_cast<float>(out + std::trunc(sum / unit) * unit));
}

struct Sums {
  double exact = 0, promoted = 0, never = 0, without_last = 0;
};
// Sums of f8e4m3 products; `promoted` adds up in float32 after every 128.
Sums sums_of(int64_t terms, bool positive, fk::Random& random) {
  Sums sums;
  double part = 0;
  for (int64_t k = 0; k < terms; k += 32) {
    std::vector<double> products;
    for (int i = 0; i < 32; ++i) {
      const fk::Tensor pair =
          fk::Tensor::of(fk::DType::f32, {2}, {random.normal(), random.normal()})
              .to(fk::DType::f8e4m3);
      const double p = pair.at(0) * pair.at(1);
      products.push_back(positive ? std::abs(p) : p);
      sums.without_last = sums.exact;
      sums.exact += products.back();
    }
    part = add_14_bits(part, products);
    sums.never = add_14_bits(sums.never, products);
    if ((k + 32) % 128 && k + 32 < terms) continue;
    sums.promoted = static_cast<double>(static_cast<float>(sums.promoted + part));
    part = 0;
  }
  return sums;
}

}  // namespace

TEST_CASE(
    "tolerance_admits_tensor_cores_of_eight_bits_that_are_added_up_in_float32_and_no_others") {
  for (const int64_t n : {32, 128, 512, 4096}) {
    if (kSanitized && n > 512) continue;
    const auto c = fk::Contract::parse(
        "op: product\nrevision: 1\nsummary: sums\naxes: {T: rows, C: terms}\n"
        "init:\n  - {name: size, type: int, axis: C}\n"
        "  - {name: quantize_input, type: bool, default: false}\n"
        "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
        "  - {name: out, role: out, shape: [T], dtype: x}\n"
        "tolerance: {numerics: reduction, length: C}\n"
        "cases:\n  smoke:\n    - {T: 256, quantize_input: true, size: " +
            std::to_string(n) + "}\n    - {T: 256, size: " + std::to_string(n) + "}\n",
        "product.yaml", 1, "test");
    for (const bool positive : {false, true}) {
      fk::Random random(static_cast<uint64_t>(n));
      std::vector<Sums> sums;
      for (int t = 0; t < 256; ++t) sums.push_back(sums_of(n, positive, random));
      const auto tensor = [&](double Sums::*which, double factor) {
        fk::Tensor out(fk::DType::f32, {256});
        for (int64_t t = 0; t < 256; ++t) out.set(t, sums[static_cast<size_t>(t)].*which * factor);
        return out;
      };
      for (const auto dtype : {fk::DType::f32, fk::DType::f16, fk::DType::bf16}) {
        fk::Variant variant;
        variant.dtypes["x"] = dtype;
        const auto eight = fk::resolve(c, c.cases[0], variant),
                   wide = fk::resolve(c, c.cases[1], variant);
        const auto model = fk::error_model(eight, *eight.find("out"));
        const auto passes = [&](double Sums::*which, double factor = 1) {
          return fk::judge(tensor(which, factor).to(dtype), tensor(&Sums::exact, 1), model).ok;
        };
        INFO(n << " terms in " << fk::name(dtype) << (positive ? ", positive: " : ": ")
               << model.text);
        CHECK(passes(&Sums::promoted));
        CHECK_FALSE(passes(&Sums::promoted, 1.01));
        if (!positive) CHECK_FALSE(passes(&Sums::without_last));
        // In 16 bits it drowns in the rounding of the result, unless terms have one sign.
        if (n == 4096 && (positive || dtype == fk::DType::f32)) CHECK_FALSE(passes(&Sums::never));
        // Where inputs are not rounded nobody has to multiply eight bits.
        if (dtype == fk::DType::f32 && n >= 128)
          CHECK_FALSE(fk::judge(tensor(&Sums::promoted, 1), tensor(&Sums::exact, 1),
                                fk::error_model(wide, *wide.find("out")))
                          .ok);
      }
    }
  }
}

TEST_CASE("tolerance_says_the_same_of_an_output_that_is_looked_at_in_parts") {
  fk::ErrorModel model;
  model.of_value = 0.001;
  model.hard = 0.1;
  model.rms = 2;
  model.factor = 0.1;
  // 20,000 blocks, which are three parts.
  fk::Tensor want(fk::DType::f32, {10000, 256}), got(fk::DType::f32, {10000, 256});
  fk::fill_normal(want.data(), fk::DType::f32, want.numel(), 3, 0, 0, 1);
  double squares = 0;
  for (int64_t i = 0; i < want.numel(); ++i) {
    got.set(i, want.at(i) * (1 + 0.0005 * (i % 2 ? 1 : -1)));
    squares += want.at(i) * want.at(i);
  }
  const auto honest = fk::judge(got, want, model);
  CHECK(honest.ok);
  CHECK(std::abs(honest.rms - 0.5) < 0.01);
  CHECK(std::abs(honest.factor - 1) < 1e-4);
  CHECK(std::abs(fk::size_of_all(want) - std::sqrt(squares / 2560000)) < 1e-9);
  for (const int64_t at : {int64_t{5}, int64_t{1100000}, want.numel() - 1}) {
    fk::Tensor off = got;
    off.set(at, want.at(at) + 1);
    const auto wrong = fk::judge(off, want, model);
    CHECK_FALSE(wrong.ok);
    CHECK_THAT(wrong.text, ContainsSubstring("1 of 2560000 elements") &&
                               ContainsSubstring("[" + std::to_string(at / 256) + ", " +
                                                 std::to_string(at % 256) + "]"));
  }
}

TEST_CASE("tolerance_of_a_logarithm_has_a_floor_that_grows_with_the_sum") {
  const auto c_of = [](const std::string& kind) {
    return fk::Contract::parse(
        "op: sums\nrevision: 1\nsummary: sums\naxes: {T: rows, C: terms}\n"
        "init:\n  - {name: size, type: int, axis: C}\n"
        "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
        "  - {name: out, role: out, shape: [T], dtype: x}\n"
        "tolerance: {numerics: " +
            kind + ", length: C}\ncases:\n  smoke:\n    - {T: 16, size: 64}\n",
        "sums.yaml", 1, "test");
  };
  // log(1 + 1e-11) is 0 where 1 + 1e-11 is 1, in float32.
  fk::Tensor want(fk::DType::f32, {16});
  for (int64_t i = 0; i < 16; ++i) want.set(i, 1e-11 * static_cast<double>(i + 1));
  const auto off_by = [&](double by) {
    fk::Tensor got(fk::DType::f32, {16});
    for (int64_t i = 0; i < 16; ++i) got.set(i, want.at(i) + (i % 2 ? by : -by));
    return got;
  };
  const double floor = (2 + 8) * 0x1p-23;  // of sums of 64 terms
  const auto logarithm = c_of("logarithm"), softmax = c_of("softmax");
  const auto judged = [&](const fk::Contract& c, const fk::Tensor& got) {
    const auto resolved = fk::resolve(c, c.cases[0], {});
    return fk::judge(got, want, fk::error_model(resolved, *resolved.find("out"))).ok;
  };
  CHECK(judged(logarithm, fk::Tensor(fk::DType::f32, {16})));
  CHECK(judged(logarithm, off_by(0.5 * floor)));
  CHECK_FALSE(judged(logarithm, off_by(1.1 * floor)));
  CHECK_FALSE(judged(softmax, fk::Tensor(fk::DType::f32, {16})));
}

TEST_CASE("tolerance_of_a_softmax_admits_two_rounded_weights_whose_values_cancel") {
  const auto c = fk::Contract::parse(
      "op: means\nrevision: 1\nsummary: means\naxes: {T: rows, C: terms, D: width}\n"
      "init:\n  - {name: size, type: int, axis: C}\n  - {name: width, type: int, axis: D}\n"
      "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
      "  - {name: out, role: out, shape: [T, D], dtype: x}\n"
      "tolerance: {numerics: softmax, length: C}\ncases:\n  smoke:\n"
      "    - {T: 64, size: 256, width: 128, dtype: {x: bf16}}\n",
      "means.yaml", 1, "test");
  const auto resolved = fk::resolve(c, c.cases[0], {});
  const auto model = fk::error_model(resolved, *resolved.find("out"));
  const double eps = fk::epsilon(fk::DType::bf16);
  fk::Tensor want(fk::DType::f32, {64, 128});
  fk::fill_normal(want.data(), fk::DType::f32, want.numel(), 3, 0, 0, 1);
  // Two terms of `size` spreads have unlike signs, and each weight is off by half an epsilon.
  const auto judged = [&](double size, double all) {
    fk::Tensor of = want, got(fk::DType::f32, {64, 128});
    of.set(700, 0);
    for (int64_t i = 0; i < of.numel(); ++i) got.set(i, of.at(i) + (i % 2 ? all : -all) * eps);
    got.set(700, 2 * size * eps / 2);
    return fk::judge(got, of, model);
  };
  CHECK(judged(2.5, 0).ok);
  CHECK_FALSE(judged(3.5, 0).ok);
  // Which is no room for all of them.
  CHECK(judged(0, 0.5).ok);
  CHECK_THAT(judged(0, 1.3).text, ContainsSubstring("a lower precision"));
}

// Half has no number beyond 65504, and a value may end beyond it by rounding alone.
TEST_CASE("tolerance_takes_an_infinity_for_what_the_dtype_cannot_hold") {
  const auto c = product(64);
  fk::Variant half;
  half.dtypes["x"] = fk::DType::f16;
  const auto resolved = fk::resolve(c, c.cases[0], half);
  const auto model = fk::error_model(resolved, *resolved.find("out"));
  fk::Random random(5);
  fk::Tensor want(fk::DType::f32, {512});
  for (int64_t i = 0; i < 512; ++i) want.set(i, 30000 * random.uniform());
  want.set(7, 65784), want.set(9, -65500), want.set(11, 60000);
  const auto judged = [&](int64_t at, double value) {
    fk::Tensor got = want.to(fk::DType::f16);
    got.set(at, value);
    return fk::judge(got, want, model).ok;
  };
  CHECK(want.to(fk::DType::f16).at(7) == HUGE_VAL);
  CHECK(judged(7, HUGE_VAL));
  CHECK(judged(9, -HUGE_VAL));
  CHECK_FALSE(judged(7, -HUGE_VAL));
  CHECK_FALSE(judged(9, HUGE_VAL));
  CHECK_FALSE(judged(11, HUGE_VAL));
  CHECK_FALSE(judged(7, std::nan("")));
}

TEST_CASE("tolerance_takes_a_sum_of_few_terms_for_as_inexact_as_it_moves_alone") {
  const auto refused = [](int64_t length, double error) {
    const auto c = product(length);
    const auto resolved = fk::resolve(c, c.cases[0], {});
    const auto model = fk::error_model(resolved, *resolved.find("out"));
    // All of a block but two are nothing: the rest of one that had terms of 4, and one that is
    // whole.
    constexpr size_t kAt = 40;
    fk::Tensor want(fk::DType::f32, {512});
    want.set(kAt, 1e-3), want.set(kAt + 1, 0.5);
    fk::Tensor got = want;
    got.set(kAt, 1e-3 + error);
    std::vector<double> moves(512), noise(static_cast<size_t>(fk::blocks_of({512}, 0).count));
    moves[kAt] = 1e-6;
    noise[0] = 1e-6 / std::sqrt(128.0);
    const bool wrong = !fk::judge(got, want, model, noise, {}, {}, moves).ok;
    got = want;
    got.set(kAt + 1, 0.5 + error);  // which does not move
    CHECK_FALSE(fk::judge(got, want, model, noise, {}, {}, moves).ok);
    CHECK(model.alone == (length < 20));
    return wrong;
  };
  CHECK_FALSE(refused(8, 6e-6));
  CHECK(refused(8, 3e-5));
}
