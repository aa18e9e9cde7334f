// SPDX-License-Identifier: Apache-2.0
// Explanations of wrong answers of a product with a small reference. If these fail, an author is
// told a wrong cause, or none where there is one. test/hints has whole verdicts on wrong plugins.
#include "core/cases/patterns/pattern.hpp"

#include <cmath>
#include <functional>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/cases/comparison.hpp"
#include "test/catch.hpp"

namespace {

fk::Contract shifted_product() {
  return fk::Contract::parse(
      "op: shifted\nrevision: 1\nsummary: x times weight, plus shift, plus bias\n"
      "axes: {T: tokens, H: heads, D: head width, G: groups}\n"
      "init:\n  - {name: heads, type: int, axis: H}\n  - {name: width, type: int, axis: D}\n"
      "  - {name: groups, type: int, axis: G}\n"
      "  - {name: shift, type: float, default: 0.25}\n"
      "  - {name: reach, type: int, default: 3, min: 0}\n"
      "weights:\n  - {name: weight, shape: [G, D], dtype: x}\n"
      "  - {name: gate, shape: [D, D], dtype: x}\n"
      "  - {name: bias, shape: [D], dtype: x, optional: true}\n"
      "forward:\n  - {name: x, role: in, shape: [T, H, D], dtype: float, layout: strided}\n"
      "  - {name: groups_of, role: in, shape: [G, D], dtype: x}\n"
      "  - {name: out, role: out, shape: [T, H, D], dtype: x}\n"
      "tolerance: {numerics: elementwise}\ncases:\n  smoke:\n"
      "    - {T: 6, heads: 4, width: 8, groups: 2, with: [bias]}\n"
      "    - {name: gaps, T: 6, heads: 4, width: 8, groups: 2, with: [bias], strided: {x: 40}}\n",
      "shifted.yaml", 1, "test");
}

struct Shifted {
  double shift = 0.25;
  int64_t reach = 3;
  bool bias = true;
  std::function<int64_t(int64_t)> group = [](int64_t head) { return head / 2; };

  fk::CaseValues operator()(const fk::CaseValues& in) const {
    fk::Tensor out(fk::DType::f32, {6, 4, 8});
    for (int64_t t = 0; t < 6; ++t)
      for (int64_t h = 0; h < 4; ++h)
        for (int64_t d = 0; d < 8; ++d) {
          const int64_t at = (t * 4 + h) * 8 + d;
          double value = in.at("x")[0].at(at) * in.at("weight")[0].at(group(h) * 8 + d) + shift;
          for (int64_t k = 0; k < reach; ++k) value += 0.1 * in.at("gate")[0].at(k * 8 + d);
          if (bias) value += in.at("bias")[0].at(d);
          out.set(at, value);
        }
    fk::CaseValues all;
    all["out"].push_back(std::move(out));
    return all;
  }
};

class Asked {
 public:
  explicit Asked(size_t which = 0)
      : resolved(fk::resolve(contract, contract.cases.at(which), {})),
        inputs(fk::make_inputs(resolved, 3, 1)),
        want(Shifted()(inputs)) {}

  fk::WrongElements told(const fk::CaseValues& got) {
    fk::AskReference ask = [](const fk::CaseValues& in) { return Shifted()(in); };
    ask.with_changes([this](const fk::CallChange& change, const fk::CaseValues& in) {
      ++questions;
      const double until = fk::now_seconds() + seconds;
      while (fk::now_seconds() < until) {
      }
      Shifted other;
      if (change.init.count("shift")) other.shift = std::stod(change.init.at("shift"));
      if (change.init.count("reach")) other.reach = std::stoll(change.init.at("reach"));
      other.bias = change.without.empty();
      return other(in);
    });
    return fk::compare_outputs(resolved, inputs, got, want, fk::kMostElements, ask).wrong;
  }
  template <class Change>
  fk::WrongElements after(const Change& change) {
    fk::CaseValues got = want;
    for (int64_t i = 0; i < 192; ++i)
      got["out"][0].set(i, change(i / 32, i / 8 % 4, i % 8, want.at("out")[0].at(i)));
    return told(got);
  }

