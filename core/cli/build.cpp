// SPDX-License-Identifier: Apache-2.0
// fk-host build NAME|DIR: builds one plugin from a folder of sources, with exactly the flags that
// the lint expects.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <set>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/cli/author/recipe.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/compiler.hpp"
#include "core/cli/language.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/contract/header.hpp"
#include "core/plugin/notes.hpp"
#include "core/report/document.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kRoom = uintmax_t{1} << 16;  // less than any object needs
const char* const kElsewhere = "FK_CACHE names another folder";

void make_dir(const fs::path& dir) {
  std::error_code code;
  fs::create_directories(dir, code);
  if (code) fail_host(dir.string(), "cannot be made: " + code.message(), kElsewhere);
}

// Error for a full disk, which a compiler would report as a fault of the sources.
void need_room(const fs::path& dir) {
  std::error_code code;
  const auto room = fs::space(dir, code);
  if (!code && room.available < kRoom)
    fail_host(dir.string(), "its disk is full: nothing can be compiled", kElsewhere);
}

// The folder with fk/plugin.h: the source tree's, or the installed one.
fs::path include_dir() {
  const fs::path tree = paths::home() / "plugin_api";
  if (fs::exists(tree / "fk/plugin.h")) return tree;
  const fs::path installed = paths::home().parent_path().parent_path() / "include";
  if (fs::exists(installed / "fk/plugin.h")) return installed;
  fail("build", "the headers of the ABI (fk/plugin.h) are neither in " + tree.string() +
                    " nor in " + installed.string());
}

// Headers of all contracts. Only changed ones are written.
fs::path header_dir() {
  const fs::path dir = paths::cache_dir() / "headers";
  make_dir(dir / "fk/ops");
  const Catalog catalog(paths::registry_dirs());
  for (const auto& op : catalog.ops()) {
    const fs::path file = dir / "fk/ops" / (op + ".h");
    const std::string text = header_text(catalog.at(op));
    if (fs::exists(file) && read_file(file) == text) continue;
    try {
      write_file_atomic(file, text);
    } catch (const Error& e) {
      fail_host(e.where(), e.what_text(), kElsewhere);
    }
  }
  return dir;
}

struct Sources {
  std::vector<fs::path> compiled;
  std::string build_id;  // a hash of these and of the folder's own headers
};

Sources sources_of(const fs::path& dir, const std::vector<Language>& all) {
  static const std::set<std::string> units = {".c", ".cpp", ".cu"};
  std::set<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(dir))
    if (entry.is_regular_file()) files.insert(entry.path());
  Sources out;
  std::string contents;
  for (const auto& file : files) {
    if (units.count(file.extension()) > 0 || language_of(file, all)) out.compiled.push_back(file);
    if (is_source(file, all)) contents += read_file(file) + '\0';
  }
  out.build_id = sha256(contents).substr(0, 16);
  return out;
}

// The folder's name for `fk-host build`.
std::string build_name(const fs::path& dir) {
  std::error_code none;
  const bool known = fs::equivalent(dir.parent_path(), paths::candidates_dir(), none);
  return known ? dir.filename().string() : dir.string();
}

// nvcc from the environment, the PATH, or the toolkit's default place.
std::string nvcc() {
  const std::string named = environment("NVCC", "");
  if (!named.empty()) return named;
  for (const auto& dir : split(environment("PATH", ""), ':'))
    if (::access((fs::path(dir) / "nvcc").c_str(), X_OK) == 0) return "nvcc";
  const fs::path usual = fs::path(environment("CUDA_HOME", "/usr/local/cuda")) / "bin/nvcc";
  return ::access(usual.c_str(), X_OK) == 0 ? usual.string() : "nvcc";
}

// Compute capabilities of the code, such as 90a, from FK_CUDA_ARCH.
std::vector<std::string> architectures() {
  std::string text = environment("FK_CUDA_ARCH", "90a");
  std::replace(text.begin(), text.end(), ',', ' ');
  std::vector<std::string> out;
  for (std::string word : split(text, ' ')) {
    if (word.empty()) continue;
    if (starts_with(word, "sm_")) word.erase(0, 3);
    const size_t digits = word.find_first_not_of("0123456789");
    const std::string rest = digits == std::string::npos ? "" : word.substr(digits);
    const size_t count = word.size() - rest.size();
    if (count < 2 || count > 3 || (!rest.empty() && rest != "a" && rest != "f"))
      fail("FK_CUDA_ARCH", "`" + excerpt(word) + "` is not a compute capability",
           "80, 90a or 100a, for example");
    out.push_back(word);
  }
  if (out.empty()) fail("FK_CUDA_ARCH", "it names no compute capability", "90a, for example");
  return out;
}

