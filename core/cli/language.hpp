// SPDX-License-Identifier: Apache-2.0
// Languages of candidates besides C, C++ and CUDA. A folder plugin_api/adapters/NAME with a file
// language.yaml is a language; there is no list. Its parts:
//   language.yaml  extension: ".py"; marker: a text that each source of the language has
//                  device: cuda (the default), cpu or opencl; cuda adds the toolkit's headers and
//                  runtime. library: OpenCL, say; its plugins link it
//                  compiler: a program that build.py starts, also named by the variable of the same
//                  name in capitals; installation: words that make it print its folder
//   build.py       SOURCE --header H --arch "90 100" --out OUT.cpp: one source -> one C++ file,
//                  compiled with this folder's headers. A library OUT.a beside it is linked with
//                  it. For cpu, --march has the processor of candidate.yaml, if it names one
//   new.py         --header H --name NAME --out FILE: a source that compiles and refuses all cases
//   template/      OP.EXTENSION: plain and correct sources; values: untested in language.yaml if
//                  no test has computed their values
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/cli/compiler.hpp"

namespace fk {

struct Language {
  std::string name, extension, marker;
  std::filesystem::path dir;
  bool cuda = true, tested = true;
  std::string compiler, installation;  // empty: the scripts need Python alone
  std::string library;                 // empty: none
};

// All of them, by name.
std::vector<Language> languages();
// The language of a source file; nothing for other files, and for names that begin with `_`, which
// sources share.
std::optional<Language> language_of(const std::filesystem::path& file,
                                    const std::vector<Language>& all);
// True if a change of this file changes a plugin: sources, headers, files that sources share, and
// the recipe (recipe.hpp).
bool is_source(const std::filesystem::path& file, const std::vector<Language>& all);

// Runs a script of a language with `arguments`, in the sandbox of compilers. Its words and the
// result are those of run_compiler().
int run_script(const Language& language, const std::string& script,
               const std::vector<std::string>& arguments, const Workshop& workshop,
               std::string* said);

}  // namespace fk