  fk::Contract contract = shifted_product();
  fk::ResolvedCase resolved;
  fk::CaseValues inputs, want;
  int questions = 0;
  double seconds = 0;
};

// An op of rows of 64, without a reference: right and wrong answers are computed row by row.
class Rows {
 public:
  explicit Rows(const char* numerics)
      : contract(fk::Contract::parse(
            std::string("op: rows\nrevision: 1\nsummary: rows\n"
                        "axes: {T: tokens, C: row width}\n"
                        "init:\n  - {name: width, type: int, axis: C}\n"
                        "  - {name: eps, type: float}\n"
                        "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
                        "  - {name: out, role: out, shape: [T, C], dtype: x}\n"
                        "tolerance: {numerics: ") +
                numerics + ", length: C}\ncases:\n  smoke:\n    - {T: 6, width: 64, eps: 0.0001}\n",
            "rows.yaml", 1, "test")),
        resolved(fk::resolve(contract, contract.cases.at(0), {})),
        inputs(fk::make_inputs(resolved, 3, 1)) {}

  // Row by row: `row` gives the answer for a row of x.
  template <class Row>
  fk::CaseValues answer(const Row& row) const {
    fk::Tensor out(fk::DType::f32, {6, 64});
    for (int64_t t = 0; t < 6; ++t) {
      std::vector<double> x;
      for (int64_t c = 0; c < 64; ++c) x.push_back(inputs.at("x")[0].at(t * 64 + c));
      row(t, x);
      for (int64_t c = 0; c < 64; ++c) out.set(t * 64 + c, x[static_cast<size_t>(c)]);
    }
    fk::CaseValues all;
    all["out"].push_back(std::move(out));
    return all;
  }
  template <class Right, class Wrong>
  fk::WrongElements told(const Right& right, const Wrong& wrong) const {
    return fk::compare_outputs(resolved, inputs, answer(wrong), answer(right), fk::kMostElements,
                               nullptr)
        .wrong;
  }

  fk::Contract contract;
  fk::ResolvedCase resolved;
  fk::CaseValues inputs;
};

double rounded_to(fk::DType dtype, double v) {
  return fk::Tensor::of(fk::DType::f32, {1}, {v}).to(dtype).to(fk::DType::f32).at(0);
}

}  // namespace

TEST_CASE("patterns name the constructor value or the input that was not read") {
  Asked asked;
  auto wrong = asked.told(Shifted{.shift = 0}(asked.inputs));
  CHECK(wrong.name == "attribute_without_effect");
  CHECK(wrong.pattern == "shift has no effect: the values are right for shift = 0");
  CHECK(wrong.figures.at("shift") == 0.25);
  CHECK(wrong.figures.at("right_for") == 0);
  wrong = asked.told(Shifted{.reach = 4}(asked.inputs));
  CHECK(wrong.name == "attribute_off_by_one");
  CHECK(wrong.pattern ==
        "reach is off by one: the values are right for reach = 4, and this case has 3");
  CHECK(asked.told(Shifted{.reach = 2}(asked.inputs)).name == "attribute_off_by_one");
  CHECK(asked.told(Shifted{.reach = 0}(asked.inputs)).name == "attribute_without_effect");
  wrong = asked.told(Shifted{.bias = false}(asked.inputs));
  CHECK(wrong.name == "input_ignored");
  CHECK(wrong.pattern == "bias is ignored: the values are right without it");
  fk::CaseValues turned = asked.inputs;
  for (int64_t i = 0; i < 64; ++i)
    turned["gate"][0].set(i % 8 * 8 + i / 8, asked.inputs.at("gate")[0].at(i));
  CHECK(asked.told(Shifted()(turned)).name == "input_transposed");
}

TEST_CASE("patterns claim no cause that does not explain all wrong elements") {
  Asked asked;
  // Half of the elements lack the shift.
  const auto half = asked.after(
      [](int64_t t, int64_t, int64_t d, double v) { return (t + d) % 2 ? v - 0.25 : v; });
  CHECK(half.name == "scattered");
  CHECK(half.figures.empty());
  const auto one = asked.after([](int64_t t, int64_t h, int64_t d, double v) {
    return t == 2 && h == 1 && d == 3 ? v + 1 : v;
  });
  CHECK(one.count == 1);
  CHECK(one.name == "axis");
  CHECK(one.pattern == "token 2 of 6, head 1 of 4, head width 3 of 8 are wrong");
  CHECK(asked.questions > 0);
}

TEST_CASE("questions about a cause end with their time") {
  Asked asked;
  asked.seconds = 0.3;
  const auto wrong = asked.told(Shifted{.bias = false}(asked.inputs));
  CHECK(asked.questions == 1);  // the second one would end after half a second
  CHECK(wrong.name != "input_ignored");
}