fs::path cuda_home() { return environment("CUDA_HOME", "/usr/local/cuda"); }

// A source in another language -> C++, in the folder of the build; nothing when that failed.
std::optional<fs::path> translated(const Language& language, const fs::path& source,
                                   const fs::path& object, const std::string& march,
                                   const Workshop& workshop, std::string* said) {
  const std::string op = source.stem();
  const fs::path header = header_dir() / "fk/ops" / (op + ".h");
  if (!fs::exists(header))
    fail(source.string(), "its name is that of no op",
         did_you_mean(op, Catalog(paths::registry_dirs()).ops()) +
             "; names of files that sources share begin with `_`");
  const fs::path made = object.string() + ".cpp";
  std::vector<std::string> words = {
      source.string(), "--header",   header.string(), "--arch", join(architectures(), " "),
      "--out",         made.string()};
  if (!language.cuda && !march.empty()) words.push_back("--march=" + march);
  const int status = run_script(language, "build.py", words, workshop, said);
  if (status != 0) return need_room(workshop.made), std::nullopt;
  return made;
}

std::vector<std::string> compile_line(const fs::path& source, const fs::path& object,
                                      const std::vector<std::string>& includes,
                                      const std::string& build_id, const Recipe& recipe) {
  const std::string ext = source.extension();
  std::vector<std::string> line;
  if (ext == ".cu") {
    line = {nvcc(),
            "-O3",
            "-std=c++17",
            "-diag-suppress=177,550",
            "-Xcompiler=-fPIC,-fvisibility=hidden,-fvisibility-inlines-hidden,-fno-gnu-unique,-"
            "ftls-model=global-dynamic",
            "-DFK_BUILD_SM=\"" + join(architectures(), " ") + "\""};
    for (const auto& arch : architectures())
      line.push_back("-gencode=arch=compute_" + arch + ",code=sm_" + arch);
  } else {
    line = {ext == ".c" ? environment("CC", "cc") : environment("CXX", "c++"), "-O3",
            ext == ".c" ? "-std=c11" : "-std=c++20", "-fPIC", "-fvisibility=hidden",
            "-ftls-model=global-dynamic", "-Wall", "-Wextra",
            // GCC's own AVX-512 headers give hundreds of lines of these.
            "-Wno-uninitialized", "-Wno-maybe-uninitialized", "-fmax-errors=20"};
    if (ext != ".c") line.insert(line.end(), {"-fvisibility-inlines-hidden", "-fno-gnu-unique"});
  }
  for (const auto& word : recipe.compiler_words(ext.substr(1))) line.push_back(word);
  line.push_back("-DFK_BUILD_ID=\"" + build_id + "\"");
  for (const auto& dir : includes) line.insert(line.end(), {"-I", dir});
  line.insert(line.end(), {"-c", source.string(), "-o", object.string()});
  return line;
}

}  // namespace

namespace {

std::string no_source(const std::vector<Language>& all) {
  std::string out = "there is no .c, .cpp or .cu file in it";
  for (const auto& language : all)
    out += ", and no " + language.extension + " file with `" + language.marker + "`";
  return out;
}

}  // namespace

fs::path candidate_dir(const std::string& name) {
  const bool is_path = name.find('/') != std::string::npos || name == "." || name == "..";
  std::error_code code;
  if (is_path && fs::is_directory(name, code)) return fs::canonical(name);
  if (is_path || name.empty()) fail(name, "there is no such folder");
  const fs::path dir = paths::candidates_dir() / name;
  if (fs::is_directory(dir)) return dir;
  std::vector<std::string> known;
  if (fs::is_directory(paths::candidates_dir())) {
    for (const auto& entry : fs::directory_iterator(paths::candidates_dir())) {
      if (entry.is_directory()) known.push_back(entry.path().filename());
    }
  }
  fail(paths::candidates_dir().string(), "there is no candidate `" + name + "`",
       did_you_mean(name, known));
}

bool has_sources(const fs::path& dir) { return !sources_of(dir, languages()).compiled.empty(); }

