// SPDX-License-Identifier: Apache-2.0
// fk-host new OP --name NAME: a folder in candidates/ that compiles as it is. Where an example of
// the op is tracked (candidates/example_<op>), the scaffold is that example under the new name;
// otherwise it unpacks every field of the contract and refuses every case until its forward is
// written, so the baseline runs.
#include <fmt/format.h>

#include <cctype>
#include <cstdio>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/verb.hpp"
#include "core/contract/contract.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string op, name, language = "cpp";
};

void check_name(const std::string& name) {
  bool good =
      !name.empty() && name.size() <= 48 && std::isalpha(static_cast<unsigned char>(name[0]));
  for (const char c : name) good &= std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  if (!good)
    fail("--name", "`" + excerpt(name) + "` is not a name",
         "letters, digits and _, a letter first, 48 at most");
}

std::string camel(const std::string& op) {
  std::string out;
  for (const auto& part : split(op, '_')) {
    if (part.empty()) continue;
    out += static_cast<char>(std::toupper(static_cast<unsigned char>(part[0])));
    out += part.substr(1);
  }
  return out;
}

std::string field_lines(const Contract& c, SectionId section, const std::string& from,
                        const std::string& indent) {
  std::string out;
  for (const auto& slot : c.section(section)) {
    if (slot.is_tensor() && slot.optional && slot.list.empty())
      out += fmt::format("{}// if ({}.{}.or_null) ...\n", indent, from, slot.name);
    else
      out += fmt::format("{}(void){}.{};{}\n", indent, from, slot.name,
                         slot.meaning.empty() ? "" : "  // " + slot.meaning);
  }
  return out;
}

std::string cpp_scaffold(const Contract& c, const std::string& name, bool cuda) {
  const std::string type = camel(c.op);
  std::string out = fmt::format("// {}: {}.\n// The contract as a page: fk-host show {}\n", c.op,
                                c.summary, c.op);
  if (c.editions > 1)
    out += fmt::format(
        "#define FK_{0}_EDITION {1}\n",
        [&] {
          std::string u = c.op;
          for (char& x : u) x = static_cast<char>(std::toupper(static_cast<unsigned char>(x)));
          return u;
        }(),
        c.editions);
  out += fmt::format("#include \"fk/ops/{}.h\"\n\nnamespace {{\n\n", c.op);
  if (cuda) out += "constexpr int32_t kSm[] = {90};\n\n";
  out += fmt::format("struct {} {{\n  using op = fk::{};\n", type, c.op);
  out += cuda ? "  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, "
                "FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};\n"
              : "  static constexpr fk_claims claims = fk::cpu_claims;\n";
  if (!c.section(SectionId::init).empty()) out += "  const op::init& init;\n";
  if (!c.section(SectionId::weights).empty()) out += "  const op::weights& weights;\n";
  out +=
      "\n  // Refuse here, with a sentence, what forward() does not take; ask for memory in "
      "`need`.\n"
      "  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) "
      "{\n"
      "    throw fk::unsupported{\"forward is not written yet\"};  // remove this line when it "
      "is\n  }\n";
  const bool init = !c.section(SectionId::init).empty(),
             weights = !c.section(SectionId::weights).empty();
  out += fmt::format("  {}(const fk_host&, const op::init&{}, const op::weights&{}){}{}{} {{}}\n",
                     type, init ? " i" : "", weights ? " w" : "", init || weights ? " : " : "",
                     init ? "init(i)" : "", weights ? (init ? ", weights(w)" : "weights(w)") : "");
  out += "  void prepare(const op::forward&, const fk_memory&) {}\n\n";
  out += "  void forward(const op::forward& args, const fk_ctx& ctx) {\n    (void)ctx;\n";
  if (init) out += field_lines(c, SectionId::init, "init", "    ");
  if (weights) out += field_lines(c, SectionId::weights, "weights", "    ");
  out += field_lines(c, SectionId::forward, "args", "    ");
  out += fmt::format(
      "  }}\n}};\nFK_OP({}, {});\n\n}}  // namespace\n\nFK_PLUGIN(\"{}\", \"0.1.0\");\n", c.op,
      type, name);
  return out;
}

