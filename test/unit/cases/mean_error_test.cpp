// SPDX-License-Identifier: Apache-2.0
// All errors of an output together. The rounding of honest layers stays within the limit. Weights
// of eight bits or an output of sixteen exceed it.
#include <cmath>

#include "core/cases/numerics/judgement.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

namespace {

// x and a list of `layers` weights; with a communicator of several ranks.
fk::Contract stack(int level, int layers, int ranks) {
  const bool comm = ranks > 1;
  const std::string rank = comm ? "  - {name: comm, type: comm, axis: NR}\n" : "";
  return fk::Contract::parse(
      "op: stack\nrevision: 1\nsummary: sums\naxes: {T: rows, C: terms" +
          std::string(comm ? ", NR: ranks" : "") + "}\ninit:\n" + rank +
          "  - {name: size, type: int, axis: C}\n  - {name: layers, type: int}\n"
          "weights:\n  - {name: weight, list: layers, shape: [C], dtype: float}\n"
          "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
          "  - {name: state, role: inout, shape: [T, C], dtype: float}\n"
          "  - {name: cache, role: inout, shape: [T, C], dtype: float, layout: strided, writes: "
          "\"flat(T)[at]\"}\n"
          "  - {name: at, role: in, shape: [T], dtype: [i64], values: arange}\n"
          "  - {name: out, role: out, shape: [T, C], dtype: float}\n"
          "tolerance: {numerics: reduction, length: C}\ncases:\n  smoke:\n    - {" +
          (comm ? "NR: " + std::to_string(ranks) + ", " : "") +
          "T: 128, size: 256, layers: " + std::to_string(layers) + "}\n",
      "stack.yaml", level, "test");
}

fk::ResolvedCase in_bf16(const fk::Contract& c, fk::DType out) {
  fk::Variant variant;
  variant.dtypes = {{"x", fk::DType::bf16}, {"out", out}, {"state", out}, {"cache", out}};
  return fk::resolve(c, c.cases[0], variant);
}

struct Pair {
  fk::Tensor got, want;
};
// Off by `error` of the spread, at random.
Pair off_by(double error, int64_t rows = 128) {
  fk::Random random(7);
  Pair out{fk::Tensor(fk::DType::f32, {rows, 256}), fk::Tensor(fk::DType::f32, {rows, 256})};
  for (int64_t i = 0; i < out.want.numel(); ++i) {
    out.want.set(i, random.normal());
    out.got.set(i, out.want.at(i) + error * random.normal());
  }
  return out;
}

}  // namespace

TEST_CASE("mean_error_of_layers_and_of_ranks_has_no_room_for_weights_of_eight_bits") {
  // The rounding of one product in bfloat16, and the error of eight bits with a scale for 32
  // columns.
  constexpr double kRounding = 0.0016, kEightBits = 0.0048;
  const auto passes = [](int level, int layers, int ranks, double error) {
    const auto c = stack(level, layers, ranks);
    const auto r = in_bf16(c, fk::DType::bf16);
    const auto model = fk::error_model(r, *r.find("out"));
    const Pair pair = off_by(error);
    INFO("level " << level << ", " << layers << " layers: " << model.text);
    return fk::judge(pair.got, pair.want, model).ok;
  };
  // One product, and as many roundings on the way as eight ranks make; a ring of eight makes more.
  CHECK(passes(2, 1, 2, kRounding * 2));
  CHECK_FALSE(passes(2, 1, 2, kEightBits * 1.15));
  CHECK(passes(2, 1, 8, kEightBits * 1.15));
  CHECK_FALSE(passes(2, 1, 8, kEightBits * 1.15 * 1.7));
  // A layer has four products one after the other, and rounds some eight times.
  for (const int layers : {1, 2, 5}) {
    CHECK(passes(4, layers, 1, kRounding * std::sqrt(8 * layers)));
    CHECK_FALSE(passes(4, layers, 1, kEightBits * std::sqrt(8 * layers)));
  }
  CHECK_FALSE(passes(4, 1, 1, kRounding * std::sqrt(8 * 5)));
}

TEST_CASE("mean_error_of_a_layer_is_not_excused_by_what_every_layer_moves") {
  const auto passes = [](int64_t rows, double error, double moves) {
    const auto c = stack(3, 1, 1);
    fk::Variant variant;
    variant.axes["T"] = rows;
    variant.dtypes = {{"x", fk::DType::bf16}, {"out", fk::DType::bf16}};
    const auto r = fk::resolve(c, c.cases[0], variant);
    const auto model = fk::error_model(r, *r.find("out"));
    const Pair pair = off_by(error, rows);
    const auto blocks = static_cast<size_t>(fk::blocks_of(pair.want.shape).count);
    const std::vector<double> noise(blocks, moves * model.probe);
    return fk::judge(pair.got, pair.want, model, noise).ok;
  };
  CHECK(passes(128, 0.006, 2.4));
  CHECK_FALSE(passes(128, 0.012, 2.4));
  CHECK(passes(128, 0.012, 4));
  CHECK(passes(8, 0.012, 2.4));  // few
}

TEST_CASE("mean_error_of_a_float32_output_is_not_that_of_16_bits") {
  const auto c = stack(3, 1, 1);
  const auto mixed = in_bf16(c, fk::DType::f32), narrow = in_bf16(c, fk::DType::bf16);
  const auto passes = [](const fk::ResolvedCase& r, const char* field, const fk::Tensor& got,
                         const fk::Tensor& want) {
    return fk::judge(got, want, fk::error_model(r, *r.find(field))).ok;
  };
  const Pair pair = off_by(0.003);
  for (const auto dtype : {fk::DType::bf16, fk::DType::f16}) {
    const fk::Tensor rounded = pair.got.to(dtype).to(fk::DType::f32);
    INFO(fk::name(dtype));
    for (const char* field : {"out", "state"}) {
      CHECK(passes(mixed, field, pair.got, pair.want));
      CHECK_FALSE(passes(mixed, field, rounded, pair.want));
      CHECK(passes(narrow, field, rounded, pair.want));
      // A tenth of it is enough.
      fk::Tensor some = pair.got;
      for (int64_t i = 0; i < some.numel(); i += 10) some.set(i, rounded.at(i));
      CHECK_FALSE(passes(mixed, field, some, pair.want));
      // Values that fit in 16 bits are no sign of them, nor is an error that is the same
      // everywhere.
      CHECK(passes(mixed, field, rounded, rounded));
    }
    // Caches take what was stored in between.
    CHECK(passes(mixed, "cache", rounded, pair.want));
  }
  fk::Tensor same(fk::DType::f32, {128, 256}), near(fk::DType::f32, {128, 256});
  for (int64_t i = 0; i < same.numel(); ++i) same.set(i, 1 + 0x1p-20), near.set(i, 1);
  CHECK(passes(mixed, "out", near, same));
  // Between ranks sums travel in 16 bits.
  const auto ranks = stack(2, 1, 2);
  const auto travelled = in_bf16(ranks, fk::DType::f32);
  CHECK(passes(travelled, "out", off_by(0.001).got.to(fk::DType::bf16).to(fk::DType::f32),
               pair.want));
}
