// SPDX-License-Identifier: Apache-2.0
// Kernels which quantise. Two honest ones are right: one divides by the scale, the other multiplies
// with its reciprocal. Each wrong one has one fault: a step, a scale, a cut or a wrap.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/cases/numerics/codes.hpp"
#include "core/cases/comparison.hpp"
#include "test/catch.hpp"
#include "test/numerics/reference.hpp"

namespace {

// A float32 kernel of a quantising op, with switches for its faults.
struct CodeKernel {
  float largest = 448;
  bool reciprocal = false, one_scale = false, truncates = false, wraps = false;
  int steps = 0;  // by which each code is off
};

// The next code of f8e4m3 or int8, away from zero.
double next_code(double code, fk::DType dtype) {
  if (dtype == fk::DType::i8) return code + (code < 0 ? -1 : 1);
  const double size = std::abs(code);
  const double step = std::max(std::exp2(-9), std::exp2(std::floor(std::log2(size)) - 3));
  return std::copysign(size + step, code);
}

double truncated(double value, fk::DType dtype) {
  if (dtype == fk::DType::i8) return std::trunc(value);
  const double step =
      std::max(std::exp2(-9), std::exp2(std::floor(std::log2(std::abs(value))) - 3));
  return std::trunc(value / step) * step;
}

// Rows of one group each, or one group of all rows.
fk::CaseValues answer(const CodeKernel& k, const fk::ResolvedCase& r, const fk::CaseValues& in) {
  const fk::Tensor& x = in.at("x")[0];
  const fk::CaseField *out = r.find("out"), *scales = r.find("scale_out");
  fk::Tensor codes(out->dtype, out->shape), scale(fk::DType::f32, scales->shape);
  const int64_t width = x.shape[1], groups = scales->shape[0], rows = groups > 1 ? 1 : x.shape[0];
  const auto top_of = [&](int64_t first, int64_t count) {
    float top = 0;
    for (int64_t i = first; i < first + count; ++i)
      top = std::max(top, static_cast<float>(std::abs(x.at(i))));
    return top;
  };
  for (int64_t g = 0; g < groups; ++g) {
    const float top = k.one_scale ? top_of(0, x.numel()) : top_of(g * rows * width, rows * width);
    float s = k.reciprocal ? top * (1 / k.largest) : top / k.largest;
    if (in.count("scale")) s = static_cast<float>(in.at("scale")[0].at(g));
    scale.set(g, s);
    for (int64_t i = g * rows * width; i < (g + 1) * rows * width; ++i) {
      const auto v = static_cast<float>(x.at(i));
      double code = k.reciprocal ? v * (1 / s) : v / s;
      if (k.truncates) code = truncated(code, out->dtype);
      codes.set(i, code);
      for (int step = 0; step < k.steps; ++step) codes.set(i, next_code(codes.at(i), out->dtype));
      // A cast of a code beyond the range: NaN in f8e4m3, the low bits in int8.
      if (k.wraps && std::abs(code) > k.largest + 1)
        codes.set(i, out->dtype == fk::DType::i8
                         ? static_cast<int8_t>(static_cast<int64_t>(std::nearbyint(code)) & 255)
                         : std::nan(""));
    }
  }
  fk::CaseValues all;
  all["out"].push_back(codes);
  all["scale_out"].push_back(scale);
  return all;
}

}  // namespace

TEST_CASE("codes_one_step_off_are_right_at_a_boundary_alone") {
  const Reference here;
  struct Named {
    const char* name;
    bool right;
    std::function<void(CodeKernel&)> change;
  };
  const std::vector<Named> kernels = {
      {"divides", true, [](CodeKernel&) {}},
      {"multiplies with the reciprocal", true, [](CodeKernel& k) { k.reciprocal = true; }},
      {"one step off", false, [](CodeKernel& k) { k.steps = 1; }},
      {"one scale for all tokens", false, [](CodeKernel& k) { k.one_scale = true; }},
      {"truncates", false, [](CodeKernel& k) { k.truncates = true; }},
      {"does not saturate", false, [](CodeKernel& k) { k.wraps = true; }},
  };
  for (const std::string op : {"quantize_fp8", "quantize_int8"}) {
    const fk::Contract& contract = here.catalog.at(op);
    const fk::Oracles oracles = fk::Oracles::of(here.plugins, op);
    REQUIRE(oracles.cpu);
    int judged = 0;
    for (const fk::Case& source : contract.cases) {
      const bool token = source.name.starts_with("token");
      const bool fixed = source.name.starts_with("static");
      if ((source.size != "smoke" && source.size != "ci") || (!token && !fixed)) continue;
      for (uint64_t seed = 1; seed <= 8; ++seed) {
        const fk::ResolvedCase resolved = fk::resolve(contract, source, {});
        const fk::CaseValues inputs = fk::make_inputs(resolved, seed, 2);
        std::string why;
        const auto ask = [&](const fk::CaseValues& values) {
          return fk::reference_outputs(*oracles.cpu, resolved, source, {}, values, here.options,
                                       why);
        };
        const fk::CaseValues want = ask(inputs);
        REQUIRE(why.empty());
        for (const Named& named : kernels) {
          CodeKernel kernel;
          kernel.largest = op == "quantize_fp8" ? 448 : 127;
          named.change(kernel);
          if ((kernel.one_scale && !token) || (kernel.wraps && !fixed)) continue;
          const fk::CaseValues got = answer(kernel, resolved, inputs);
          const fk::Comparison seen =
              fk::compare_outputs(resolved, inputs, got, want, 1 << 22, ask);
          INFO(op << ", case " << source.name << ", seed " << seed << ", " << named.name << ": "
                  << seen.text);
          CHECK(seen.ok == named.right);
          ++judged;
        }
      }
    }
    CHECK(judged >= 100);
  }
}

TEST_CASE("packed_codes_are_rounded_to_nearest_even") {
  // e2m1 has 0, 0.5, 1, 1.5, 2, 3, 4 and 6. A wrong rule for ties makes another byte.
  fk::Tensor values(fk::DType::f32, {1, 8});
  const double all[] = {0.25, 0.75, 1.25, -1.75, 2.5, 3.5, -5, 9};
  for (int64_t i = 0; i < 8; ++i) values.set(i, all[i]);
  const fk::Tensor codes = fk::codes_of(values, fk::DType::u8);
  REQUIRE(codes.shape == fk::Shape{1, 4});
  CHECK(codes.at(0) == 0x20);
  CHECK(codes.at(1) == 0xc2);
  CHECK(codes.at(2) == 0x64);
  CHECK(codes.at(3) == 0x7e);
}
