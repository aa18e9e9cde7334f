// SPDX-License-Identifier: Apache-2.0
#include "core/contract/show.hpp"

#include <fmt/format.h>

#include "core/base/text.hpp"
#include "core/contract/header.hpp"

namespace fk {

namespace {

std::string numerics_words(const Tolerance& t) {
  if (t.numerics == "exact") return "outputs must be equal bit for bit";
  if (t.numerics == "selection")
    return "indices must be those of the exact values (ties to the lowest); floats within rounding";
  const std::string sum = t.length == Expr(1) ? "" : ", over sums of " + t.length.text() + " terms";
  return "error model `" + t.numerics + "`" + sum +
         ": a few roundings of the output's dtype plus the accumulation in float32; "
         "no share of elements may be wrong";
}

std::string case_line(const Case& c) {
  std::vector<std::string> parts;
  for (const auto& [axis, value] : c.axes) parts.push_back(axis + "=" + std::to_string(value));
  for (const auto& [name, value] : c.init) parts.push_back(name + "=" + value);
  if (!c.with.empty()) parts.push_back("with " + join(c.with, "+"));
  for (const auto& [field, type] : c.dtypes) parts.push_back(field + ":" + std::string(name(type)));
  if (!c.strided.empty()) parts.push_back("strided " + join(c.strided, "+"));
  if (!c.from.empty()) parts.push_back("(" + c.from + ")");
  return "  " + c.name + ": " + join(parts, " ") + "\n";
}

}  // namespace

std::string contract_page(const Contract& c) {
  std::string out = fmt::format("# {} (level {}, family {}, revision {})\n\n{}\n\n", c.op, c.level,
                                c.family, c.revision, c.summary);
  if (!c.aliases.empty()) out += "Also known as " + join(c.aliases, ", ") + ".\n\n";
  out += "Axes: ";
  std::vector<std::string> axes;
  for (const auto& [letter, meaning] : c.axes) axes.push_back(letter + " " + meaning);
  out += join(axes, ", ") + ".\n\n";
  for (const auto& m : c.mirrors) {
    out += "Mirrors " + m.name + ":\n";
    for (const auto& [argument, target] : m.arguments)
      out += fmt::format("  {} -> {}\n", argument, target);
  }
  out += fmt::format("\n## fk/ops/{}.h\n\n```c\n{}```\n\n", c.op, struct_part(c));
  out +=
      "## Rules\n\n"
      "- Optional fields have `.or_null`; the others are never null. Fields are dense and "
      "row-major unless the\n"
      "  header says strides. Outputs overlap no other field; in place is one inout field. Axes "
      "may be 0.\n"
      "- supports() refuses what you do not take (dtype, size) with a sentence; sizes of scratch, "
      "packed and persistent\n"
      "  memory are asked for there. forward() only enqueues: no allocation, no synchronisation, "
      "no global state.\n"
      "- Inputs, weights and frames are never written; inout fields only within their footprint.\n";
  out += "- Correct: " + numerics_words(c.tolerance) + ".\n";
  out += fmt::format("- Cost: {} flops", c.flops.text());
  out += c.bytes ? fmt::format(", {} bytes.\n\n", c.bytes->text())
                 : ", every tensor read or written once.\n\n";
  out += "## Cases\n\n";
  for (const auto& one : c.cases) out += case_line(one);
  out += fmt::format(
      "\n## Write one\n\n"
      "  fk-host new {0} --name mine   # scaffold candidates/mine\n"
      "  fk-host build mine   # compile it with the mandatory flags\n"
      "  fk-host check mine   # conformance and correctness\n"
      "  fk-host bench {0}   # time against every provider\n",
      c.op);
  return out;
}

}  // namespace fk