std::optional<fs::path> build_candidate(const fs::path& dir, std::string* said) {
  const std::vector<Language> all = languages();
  const auto [sources, build_id] = sources_of(dir, all);
  if (sources.empty()) fail(dir.string(), no_source(all));
  const Recipe recipe = load_recipe(dir);
  const std::vector<std::string> includes = {include_dir().string(), header_dir().string(), "."};
  static std::atomic<int> builds = 0;  // folders of one name may be compiled at the same time
  const fs::path work =
      paths::cache_dir() / "candidates" /
      (dir.filename().string() + "-" + std::to_string(::getpid()) + "-" + std::to_string(++builds));
  make_dir(work);
  struct Cleanup {
    fs::path dir;
    ~Cleanup() {
      std::error_code ignored;
      fs::remove_all(dir, ignored);
    }
  } cleanup{work};
  // Sources are named relative to their folder, also in the compiler's output.
  Workshop workshop{{dir, includes[0], includes[1]}, work, dir};
  for (const auto& language : all) workshop.read.push_back(language.dir);
  bool cuda = false;
  std::vector<std::string> objects;
  std::set<std::string> libraries;  // words of the linker for languages
  for (size_t i = 0; i < sources.size(); ++i) {
    const fs::path object =
        work / (std::to_string(i) + "-" + sources[i].filename().string() + ".o");
    const std::optional<Language> language = language_of(sources[i], all);
    cuda |= language ? language->cuda : sources[i].extension() == ".cu";
    fs::path source = fs::relative(sources[i], dir);
    std::vector<std::string> folders = includes;
    if (language) {
      const auto made = translated(*language, source, object, recipe.march, workshop, said);
      if (!made) return std::nullopt;
      source = *made;
      folders.push_back(language->dir);
      if (language->cuda) folders.push_back(cuda_home() / "include");
      if (!language->library.empty()) libraries.insert("-l" + language->library);
    }
    auto line = compile_line(source, object, folders, build_id, recipe);
    if (language && language->cuda)
      line.push_back("-DFK_BUILD_SM=\"" + join(architectures(), " ") + "\"");
    const int status = run_compiler(line, workshop, said);
    if (status == 127)
      fail("build", "`" + line[0] + "` cannot be started",
           cuda ? "CUDA sources need nvcc: on the PATH, or named by NVCC"
                : "is it installed and on the PATH?");
    if (status != 0) return need_room(work), std::nullopt;
    objects.push_back(object);
    fs::path archive = source;  // of a language that compiles to machine code itself
    if (language && fs::exists(archive.replace_extension(".a"))) objects.push_back(archive);
  }
  const fs::path library = work / "plugin.so", target = dir / (dir.filename().string() + ".so");
  std::vector<std::string> link = {environment("CXX", "c++"), "-shared", "-o", library.string()};
  link.insert(link.end(), objects.begin(), objects.end());
  link.insert(link.end(),
              {"-Wl,--version-script=" + (include_dir() / "fk/plugin.map").string(), "-Wl,-z,now",
               "-Wl,-z,defs", "-Wl,--exclude-libs,ALL", "-Wl,--build-id"});
  for (const auto& word : recipe.linker_words()) link.push_back(word);
  const bool runtime = cuda || contains(recipe.libraries, "cudart");
  link.insert(link.end(), libraries.begin(), libraries.end());
  if (runtime) link.insert(link.end(), {"-L" + (cuda_home() / "lib64").string(), "-lcudart"});
  if (run_compiler(link, workshop, said) != 0) return need_room(work), std::nullopt;
  std::error_code code;
  const fs::path fresh = target.string() + ".new";
  fs::copy_file(library, fresh, fs::copy_options::overwrite_existing, code);
  if (!code) fs::rename(fresh, target, code);
  if (code) fail(target.string(), "cannot be written: " + code.message());
  return target;
}

fs::path sources_of_build(const fs::path& plugin) {
  std::error_code code;
  const fs::path file = fs::canonical(plugin, code), dir = file.parent_path();
  if (code || file.stem() != dir.filename()) return {};
  try {
    const Sources now = sources_of(dir, languages());
    return !now.compiled.empty() && read_notes(file).build == now.build_id ? dir : fs::path();
  } catch (const std::exception&) {
    return {};  // the caller of the plugin reports its fault
  }
}

std::string stale_build(const fs::path& plugin) {
  std::error_code code;
  const fs::path file = fs::canonical(plugin, code), dir = file.parent_path();
  if (code || file.stem() != dir.filename()) return "";
  try {
    const std::string built_from = read_notes(file).build;
    const Sources now = sources_of(dir, languages());
    if (built_from.empty() || now.compiled.empty() || built_from == now.build_id) return "";
    return file.string() + " is out of date: it was built from sources (" + built_from +
           ") and the folder has (" + now.build_id +
           "): This report is about the old sources. `fk-host build " + build_name(dir) +
           "` compiles these, or says why it cannot";
  } catch (const std::exception&) {
    return "";  // the caller of the plugin reports its fault
  }
}