TEST_CASE("patterns know axes, heads and tails by their names") {
  Asked asked;
  auto wrong = asked.told(Shifted{.group = [](int64_t h) { return h % 2; }}(asked.inputs));
  CHECK(wrong.name == "head_group");
  CHECK(wrong.pattern == "heads 1 and 2 of 4 are wrong");
  CHECK_THAT(wrong.next, ContainsSubstring("reads index h / 2 of the groups"));
  CHECK_THAT(wrong.next, ContainsSubstring("which h % 2 is another index"));
  REQUIRE(wrong.axes.size() == 3);
  CHECK(wrong.axes[1].axis == "H");
  CHECK(wrong.axes[1].meaning == "heads");
  CHECK(wrong.axes[1].size == 4);
  CHECK(wrong.axes[1].wrong == 2);
  CHECK(wrong.axes[1].indices == "1 and 2");
  CHECK(wrong.axes[0].indices == "all");
  wrong = asked.told(Shifted{.group = [](int64_t) { return int64_t{0}; }}(asked.inputs));
  CHECK(wrong.name == "head_group");
  CHECK_THAT(wrong.next, ContainsSubstring("for which 0 is another index"));
  wrong = asked.after([](int64_t t, int64_t, int64_t, double v) { return t >= 4 ? v * v + 1 : v; });
  CHECK(wrong.name == "tail");
  CHECK(wrong.pattern == "tokens 4 and 5 of 6 are wrong");
  wrong = asked.after([](int64_t, int64_t h, int64_t, double v) { return h == 0 ? v * v + 1 : v; });
  CHECK(wrong.name == "axis");
  CHECK(wrong.pattern == "head 0 of 4 is wrong");
}

TEST_CASE("patterns name strides only where rows have gaps") {
  const auto later_rows = [](int64_t t, int64_t, int64_t, double v) { return t ? v * v + 1 : v; };
  Asked dense, gaps(1);
  CHECK(dense.after(later_rows).name != "strided");
  const auto wrong = gaps.after(later_rows);
  CHECK(wrong.name == "strided");
  CHECK(wrong.pattern == "rows of x are 32 elements long and 40 apart, and row 0 alone is right");
  CHECK(wrong.figures.at("step") == 40);
  CHECK(gaps.after([](int64_t, int64_t, int64_t, double v) { return v * v + 1; }).name !=
        "strided");
}

TEST_CASE("patterns name a factor, a copy and a lower precision") {
  Asked asked;
  auto wrong = asked.after([](int64_t, int64_t, int64_t, double v) { return 1.0005 * v; });
  CHECK(wrong.name == "factor");
  CHECK(wrong.pattern == "every element is 1.0005 times too large");
  CHECK(wrong.figures.at("factor") == Approx(1.0005).epsilon(1e-6));
  wrong = asked.after([](int64_t, int64_t, int64_t, double v) { return 6.0 / 5 * v; });
  CHECK_THAT(wrong.next, ContainsSubstring("1.2 is T / (T - 1) with T = 6 (tokens)"));
  fk::CaseValues copy;
  copy["out"].push_back(asked.inputs.at("x")[0]);
  wrong = asked.told(copy);
  CHECK(wrong.name == "copy_of_input");
  CHECK(wrong.pattern == "out is a copy of x");
  wrong = asked.after(
      [&](int64_t, int64_t, int64_t, double v) { return rounded_to(fk::DType::bf16, v); });
  CHECK(wrong.name == "rounded_output");
  wrong = asked.after([&](int64_t, int64_t, int64_t, double v) {
    return 0.7 * rounded_to(fk::DType::bf16, v / 0.7);
  });
  CHECK(wrong.name == "rounded_between");
  CHECK_THAT(wrong.pattern, ContainsSubstring("one rounding to bf16"));
  wrong = asked.after([&](int64_t, int64_t, int64_t, double v) {
    return 0.7 * rounded_to(fk::DType::f16, v / 0.7);
  });
  CHECK_THAT(wrong.pattern, ContainsSubstring("one rounding to f16 or tf32"));
}

