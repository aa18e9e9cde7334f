// SPDX-License-Identifier: Apache-2.0
// Writes a contract as a page for authors (show.hpp).
#include "core/contract/show.hpp"

#include <fmt/format.h>

#include <map>

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
         "no share of elements may be wrong" +
         (t.rounded.empty() ? ""
                            : "; `" + t.rounded + "` may be rounded to the inputs' dtype first");
}

std::string case_line(const Case& c) {
  return "  " + c.size + " " + c.name + ": " + sizes_text(c) +
         (c.from.empty() ? "" : " (" + c.from + ")") + "\n";
}

// Range cases are left out, because a page has to fit into a prompt.
std::string case_lines(const Contract& c, size_t cases_max) {
  std::string out;
  for (const std::string size : {"smoke", "ci", "full"}) {
    const size_t most = size == "full" ? 2 * cases_max : cases_max;
    size_t found = 0;
    for (const auto& one : c.cases)
      if (one.size == size && ++found <= most) out += case_line(one);
    if (found > most) out += fmt::format("  and {} more of size {}\n", found - most, size);
  }
  return out;
}

// The class for the author to write, with the functions that this op calls.
std::string skeleton(const Contract& c) {
  std::string out = fmt::format(
      "```cpp\n#include \"fk/ops/{0}.h\"\nstruct Mine {{\n"
      "  using op = fk::{0};\n"
      "  static constexpr fk_claims claims = fk::cpu_claims;  // device, graphs, determinism: "
      "fk/op.h\n"
      "  static void supports(const op::init&, const op::weights&, const op::forward& max, "
      "fk_need&);\n"
      "  Mine(const fk_host&, const op::init&, const op::weights&);  // both stay valid\n"
      "  void prepare(const op::forward& max, const fk_memory&);     // repack, autotune, load\n",
      c.op);
  if (!c.section(SectionId::plan).empty())
    out +=
        "  int64_t plan(const op::plan&, void* blob, int64_t room);    // optional, on the host, "
        "once per step\n";
  out += fmt::format(
      "  void forward(const op::forward&, const fk_ctx&);            // enqueues on ctx.stream\n"
      "}};\nFK_OP({0}, Mine);\nFK_PLUGIN(\"mine\", \"0.1.0\");\n```\n",
      c.op);
  if (c.level > 1)
    out +=
        "Lower ops may be run through the host, with whichever provider was chosen for them: "
        "host.child(), child_forward().\n";
  return out;
}

std::string mirror_lines(const Contract& c) {
  std::string out;
  for (const auto& m : c.mirrors) {
    out += "Mirrors " + m.name + ":\n";
    std::map<std::string, std::string> dropped;  // arguments by reason
    for (const auto& [argument, target] : m.arguments) {
      if (starts_with(target, "dropped: ")) {
        auto& names = dropped[target.substr(9)];
        names += (names.empty() ? "" : ", ") + argument;
      } else {
        out += fmt::format("  {} -> {}\n", argument, target);
      }
    }
    for (const auto& [why, names] : dropped) out += fmt::format("  without {}: {}\n", names, why);
  }
  return out;
}

// Fields whose inputs in the cases differ from normal values with mean 0 and deviation 1.
std::string inputs(const Contract& c) {
  std::vector<std::string> parts;
  for (const SectionId id : {SectionId::weights, SectionId::forward})
    for (const auto& slot : c.section(id))
      if (!slot.values.empty()) parts.push_back(slot.name + " " + slot.values);
  return parts.empty() ? "" : "  values: " + join(parts, ", ") + "; else normal(0,1)\n";
}

// The class for the author to write, and the verbs.
std::string command_lines(const Contract& c) {
  std::string out = "\n## Write one\n\n" + skeleton(c) + "\n";
  const auto add = [&](const std::string& command, const char* about) {
    out += fmt::format("  {:<44} # {}\n", "fk-host " + command, about);
  };
  add("new " + c.op + " --name mine", "scaffold candidates/mine");
  add("build mine", "compile it with the mandatory flags");
  add("check mine", "conformance and correctness");
  add("bench mine", "the verdict: right, and how fast beside the best baseline");
  add("bench " + c.op, "time against every provider");
  add("run llama3.1 --candidate mine", "in place in a whole model");
  return out;
}

}  // namespace

std::string sizes_text(const Case& c) {
  std::vector<std::string> parts;
  for (const auto& [axis, value] : c.axes) parts.push_back(axis + "=" + std::to_string(value));
  for (const auto& [name, value] : c.init) parts.push_back(name + "=" + value);
  if (!c.with.empty()) parts.push_back("with " + join(c.with, "+"));
  for (const auto& [field, type] : c.dtypes) parts.push_back(field + ":" + std::string(name(type)));
  std::vector<std::string> strided;
  for (const auto& [field, step] : c.strided)
    strided.push_back(field + (step ? ":" + std::to_string(step) : ""));
  if (!strided.empty()) parts.push_back("strided " + join(strided, "+"));
  return join(parts, " ");
}

std::string contract_page(const Contract& c, const PageParts& parts) {
  std::string out = fmt::format("# {} (level {}, family {}, revision {})\n\n{}\n\n", c.op, c.level,
                                c.family, c.revision, c.summary);
  if (!c.aliases.empty()) out += "Also known as " + join(c.aliases, ", ") + ".\n\n";
  out += "Axes: ";
  std::vector<std::string> axes;
  for (const auto& [letter, meaning] : c.axes) axes.push_back(letter + " " + meaning);
  out += join(axes, ", ") + ".\n\n";
  if (parts.mirrors) out += mirror_lines(c);
  out += fmt::format("\n## fk/ops/{}.h\n\n```c\n{}```\n\n", c.op, struct_part(c));
  out +=
      "## Rules\n\n"
      "- Optional fields have `.or_null`; the others are never null. A tensor is `->data`, "
      "`->shape[i]` and\n"
      "  `->strides[i]` (in elements), dense and row-major unless the header says strides. "
      "Outputs\n"
      "  overlap no other field; in place is one inout field. Axes may be 0.\n"
      "- supports() sees shapes at their maxima and null data; it refuses what you do not take "
      "(dtype, size) with\n"
      "  `throw fk::unsupported{\"why\"}` and asks for memory: need.scratch (lent per call), "
      "packed "
      "(repacked weights),\n"
      "  persistent, plan. forward() only enqueues: no allocation, no synchronisation, no global "
      "state.\n"
      "- Inputs, weights and frames are never written; inout fields only within their footprint.\n";
  out += "- Correct: " + numerics_words(c.tolerance) + ".\n";
  out += fmt::format("- Cost: {} flops", c.flops.text());
  out +=
      c.bytes ? fmt::format(", {} bytes", c.bytes->text()) : ", every tensor read or written once";
  if (c.wire)
    out += fmt::format(", {} bytes between a rank and the others at least", c.wire->text());
  out += ".\n\n";
  out += "## Cases\n\n";
  out += case_lines(c, parts.cases);
  if (parts.mirrors) out += inputs(c);
  return parts.commands ? out + command_lines(c) : out;
}

}  // namespace fk