std::string c_scaffold(const Contract& c, const std::string& name) {
  std::string upper = c.op;
  for (char& x : upper) x = static_cast<char>(std::toupper(static_cast<unsigned char>(x)));
  const std::string p = "fk_" + c.op;
  std::string out = fmt::format(
      "/* {}: {}.\n * The contract as a page: fk-host show {} */\n#include <stdlib.h>\n\n", c.op,
      c.summary, c.op);
  if (c.editions > 1) out += fmt::format("#define FK_{}_EDITION {}\n", upper, c.editions);
  out += fmt::format("#include \"fk/ops/{}.h\"\n\n", c.op);
  out +=
      "static const fk_claims claims = {FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1, "
      "FK_ACCUMULATE_F32, 0, 0, NULL};\n\n";
  out += fmt::format(
      "FK_{}_OP(mine, &claims);\n\nstruct mine {{\n  const {}_init *init;\n  const {}_weights "
      "*weights;\n}};\n\n",
      upper, p, p);
  out += fmt::format(
      "static int32_t mine_supports(const {0}_init *init, const {0}_weights *weights, const "
      "{0}_forward *max,\n"
      "                             fk_need *need, fk_error *why) {{\n  (void)init, (void)weights, "
      "(void)max, (void)need;\n"
      "  return fk_refuse(why, \"forward is not written yet\"); /* return FK_OK when it is "
      "*/\n}}\n\n",
      p);
  out += fmt::format(
      "static int32_t mine_create(const fk_host *host, const {0}_init *init, const {0}_weights "
      "*weights, mine **self,\n"
      "                           fk_error *error) {{\n  (void)host;\n  *self = malloc(sizeof "
      "**self);\n"
      "  if (!*self) return fk_fail(error, FK_FAILED, \"out of memory\");\n  (*self)->init = "
      "init;\n  (*self)->weights = weights;\n  return FK_OK;\n}}\n\n",
      p);
  out += fmt::format(
      "static int32_t mine_prepare(mine *self, const {0}_forward *max, const fk_memory *memory, "
      "fk_error *error) {{\n"
      "  (void)self, (void)max, (void)memory, (void)error;\n  return FK_OK;\n}}\n\n",
      p);
  out += fmt::format(
      "static int32_t mine_forward(mine *self, const {0}_forward *args, const fk_ctx *ctx) {{\n  "
      "(void)self, (void)args, (void)ctx;\n"
      "  return FK_OK;\n}}\n\nstatic void mine_destroy(mine *self) {{ free(self); "
      "}}\n\nFK_PLUGIN(\"{1}\", \"0.1.0\");\n",
      p, name);
  return out;
}

// The tracked example with the plugin's name replaced; nothing if there is none.
std::string example_source(const std::string& op, const std::string& name) {
  const fs::path dir = paths::home() / "candidates" / ("example_" + op);
  if (!fs::is_directory(dir)) return "";
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.path().extension() != ".cpp") continue;
    std::string text = read_file(entry.path());
    const std::string old = "FK_PLUGIN(\"example_" + op + "\"";
    if (const auto at = text.find(old); at != std::string::npos) {
      text.replace(at, old.size(), "FK_PLUGIN(\"" + name + "\"");
      return text;
    }
  }
  return "";
}

int make(const Arguments& a) {
  check_name(a.name);
  if (a.language != "c" && a.language != "cpp" && a.language != "cu")
    fail("--lang", "`" + a.language + "` is not a language here", "c, cpp or cu");
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at(a.op);
  const fs::path dir = paths::candidates_dir() / a.name;
  if (fs::exists(dir)) fail(dir.string(), "it is there already", "choose another --name");
  std::string text = a.language == "cpp" ? example_source(a.op, a.name) : "";
  if (text.empty())
    text = a.language == "c" ? c_scaffold(contract, a.name)
                             : cpp_scaffold(contract, a.name, a.language == "cu");
  std::error_code code;
  fs::create_directories(dir, code);
  if (code) fail(dir.string(), "cannot be made: " + code.message());
  const fs::path file = dir / (a.op + "." + a.language);
  write_file_atomic(file, text);
  std::printf("%s\nnext: fk-host build %s && fk-host check %s\n", file.c_str(), a.name.c_str(),
              a.name.c_str());
  return kExitOk;
}

std::function<int()> add(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  app.add_option("OP", a->op, "the op to implement")->required();
  app.add_option("--name", a->name, "of the plugin and its folder")->required();
  app.add_option("--lang", a->language, "c, cpp (the default) or cu");
  return [a] { return make(*a); };
}

FK_VERB(new, "scaffold a candidate that compiles as it is", add);

}  // namespace
}  // namespace fk
