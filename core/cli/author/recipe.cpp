// SPDX-License-Identifier: Apache-2.0
#include "core/cli/author/recipe.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/base/text.hpp"
#include "core/base/yaml.hpp"
#include "core/plugin/libraries.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

// Flags by their beginning. A refused one is more special, so it is tried first.
const std::vector<std::string> kRefusedFlags = {
    "-fplugin",   "-fvisibility", "-fno-pic", "-fno-PIC", "-fno-pie", "-ftls-model",
    "-fsanitize", "-flto",        "-Wl,",     "-Wp,",     "-Wa,",     "-fdump",
    "-fprofile",  "-fcompare",    "-fuse-ld", "-fpch",    "-fmodule"};
const std::vector<std::string> kHostFlags = {"-O",    "-f", "-m", "-W", "-w",
                                             "-std=", "-g", "-I", "-U"};
const std::vector<std::string> kCudaFlags = {"-O",
                                             "-std=",
                                             "-use_fast_math",
                                             "--use_fast_math",
                                             "-maxrregcount",
                                             "--maxrregcount",
                                             "-lineinfo",
                                             "--generate-line-info",
                                             "-extended-lambda",
                                             "--extended-lambda",
                                             "-expt-",
                                             "--expt-",
                                             "-Xptxas",
                                             "--ptxas-options",
                                             "-fmad",
                                             "--fmad",
                                             "-ftz",
                                             "--ftz",
                                             "-prec-",
                                             "--prec-",
                                             "-I",
                                             "-U",
                                             "-diag-suppress",
                                             "--diag-suppress",
                                             "-restrict",
                                             "--restrict"};
// Names after -l of the libraries that the lint accepts.
std::vector<std::string> library_names() {
  constexpr std::string_view kBegin = "lib", kEnd = ".so.";
  std::vector<std::string> out;
  for (const std::string_view file : kLibrariesOfCandidates)
    if (file.starts_with(kBegin))
      out.emplace_back(file.substr(kBegin.size(), file.size() - kBegin.size() - kEnd.size()));
  return out;
}

bool begins_with_any(const std::string& text, const std::vector<std::string>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const std::string& one) { return starts_with(text, one); });
}

std::vector<std::string> texts_of(const Yaml& root, const char* key) {
  std::vector<std::string> out;
  const auto found = root.find(key);
  if (!found) return out;
  for (const Yaml& one : found->items()) out.push_back(one.text());
  return out;
}

std::vector<std::string> flags_of(const Yaml& root, const char* key,
                                  const std::vector<std::string>& allowed) {
  const auto found = root.find(key);
  if (!found) return {};
  for (const Yaml& one : found->items()) {
    const std::string flag = one.text();
    const bool elsewhere = starts_with(flag, "-I") && (flag.size() == 2 || flag[2] == '/');
    if (begins_with_any(flag, kRefusedFlags) || elsewhere || flag.find(' ') != flag.npos)
      one.fail("a candidate may not use the flag `" + excerpt(flag) + "`",
               "the mandatory flags and the linker's are the host's; -I takes a folder beside it");
    if (starts_with(flag, "-D"))
      one.fail("`" + excerpt(flag) + "` is a definition", "definitions:");
    if (starts_with(flag, "-march=")) one.fail("the target has a key of its own", "march:");
    if (starts_with(flag, "-l") && flag != "-lineinfo")
      one.fail("libraries have a key of their own", "libraries:");
    if (!begins_with_any(flag, allowed))
      one.fail("`" + excerpt(flag) + "` is not a flag that a candidate may use",
               "flags begin with " + join(allowed, ", "));
  }
  return texts_of(root, key);
}

void need_definition(const Yaml& at) {
  const std::string text = at.text(), name = text.substr(0, text.find('='));
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  const bool good = !name.empty() && std::all_of(name.begin(), name.end(), is_word) &&
                    !std::isdigit(static_cast<unsigned char>(name[0]));
  if (!good) at.fail("`" + excerpt(text) + "` is not a definition", "NAME or NAME=VALUE");
  if (starts_with(name, "FK_")) at.fail("names that begin with FK_ are the host's", "another name");
}

}  // namespace

std::vector<std::string> Recipe::compiler_words(const std::string& language) const {
  const bool cuda = language == "cu";
  std::vector<std::string> out;
  if (openmp) out.emplace_back(cuda ? "-Xcompiler=-fopenmp" : "-fopenmp");
  if (!march.empty()) out.push_back((cuda ? "-Xcompiler=-march=" : "-march=") + march);
  for (const auto& flag : cuda ? cuda_flags : flags) {
    const bool other =
        starts_with(flag, "-std=") &&
        (starts_with(flag, "-std=c++") || starts_with(flag, "-std=gnu++")) == (language == "c");
    if (!other) out.push_back(flag);  // a folder may have sources in C and in C++
  }
  for (const auto& one : definitions) out.push_back("-D" + one);
  return out;
}

std::vector<std::string> Recipe::linker_words() const {
  std::vector<std::string> out = {"-Wl,--as-needed"};  // a library that nothing uses is left out
  if (openmp) out.emplace_back("-fopenmp");
  for (const auto& library : libraries) out.push_back("-l" + library);
  out.emplace_back("-lm");
  return out;
}

Recipe load_recipe(const fs::path& folder) {
  Recipe out;
  std::error_code none;
  if (!fs::is_regular_file(folder / Recipe::kFile, none)) return out;
  const Yaml root = Yaml::load(folder / Recipe::kFile);
  if (root.is_null()) return out;
  root.only({"flags", "cuda_flags", "definitions", "libraries", "march", "openmp"});
  out.flags = flags_of(root, "flags", kHostFlags);
  out.cuda_flags = flags_of(root, "cuda_flags", kCudaFlags);
  if (const auto list = root.find("definitions"))
    for (const Yaml& one : list->items()) need_definition(one);
  out.definitions = texts_of(root, "definitions");
  if (const auto list = root.find("libraries"))
    for (const Yaml& one : list->items())
      if (const auto known = library_names(); !contains(known, one.text()))
        one.fail("a candidate may not link `" + excerpt(one.text()) + "`",
                 did_you_mean(one.text(), known));
  out.libraries = texts_of(root, "libraries");
  out.openmp = root.boolean_or("openmp", true);
  out.march = root.text_or("march", "");
  const auto is_target = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("-_+.").find(c) != std::string_view::npos;
  };
  if (!std::all_of(out.march.begin(), out.march.end(), is_target))
    root.at("march").fail("`" + excerpt(out.march) + "` is not a target of the compiler",
                          "native or x86-64-v3, for example");
  return out;
}

}  // namespace fk
