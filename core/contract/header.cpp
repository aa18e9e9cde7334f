// SPDX-License-Identifier: Apache-2.0
// Writes the C header of an op. It has three parts: the structs for authors, the identity, and the
// registration macros for C (typed functions by name) and C++ (a class). A source sees appended
// slots only if it names their edition. So a recompiled old source never claims unknown slots.
#include "core/contract/header.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/base/text.hpp"

namespace fk {

std::string field_type(const Slot& slot) {
  static constexpr const char* kRoles[] = {"in", "out", "inout"};
  const std::string role = kRoles[static_cast<int>(slot.role)];
  switch (slot.kind) {
    case SlotKind::number:
      return "double ";
    case SlotKind::ints:
      return "const fk_ints *";
    case SlotKind::comm:
      return "const fk_comm *";
    case SlotKind::tensor:
      break;
    default:
      return "int64_t ";
  }
  if (!slot.list.empty())
    return slot.optional ? "fk_opt_" + role + "_list " : "const fk_" + role + "_list *";
  if (slot.section == SectionId::plan) return "const fk_host_in *";
  return slot.optional ? "fk_opt_" + role + " " : "const fk_" + role + " *";
}

std::string field_comment(const Contract& c, const Slot& slot) {
  std::vector<std::string> parts;
  if (slot.is_tensor()) {
    std::vector<std::string> dims, types;
    for (const auto& d : slot.shape) dims.push_back(d.text());
    for (const DType t : slot.dtypes) types.emplace_back(name(t));
    parts.push_back("[" + join(dims, ", ") + "] " +
                    (slot.dtype_of.empty() ? join(types, "|") : "dtype of " + slot.dtype_of));
    if (slot.strided) parts.push_back("any strides, last axis dense");
    if (!slot.writes.empty()) parts.push_back("writes only " + slot.writes);
    if (!slot.count.empty()) {
      parts.push_back(slot.shape[c.count_axes(slot)].text() +
                      " is a capacity; the true number goes to " + slot.count +
                      ", also when it is larger" + (slot.any_order ? "; rows in any order" : ""));
    }
    if (!slot.mirror.empty()) parts.push_back("host copy of forward's " + slot.mirror);
  }
  if (!slot.list.empty()) parts.push_back("one per " + slot.list);
  if (!slot.axis.empty()) {
    const bool elements = slot.kind == SlotKind::ints && slot.list.empty();
    parts.push_back((elements ? "elements " : "axis ") + slot.axis);
  }
  if (slot.kind == SlotKind::boolean) parts.push_back("0 or 1");
  if (slot.kind == SlotKind::choice) {
    parts.push_back("FK_" + upper(c.op) + "_" + upper(slot.name) + "_{" +
                    upper(join(slot.choices, ",")) + "}");
  }
  if (slot.capture)
    parts.push_back("upper bound, constant for a captured graph; the true value is on the device");
  if (slot.has_default) {
    parts.push_back("default " + (slot.kind == SlotKind::number
                                      ? fmt::format("{:g}", slot.default_value.f)
                                  : slot.kind == SlotKind::choice
                                      ? slot.choices[static_cast<size_t>(slot.default_value.i)]
                                      : std::to_string(slot.default_value.i)));
  }
  if (!slot.meaning.empty()) parts.push_back(slot.meaning);
  if (!slot.group.empty()) parts.push_back("group " + slot.group + ": all or none");
  return join(parts, "; ");
}

namespace {

// "FK_X_EDITION < 2 ? 3 : 4": number of slots visible to a source of each edition.
std::string count_text(const Contract& c, SectionId id) {
  const auto visible = [&](int edition) {
    return std::count_if(c.section(id).begin(), c.section(id).end(),
                         [&](const Slot& s) { return s.since <= edition; });
  };
  std::string text = std::to_string(visible(c.editions));
  for (int e = c.editions - 1; e >= 1; --e) {
    if (visible(e) != visible(e + 1))
      text = fmt::format("FK_{}_EDITION < {} ? {} : {}", upper(c.op), e + 1, visible(e), text);
  }
  return text;
}

// Half of the hash over the slots visible to a source of each edition: bits [shift, shift + 32).
std::string hash_text(const Contract& c, SectionId id, int shift) {
  const auto& prefix = c.prefix[static_cast<size_t>(id)];
  const auto half = [&](int edition) {
    const auto visible = std::count_if(c.section(id).begin(), c.section(id).end(),
                                       [&](const Slot& s) { return s.since <= edition; });
    return fmt::format("0x{:08x}u", prefix[static_cast<size_t>(visible)] >> shift & 0xffffffffu);
  };
  std::string text = half(c.editions);
  for (int e = c.editions - 1; e >= 1; --e) {
    if (half(e) != half(e + 1))
      text = fmt::format("FK_{}_EDITION < {} ? {} : {}", upper(c.op), e + 1, half(e), text);
  }
  return text;
}

// True when no slot of the section was there in the first edition.
bool begins_later(const std::vector<Slot>& slots) {
  return std::ranges::all_of(slots, [](const Slot& slot) { return slot.since > 1; });
}

void write_structs(const Contract& c, std::string& out) {
  for (const auto& section : c.sections) {
    for (const auto& slot : section) {
      if (slot.choices.empty()) continue;
      std::vector<std::string> values;
      for (size_t i = 0; i < slot.choices.size(); ++i) {
        values.push_back(fmt::format("FK_{}_{}_{} = {}", upper(c.op), upper(slot.name),
                                     upper(slot.choices[i]), i));
      }
      out += "enum { " + join(values, ", ") + " };\n";
    }
  }
  for (int i = 0; i < kSections; ++i) {
    const auto id = static_cast<SectionId>(i);
    const std::string type = fmt::format("fk_{}_{}", c.op, section_name(id));
    if (c.section(id).empty()) {
      out += fmt::format("typedef struct {0} {0}; /* no slots in this revision */\n", type);
      continue;
    }
    out += fmt::format("typedef struct {} {{\n", type);
    // C has no struct without a member.
    if (begins_later(c.section(id)))
      out += fmt::format("#if FK_{}_EDITION < {}\n  uint64_t no_slots_in_this_edition;\n#endif\n",
                         upper(c.op), c.section(id).front().since);
    for (const auto& slot : c.section(id)) {
      if (slot.since > 1) out += fmt::format("#if FK_{}_EDITION >= {}\n", upper(c.op), slot.since);
      const std::string field = "  " + field_type(slot) + slot.name + ";",
                        about = field_comment(c, slot);
      out += about.empty() ? field + "\n" : fmt::format("{:<34} /* {} */\n", field, about);
      if (slot.since > 1) out += "#endif\n";
    }
    out += fmt::format("}} {};\n", type);
  }
}

void write_axes(const Contract& c, std::string& out) {
  std::vector<std::string> letters, values;
  std::set<std::string> seen;
  for (const auto& slot : c.section(SectionId::forward)) {
    if (!slot.is_tensor() || slot.optional || !slot.list.empty() || slot.since > 1) continue;
    for (size_t d = 0; d < slot.shape.size(); ++d) {
      if (!slot.shape[d].is_symbol() || !seen.insert(slot.shape[d].text()).second) continue;
      letters.push_back(slot.shape[d].text());
      values.push_back(fmt::format("args->{}->shape[{}]", slot.name, d));
    }
  }
  if (letters.empty()) return;
  out += fmt::format(
      "/* The axes that can be read off forward's required tensors. */\n"
      "typedef struct fk_{0}_axes {{\n  int64_t {1};\n}} fk_{0}_axes;\n"
      "static inline fk_{0}_axes fk_{0}_axes_of(const fk_{0}_forward *args) {{\n"
      "  fk_{0}_axes axes = {{{2}}};\n  return axes;\n}}\n",
      c.op, join(letters, ", "), join(values, ", "));
}

void write_groups(const Contract& c, std::string& out) {
  std::set<std::string> seen;
  for (int i = 0; i < 3; ++i) {
    for (const auto& slot : c.sections[static_cast<size_t>(i)]) {
      if (slot.group.empty() || !slot.is_tensor() || !slot.optional) continue;
      // A group of two sections is there in both, or in none: the first one tells.
      if (!seen.insert(slot.group).second) continue;
      // A source of an older edition does not have this slot.
      if (slot.since > 1) out += fmt::format("#if FK_{}_EDITION >= {}\n", upper(c.op), slot.since);
      out += fmt::format(
          "static inline int fk_{0}_has_{1}(const fk_{0}_{2} *frame) {{\n"
          "  return frame->{3}.or_null != NULL;\n}}\n",
          c.op, slot.group, section_name(slot.section), slot.name);
      if (slot.since > 1) out += "#endif\n";
    }
  }
}

void write_init_defaults(const Contract& c, std::string& out) {
  if (c.section(SectionId::init).empty()) return;
  std::vector<std::string> values;
  for (const auto& slot : c.section(SectionId::init)) {
    if (slot.since > 1) break;
    if (slot.kind == SlotKind::ints || slot.kind == SlotKind::comm)
      values.emplace_back("NULL");
    else if (slot.kind == SlotKind::number)
      values.push_back(fmt::format("{:.17g}", slot.default_value.f));
    else
      values.push_back(std::to_string(slot.default_value.i));
  }
  // Literals of doubles need a point, because C++ rejects a narrowed int.
  for (size_t i = 0; i < values.size(); ++i) {
    if (c.section(SectionId::init)[i].kind == SlotKind::number &&
        values[i].find_first_of(".e") == std::string::npos)
      values[i] += ".0";
  }
  out += fmt::format(
      "/* For frames of children: every init slot at its default, 0 where it has none. */\n"
      "#define FK_{}_INIT {{{}}}\n",
      upper(c.op), join(values, ", "));
}

void write_identity(const Contract& c, std::string& out) {
  const std::string p = "fk_" + c.op;
  out += "/* ---- contract identity ---- */\n";
  std::vector<std::string> sections, counts, hashes;
  for (int i = 0; i < kSections; ++i) {
    const auto id = static_cast<SectionId>(i);
    const char* name = section_name(id);
    std::vector<std::string> prefix, lines;
    for (const uint64_t h : c.prefix[static_cast<size_t>(i)])
      prefix.push_back(fmt::format("0x{:016x}u", h));
    for (const auto& slot : c.section(id)) lines.push_back("    \"" + slot.line + "\"");
    out += fmt::format("static const uint64_t {}_{}_prefix[] = {{{}}};\n", p, name,
                       join(prefix, ", "));
    if (!lines.empty())
      out += fmt::format("static const char *const {}_{}_lines[] = {{\n{}}};\n", p, name,
                         join(lines, ",\n"));
    const std::string count = count_text(c, id);
    if (!c.section(id).empty())
      out += fmt::format(
          "FK_ASSERT(sizeof({}_{}) == 8 * ({}), \"every field is one slot\");\n", p, name,
          begins_later(c.section(id)) ? fmt::format("({0}) + (({0}) == 0)", count) : count);
    sections.push_back(fmt::format("  {{{}, {}, {}_{}_prefix, {}}}", count_text(c, id),
                                   c.required_slots(id), p, name,
                                   lines.empty() ? "NULL" : fmt::format("{}_{}_lines", p, name)));
    counts.push_back(count_text(c, id));
    hashes.push_back(fmt::format("{{{}, {}}}", hash_text(c, id, 0), hash_text(c, id, 32)));
  }
  out += fmt::format(
      "static const fk_contract {0}_contract = {{FK_END(fk_contract, plan), {1}, "
      "\"{2}\",\n{3}}};\n",
      p, c.revision, c.op, join(sections, ",\n"));
  out += fmt::format(
      "#define FK_NOTE_{0} {{FK_NOTE_BEGIN(fk_note_op, FK_NOTE_OP), \"{0}\", {1}, {{{2}}}, "
      "{{{3}}}}}\n",
      c.op, c.revision, join(counts, ", "), join(hashes, ", "));
}

std::string c_macro(const Contract& c, bool plan) {
  const std::string p = "fk_" + c.op;
  const auto thunk = [&](const char* suffix, const std::string& args, const std::string& call) {
    return fmt::format("static int32_t NAME##_{}_(void *self, {}) {{ return NAME##_{}; }}", suffix,
                       args, call);
  };
  std::vector<std::string> m;
  m.push_back(fmt::format("#define FK_{}_OP{}(NAME, CLAIMS)", upper(c.op), plan ? "_PLAN" : ""));
  m.push_back("typedef struct NAME NAME;");
  m.push_back(
      fmt::format("static int32_t NAME##_supports(const {0}_init *, const {0}_weights *, const "
                  "{0}_forward *, fk_need *, fk_error *);",
                  p));
  m.push_back(
      fmt::format("static int32_t NAME##_create(const fk_host *, const {0}_init *, const "
                  "{0}_weights *, NAME **, fk_error *);",
                  p));
  m.push_back(fmt::format(
      "static int32_t NAME##_prepare(NAME *, const {0}_forward *, const fk_memory *, fk_error *);",
      p));
  if (plan)
    m.push_back(fmt::format(
        "static int32_t NAME##_plan(NAME *, const {0}_plan *, void *, int64_t *, fk_error *);", p));
  m.push_back(fmt::format(
      "static int32_t NAME##_forward(NAME *, const {0}_forward *, const fk_ctx *);", p));
  m.push_back("static void NAME##_destroy(NAME *);");
  m.push_back(
      fmt::format("static int32_t NAME##_supports_(const void *i, const void *w, const void *m, "
                  "fk_need *n, fk_error *e) {{ "
                  "return NAME##_supports((const {0}_init *)i, (const {0}_weights *)w, (const "
                  "{0}_forward *)m, n, e); }}",
                  p));
  m.push_back(
      fmt::format("static int32_t NAME##_create_(const fk_host *h, const void *i, const void *w, "
                  "void **s, fk_error *e) {{ "
                  "NAME *made = NULL; int32_t status = NAME##_create(h, (const {0}_init *)i, "
                  "(const {0}_weights *)w, &made, e); "
                  "*s = made; return status; }}",
                  p));
  m.push_back(thunk("prepare", "const void *m, const fk_memory *y, fk_error *e",
                    fmt::format("prepare((NAME *)self, (const {}_forward *)m, y, e)", p)));
  if (plan)
    m.push_back(thunk("plan", "const void *a, void *b, int64_t *n, fk_error *e",
                      fmt::format("plan((NAME *)self, (const {}_plan *)a, b, n, e)", p)));
  m.push_back(thunk("forward", "const void *a, const fk_ctx *x",
                    fmt::format("forward((NAME *)self, (const {}_forward *)a, x)", p)));
  m.push_back("static void NAME##_destroy_(void *self) { NAME##_destroy((NAME *)self); }");
  m.push_back(
      fmt::format("static const fk_op NAME##_op = {{FK_END(fk_op, reset_or_null), 0, &{}_contract, "
                  "CLAIMS, NAME##_supports_, "
                  "NAME##_create_, NAME##_prepare_, {}, NAME##_forward_, NAME##_destroy_, NULL}};",
                  p, plan ? "NAME##_plan_" : "NULL"));
  m.push_back(
      fmt::format("static const fk_note_op NAME##_note FK_NOTE_SECTION = FK_NOTE_{};", c.op));
  m.push_back("FK_REGISTER(NAME, &NAME##_op)");
  return join(m, " \\\n  ") + "\n";
}

void write_registration(const Contract& c, std::string& out) {
  out +=
      "#ifndef __cplusplus\n"
      "/* At file scope: declares NAME_supports ... NAME_destroy, which you define with these very "
      "types;\n"
      "   `struct NAME { ... }` is yours. */\n";
  out += c_macro(c, false);
  if (!c.section(SectionId::plan).empty()) out += c_macro(c, true);
  out += "#else\n";
  out += fmt::format(
      "namespace fk {{\nstruct {0} {{\n  using init = fk_{0}_init;\n  using weights = "
      "fk_{0}_weights;\n  using forward = fk_{0}_forward;\n"
      "  using plan = fk_{0}_plan;\n  static constexpr const fk_contract *contract() {{ return "
      "&fk_{0}_contract; }}\n}};\n}} /* namespace fk */\n",
      c.op);
  out += "#endif\n";
}

}  // namespace

std::string struct_part(const Contract& c) {
  std::string out;
  write_structs(c, out);
  write_axes(c, out);
  write_groups(c, out);
  return out;
}

std::string header_text(const Contract& c) {
  const std::string guard = "FK_OPS_" + upper(c.op) + "_H",
                    edition = "FK_" + upper(c.op) + "_EDITION";
  std::string out = "/* SPDX-License-Identifier: Apache-2.0 */\n";
  out += fmt::format("/* {}, revision {}, level {}: {}\n", c.op, c.revision, c.level, c.summary);
  for (const auto& m : c.mirrors) out += " * Mirrors " + m.name + ".\n";
  std::vector<std::string> axes;
  for (const auto& [letter, meaning] : c.axes) axes.push_back(letter + " " + meaning);
  out += " * Axes: " + join(axes, ", ") + ".\n * Generated from the contract; do not edit. */\n";
  out += fmt::format(
      "#ifndef {0}\n#define {0}\n#include \"fk/plugin.h\"\n#ifdef __cplusplus\n#include "
      "\"fk/cpp/plugin.hpp\"\n#endif\n\n",
      guard);
  if (c.editions > 1) {
    out += fmt::format(
        "#ifndef {0}\n#error \"write `#define {0} {1}` before this include: the newest edition "
        "whose every slot this source handles\"\n#endif\n",
        edition, c.editions);
  } else {
    out += fmt::format("#ifndef {0}\n#define {0} 1\n#endif\n", edition);
  }
  out += struct_part(c);
  write_init_defaults(c, out);
  write_identity(c, out);
  write_registration(c, out);
  return out + "#endif\n";
}

}  // namespace fk
