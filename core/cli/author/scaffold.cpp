// SPDX-License-Identifier: Apache-2.0
#include "core/cli/author/scaffold.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/contract/header.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

std::string camel(const std::string& op) {
  std::string out;
  for (const auto& part : split(op, '_'))
    if (!part.empty()) out += upper(part.substr(0, 1)) + part.substr(1);
  return out;
}

// A template's text with the plugin's name, without the line about this project's licence.
std::string renamed(std::string text, const std::string& plugin) {
  for (const std::string line : {"FK_PLUGIN(\"", "PLUGIN = (\"", "fk::plugin!(\""}) {
    const auto at = text.find(line);
    if (at == std::string::npos) continue;
    const auto begin = at + line.size(), end = text.find('"', begin);
    text.replace(begin, end - begin, plugin);
  }
  if (text.find("SPDX") < text.find('\n')) text.erase(0, text.find('\n') + 1);
  return text;
}

// A source implements the op of its first contract header.
std::string first_op(const std::string& text) {
  const std::string include = "#include \"fk/ops/";
  const auto at = text.find(include);
  if (at == std::string::npos) return {};
  const auto begin = at + include.size();
  return text.substr(begin, text.find(".h\"", begin) - begin);
}

std::string template_source(const std::string& op, const std::string& language) {
  for (const char* dir : {"plugin_api/template", "template"}) {  // in the source tree; installed
    for (const std::string& stem : {"ops/" + op, std::string("plugin")}) {
      const fs::path file = paths::home() / dir / (stem + "." + language);
      std::error_code ignored;
      if (!fs::is_regular_file(file, ignored)) continue;
      std::string text = read_file(file);
      if (first_op(text) == op) return text;
    }
  }
  return {};
}

// A field of a section as a local variable: its type, its place, and a remark.
struct Local {
  std::string name, code, about;
};
void add_locals(const Contract& c, SectionId section, const std::string& frame,
                std::vector<Local>& out) {
  for (const auto& slot : c.section(section)) {
    const bool optional = slot.is_tensor() && slot.optional;
    std::string type = field_type(slot), about = field_comment(c, slot);
    if (optional) {
      type = std::string("const ") + (slot.role == Role::in ? "fk_in" : "fk_out") +
             (slot.list.empty() ? " *" : "_list *");
      about = "may be null; " + about;
    } else if (type.back() == ' ') {
      type = "const " + type;
    }
    const std::string from = frame + slot.name + (optional ? ".or_null" : "");
    out.push_back({slot.name, fmt::format("{}{} = {};", type, slot.name, from), about});
  }
}

// The beginning of forward(), before the author's own code.
std::string unpacked(const Contract& c, const std::string& init, const std::string& weights,
                     const std::string& args, const std::string& indent) {
  std::vector<Local> locals;
  add_locals(c, SectionId::init, init, locals);
  add_locals(c, SectionId::weights, weights, locals);
  add_locals(c, SectionId::forward, args, locals);
  size_t width = 0;
  for (const auto& local : locals) width = std::max(width, local.code.size());
  std::string out, unused = indent + "(void)ctx";
  for (const auto& local : locals) {
    out += indent + (local.about.empty()
                         ? local.code
                         : fmt::format("{:<{}} /* {} */", local.code, width, local.about));
    out += "\n";
    const std::string word = ", (void)" + local.name;
    const size_t line = unused.size() - (unused.rfind('\n') + 1);  // npos + 1 is 0
    unused += line + word.size() < 98 ? word : ",\n" + indent + "    " + word.substr(2);
  }
  return out + unused + ";\n";
}

std::string edition(const Contract& c) {
  return c.editions > 1 ? fmt::format("#define FK_{}_EDITION {}\n", upper(c.op), c.editions) : "";
}

std::string c_source(const Contract& c, const std::string& plugin) {
  const std::string text = R"(/* {op}: {summary}
 * The contract as a page: fk-host show {op} */
#include <stdlib.h>

{edition}#include "fk/ops/{op}.h"

static const fk_claims claims = {{FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1,
                                 FK_ACCUMULATE_F32, 0, 0, NULL}};

FK_{OP}_OP(kernel, &claims); /* declares the functions below */

struct kernel {{
  const fk_{op}_init *init; /* valid until destroy */
  const fk_{op}_weights *weights;
}};

/* Refuse what forward() does not take, with a sentence; ask for memory in `need`. Sizes are at their
 * maxima, data pointers are null. */
static int32_t kernel_supports(const fk_{op}_init *init, const fk_{op}_weights *weights,
                               const fk_{op}_forward *max, fk_need *need, fk_error *why) {{
  (void)init, (void)weights, (void)max, (void)need;
  return fk_refuse(why, "forward is not written yet"); /* when it is: return FK_OK */
}}

static int32_t kernel_create(const fk_host *host, const fk_{op}_init *init,
                             const fk_{op}_weights *weights, kernel **self, fk_error *error) {{
  (void)host;
  *self = malloc(sizeof **self);
  if (!*self) return fk_fail(error, FK_FAILED, "out of memory");
  (*self)->init = init;
  (*self)->weights = weights;
  return FK_OK;
}}

static int32_t kernel_prepare(kernel *self, const fk_{op}_forward *max, const fk_memory *memory,
                              fk_error *error) {{
  (void)self, (void)max, (void)memory, (void)error;
  return FK_OK;
}}

static int32_t kernel_forward(kernel *self, const fk_{op}_forward *args, const fk_ctx *ctx) {{
{body}  return FK_OK;
}}

static void kernel_destroy(kernel *self) {{ free(self); }}

FK_PLUGIN("{plugin}", "0.1.0");
)";
  std::string body = unpacked(c, "self->init->", "self->weights->", "args->", "  ");
  if (c.section(SectionId::init).empty() && c.section(SectionId::weights).empty())
    body += "  (void)self;\n";
  return fmt::format(fmt::runtime(text), fmt::arg("op", c.op), fmt::arg("OP", upper(c.op)),
                     fmt::arg("summary", c.summary), fmt::arg("edition", edition(c)),
                     fmt::arg("body", body), fmt::arg("plugin", plugin));
}