namespace {

struct BuildDocument {
  static constexpr const char* kSchema = "fk-host.build/1";
  static constexpr const char* kTitle = "A candidate that `fk-host build` compiled";
  std::string folder, file, plugin, version;
  std::vector<std::string> ops;
  bool built = false;
  std::vector<std::string> notes;
  std::string error, next, log;
};
template <class Visitor>
void fields(Visitor& v, BuildDocument& d) {
  v("folder", d.folder, "the folder of the sources");
  v("file", d.file, "the plugin; empty: nothing was compiled");
  v("plugin", d.plugin, "the name of the plugin");
  v("version", d.version, "its version");
  v("ops", d.ops, "its ops");
  v("built", d.built, "true: there is a plugin, and verbs take it");
  v("notes", d.notes, "remarks: lint, names, an older plugin that stays");
  v("error", d.error, "the first error; empty: none");
  v("next", d.next, "the next step: a hint for the error, or the command after this one");
  v("log", d.log, "the compilers' output, cut to a readable length");
}
FK_DOCUMENT(build, BuildDocument);

// Compiles the folder. `said` gets the compilers' words.
BuildDocument build_document(const fs::path& dir, std::string* said) {
  BuildDocument out;
  out.folder = dir;
  const auto library = build_candidate(dir, said);
  out.log = cut_words(*said);
  if (!library) {
    const fs::path old = dir / (dir.filename().string() + ".so");
    if (!stale_build(old).empty())
      out.notes.push_back(old.filename().string() +
                          " stays from older sources; each verb that uses it says so");
    out.error = first_error(*said);
    out.next = next_of_error(*said);
    if (out.next.empty()) out.next = "Mend this error first: later ones may follow from it.";
    return out;
  }
  out.built = true;
  for (const auto& finding : lint(*library, Trust::candidate)) {
    const std::string text = finding.rule + ": " + finding.text;
    if (finding.fatal) out.error = text;
    out.notes.push_back((finding.fatal ? "refused: " : "") + text);
    out.built &= !finding.fatal;
  }
  const PluginNote note = read_notes(*library);
  if (note.name != dir.filename())
    out.notes.push_back("the folder is `" + dir.filename().string() +
                        "`, and FK_PLUGIN names its plugin `" + note.name +
                        "`; reports say the plugin's name, commands take both");
  const Catalog catalog(paths::registry_dirs());
  for (const auto& op : note.ops) {
    const std::string why = note_mismatch(op, catalog);
    out.ops.push_back(op.op);
    if (!why.empty()) out.error = op.op + ": " + why;
    out.built &= why.empty();
  }
  out.file = *library;
  out.plugin = note.name;
  out.version = note.version;
  out.next = out.built ? "fk-host check " + build_name(dir)
                       : "Mend this error: no verb takes the plugin before.";
  return out;
}

void print_build(const BuildDocument& d) {
  for (const auto& note : d.notes)
    if (d.error.empty() || !ends_with(note, d.error))  // not the error again
      std::fprintf(stderr, "note: %s\n", note.c_str());
  if (d.built)
    std::printf("%s: %s %s with %s\n", d.file.c_str(), d.plugin.c_str(), d.version.c_str(),
                join(d.ops, ", ").c_str());
  if (!d.error.empty())
    std::fprintf(stderr, "fk-host: %s: %s\n", fs::path(d.folder).filename().c_str(),
                 d.error.c_str());
  if (!d.built) std::fprintf(stderr, "fk-host: %s\n", d.next.c_str());
}

struct BuildArguments {
  std::string name, arch;
  JsonOutput json;
};

int build(BuildArguments& a) {
  a.json.open();
  if (!a.arch.empty()) ::setenv("FK_CUDA_ARCH", a.arch.c_str(), 1);
  std::string said;
  const BuildDocument result = build_document(candidate_dir(a.name), &said);
  if (a.json.with_report()) std::fputs(said.c_str(), stderr);
  if (a.json.with_report()) print_build(result);
  if (a.json.given()) a.json.write(document(result));
  return result.built ? kExitOk : kExitFailed;
}

std::function<int()> add_build(const Options& app) {
  auto a = std::make_shared<BuildArguments>();
  app.add_option("NAME", a->name, "a folder of candidates/, or a path").required();
  app.add_option("--arch", a->arch, "compute capabilities of device code: 80, 90a or \"90a 100a\"");
  a->json.declare(app);
  return [a] { return build(*a); };
}

FK_VERB(build, "compile a candidate with the mandatory flags", add_build);

}  // namespace
}  // namespace fk