TEST_CASE("patterns name an input in another order, and a scale that is computed") {
  const fk::Contract contract = fk::Contract::parse(
      "op: gated\nrevision: 1\nsummary: a product, gated and scaled\n"
      "axes: {T: tokens, D: width, K: inputs}\n"
      "init:\n  - {name: width, type: int, axis: D}\n  - {name: inputs, type: int, axis: K}\n"
      "  - {name: scale, type: float}\n"
      "weights:\n  - {name: weight, shape: [D, K], dtype: x}\n"
      "forward:\n  - {name: x, role: in, shape: [T, K], dtype: float}\n"
      "  - {name: pair, role: in, shape: [T, 2*D], dtype: x}\n"
      "  - {name: out, role: out, shape: [T, D], dtype: x}\n"
      "tolerance: {numerics: elementwise}\ncases:\n  smoke:\n"
      "    - {T: 5, width: 8, inputs: 6, scale: 0.3}\n",
      "gated.yaml", 1, "test");
  const fk::ResolvedCase resolved = fk::resolve(contract, contract.cases.at(0), {});
  const fk::CaseValues inputs = fk::make_inputs(resolved, 3, 1);
  struct Mistake {
    double scale = 0.3;
    bool turned = false, swapped = false, neighbours = false;
  };
  const auto answer = [](const fk::CaseValues& in, const Mistake& as) {
    fk::Tensor out(fk::DType::f32, {5, 8});
    for (int64_t t = 0; t < 5; ++t)
      for (int64_t d = 0; d < 8; ++d) {
        double sum = 0;
        for (int64_t k = 0; k < 6; ++k)
          sum += in.at("x")[0].at(t * 6 + k) *
                 in.at("weight")[0].at(as.turned ? k * 8 + d : d * 6 + k);
        int64_t gate = as.neighbours ? 2 * d : d, up = as.neighbours ? 2 * d + 1 : d + 8;
        if (as.swapped) std::swap(gate, up);
        const double g = in.at("pair")[0].at(t * 16 + gate), u = in.at("pair")[0].at(t * 16 + up);
        out.set(t * 8 + d, as.scale * sum + g * g * u);
      }
    fk::CaseValues all;
    all["out"].push_back(std::move(out));
    return all;
  };
  const auto told = [&](const Mistake& mistake) {
    fk::AskReference ask = [&](const fk::CaseValues& in) { return answer(in, {}); };
    ask.with_changes([&](const fk::CallChange& change, const fk::CaseValues& in) {
      Mistake right;
      if (change.init.count("scale")) right.scale = std::stod(change.init.at("scale"));
      return answer(in, right);
    });
    return fk::compare_outputs(resolved, inputs, answer(inputs, mistake), answer(inputs, {}),
                               fk::kMostElements, ask)
        .wrong;
  };
  auto wrong = told({.turned = true});
  CHECK(wrong.name == "input_transposed");
  CHECK(wrong.pattern ==
        "weight is read transposed: the values are right for its elements as [K, D]");
  wrong = told({.swapped = true});
  CHECK(wrong.name == "input_halves");
  CHECK(wrong.pattern ==
        "the halves of pair are exchanged: the values are right for the other order");
  wrong = told({.neighbours = true});
  CHECK(wrong.name == "input_halves");
  CHECK_THAT(wrong.next, ContainsSubstring("belongs to element i + 8 (half a row)"));
  wrong = told({.scale = 1 / std::sqrt(8.0)});
  CHECK(wrong.name == "attribute_other_value");
  CHECK(wrong.pattern ==
        "scale is not read: the values are right for scale = 1 / sqrt(width), and this case has "
        "0.3");
  wrong = told({.scale = 1});
  CHECK(wrong.name == "attribute_without_effect");
}

TEST_CASE("rows that still hold their input are named") {
  const fk::Contract contract = fk::Contract::parse(
      "op: doubled\nrevision: 1\nsummary: x doubled in place\naxes: {T: tokens, D: width}\n"
      "init:\n  - {name: width, type: int, axis: D}\n"
      "forward:\n  - {name: x, role: inout, shape: [T, D], dtype: float}\n"
      "tolerance: {numerics: elementwise}\ncases:\n  smoke:\n    - {T: 5, width: 8}\n",
      "doubled.yaml", 1, "test");
  const fk::ResolvedCase resolved = fk::resolve(contract, contract.cases.at(0), {});
  const fk::CaseValues inputs = fk::make_inputs(resolved, 3, 1);
  const auto doubled = [&](int64_t rows) {
    fk::CaseValues out = inputs;
    for (int64_t i = 0; i < rows * 8; ++i) out["x"][0].set(i, 2 * inputs.at("x")[0].at(i));
    return out;
  };
  const auto told = [&](int64_t rows) {
    return fk::compare_outputs(resolved, inputs, doubled(rows), doubled(5), fk::kMostElements,
                               nullptr)
        .wrong;
  };
  CHECK(told(0).pattern == "x still holds its input");
  const auto last = told(4);
  CHECK(last.name == "holds_its_input");
  CHECK(last.pattern == "x still holds its input in row 4 of 5");
  CHECK_THAT(last.next, ContainsSubstring("These rows were not computed."));
  CHECK(told(2).pattern == "x still holds its input in rows from 2 on of 5");
}