std::string cpp_source(const Contract& c, const std::string& plugin, bool cuda) {
  const std::string text = R"(// {op}: {summary}
// The contract as a page: fk-host show {op}
{edition}#include "fk/ops/{op}.h"

namespace {{

{sm}struct {Type} {{
  using op = fk::{op};
  static constexpr fk_claims claims{claims};
  const op::init* init;  // valid as long as this object
  const op::weights* weights;

  // Refuse what forward() does not take, with a sentence; ask for memory in `need`. Sizes are at
  // their maxima, data pointers are null.
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {{
    (void)init, (void)weights, (void)max, (void)need;
    throw fk::unsupported{{"forward is not written yet"}};  // remove this line when it is
  }}
  {Type}(const fk_host&, const op::init& i, const op::weights& w) : init(&i), weights(&w) {{}}
  void prepare(const op::forward&, const fk_memory&) {{}}
{plan}
  void forward(const op::forward& args, const fk_ctx& ctx) {{
{body}  }}
}};
FK_OP({op}, {Type});

}}  // namespace

FK_PLUGIN("{plugin}", "0.1.0");
)";
  const std::string body = unpacked(c, "init->", "weights->", "args.", "    ");
  const std::string plan =
      c.section(SectionId::plan).empty()
          ? ""
          : "  // With need.plan > 0, once per step on the host, before forward():\n"
            "  //   int64_t plan(const op::plan& step, void* blob, int64_t room);  // bytes "
            "written\n";
  return fmt::format(
      fmt::runtime(text), fmt::arg("op", c.op), fmt::arg("summary", c.summary),
      fmt::arg("edition", edition(c)),
      fmt::arg("sm",
               cuda ? "constexpr int32_t kSm[] = {90};  // what FK_CUDA_ARCH builds for\n\n" : ""),
      fmt::arg("Type", camel(c.op)),
      fmt::arg("claims", cuda ? "{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 0,\n"
                                "                                    FK_ACCUMULATE_F32, 0, 1, kSm}"
                              : " = fk::cpu_claims"),
      fmt::arg("plan", plan), fmt::arg("body", body), fmt::arg("plugin", plugin));
}

}  // namespace

Scaffold scaffold(const Contract& contract, const std::string& plugin,
                  const std::string& language) {
  if (const std::string text = template_source(contract.op, language); !text.empty())
    return {renamed(text, plugin), true};
  return {
      language == "c" ? c_source(contract, plugin) : cpp_source(contract, plugin, language == "cu"),
      false};
}

Scaffold scaffold(const Contract& contract, const std::string& plugin, const Language& language,
                  const fs::path& dir) {
  const fs::path ready = language.dir / "template" / (contract.op + language.extension);
  if (fs::exists(ready)) return {renamed(read_file(ready), plugin), true};
  const fs::path header = dir / "contract.h", made = dir / "made";
  write_file_atomic(header, header_text(contract));
  std::string said;
  const int status = run_script(
      language, "new.py", {"--header", header.string(), "--name", plugin, "--out", made.string()},
      {{dir, language.dir.parent_path()}, dir, {}}, &said);
  if (status != 0) fail("new", excerpt(trim(said), 300));
  const std::string text = read_file(made);
  for (const fs::path& file : {header, made}) fs::remove(file);
  return {text, false};
}

std::vector<ScaffoldFile> reference_scaffold(const std::string& op, const std::string& plugin) {
  fs::path root;
  for (const char* dir : {"baselines/reference", "reference"}) {  // in the source tree; installed
    std::error_code none;
    if (fs::is_directory(paths::home() / dir, none)) root = paths::home() / dir;
  }
  std::vector<ScaffoldFile> out;
  if (root.empty()) return out;
  for (const auto& entry : fs::recursive_directory_iterator(root))
    if (entry.path().filename() == op + ".cpp")
      out.push_back({op + ".cpp", renamed(read_file(entry.path()), plugin) +
                                      fmt::format("\nFK_PLUGIN(\"{}\", \"0.1.0\");\n", plugin)});
  for (size_t i = 0; i < out.size(); ++i) {  // grows: headers include headers
    for (const auto& line : split(out[i].text, '\n')) {
      if (!starts_with(line, "#include \"") || starts_with(line, "#include \"fk/")) continue;
      const std::string name = line.substr(10, line.find('"', 10) - 10);
      const auto same = [&](const ScaffoldFile& one) { return one.name == name; };
      if (std::none_of(out.begin(), out.end(), same))
        out.push_back({name, renamed(read_file(root / name), plugin)});
    }
  }
  return out;
}

}  // namespace fk