TEST_CASE("a sum in a lower precision is named for errors of its size alone") {
  const Rows rows("reduction");
  const auto product = [](int64_t, std::vector<double>& x) {  // each column: a sum of 64 terms
    std::vector<double> out;
    for (size_t c = 0; c < 64; ++c) {
      double sum = 0;
      for (size_t k = 0; k < 64; ++k) sum += x[k] * x[(k + c) % 64] * (k % 3 ? 1 : -1);
      out.push_back(sum);
    }
    x = out;
  };
  const auto low = [](int64_t, std::vector<double>& x) {
    std::vector<double> out;
    for (size_t c = 0; c < 64; ++c) {
      double sum = 0;
      for (size_t k = 0; k < 64; ++k)
        sum = rounded_to(fk::DType::bf16, sum + x[k] * x[(k + c) % 64] * (k % 3 ? 1 : -1));
      out.push_back(sum);
    }
    x = out;
  };
  CHECK(rows.told(product, low).name == "sum_in_low_precision");
  const auto norm = [](const std::vector<double>& x, double mean) {
    double squares = 0;
    for (const double v : x) squares += (v - mean) * (v - mean);
    return 1 / std::sqrt(squares / 64 + 1e-4);
  };
  const auto rms = [&](int64_t, std::vector<double>& x) {
    const double scale = norm(x, 0);
    for (double& v : x) v *= scale;
  };
  // The mean is subtracted: an error of a seventh of the values, as of 30 roundings to bfloat16.
  const auto layer = [&](int64_t, std::vector<double>& x) {
    double mean = 0;
    for (const double v : x) mean += v / 64;
    const double scale = norm(x, mean);
    for (double& v : x) v = (v - mean) * scale;
  };
  CHECK(rows.told(rms, layer).name != "sum_in_low_precision");
}

TEST_CASE("a factor is named by what has its value") {
  const Rows rows("elementwise");
  const auto right = [](int64_t, std::vector<double>&) {};
  const auto next = [&](double factor) {
    const auto wrong = rows.told(right, [&](int64_t, std::vector<double>& x) {
      for (double& v : x) v *= factor;
    });
    CHECK(wrong.name == "factor");
    return wrong.next;
  };
  CHECK_THAT(next(0.0099995), ContainsSubstring("0.0099995 is sqrt(eps) with eps = 0.0001."));
  CHECK_THAT(next(100.001), ContainsSubstring("100 is 1 / (sqrt(eps)) with eps = 0.0001."));
  CHECK_THAT(next(0.015625), ContainsSubstring("0.015625 is 1 / C with C = 64 (row width)."));
  CHECK_THAT(next(64. / 63), ContainsSubstring("C / (C - 1)"));
  CHECK_THAT(next(0.0095), !ContainsSubstring(" with "));
  const auto near_one = rows.told(right, [&](int64_t, std::vector<double>& x) {
    for (double& v : x) v *= 0.999993;
  });
  CHECK(near_one.pattern == "every element is 0.999993 times the right value");
}

TEST_CASE("no number has its cause in what was wanted there") {
  const Rows rows("softmax");
  const auto right = [](int64_t t, std::vector<double>& x) {
    for (double& v : x) v = t < 2 ? 0 : v + 3;
  };
  const auto empty = rows.told(right, [&](int64_t t, std::vector<double>& x) {
    for (double& v : x) v = t < 2 ? NAN : v + 3;
  });
  CHECK(empty.name == "row_without_keys");
  CHECK_THAT(empty.pattern, ContainsSubstring("a row without visible keys must give 0"));
  const auto large = rows.told(right, [&](int64_t t, std::vector<double>& x) {
    for (double& v : x) v = t < 2 ? 0 : t == 4 ? NAN : v + 3;
  });
  CHECK(large.name == "softmax_without_maximum");
}

TEST_CASE("the kinds of patterns have names of their own, and a row each in docs/verdict.md") {
  const std::string page = fk::read_file(fk::paths::home() / "docs/verdict.md");
  const auto kinds = fk::pattern_kinds();
  CHECK(kinds.size() > 30);
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (i > 0) CHECK(std::string(kinds[i - 1].name) < kinds[i].name);
    CHECK_THAT(page, ContainsSubstring("| `" + std::string(kinds[i].name) + "` | " +
                                       kinds[i].example + " |"));
  }
}
