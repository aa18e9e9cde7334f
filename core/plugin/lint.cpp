// SPDX-License-Identifier: Apache-2.0
// The lint of a plugin's ELF structure. Each rule prevents a failure that would be silent or fatal
// after loading. docs/abi.md lists the rules.
#include <algorithm>
#include <optional>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/device/launch_facts.hpp"
#include "core/base/elf.hpp"
#include "core/plugin/abi_major.hpp"
#include "core/plugin/libraries.hpp"
#include "core/plugin/notes.hpp"
#include "fk/plugin.h"

namespace fk {

namespace {

// A baseline that needs one gets a warning, because each library brings its own runtime into the
// process. A candidate may not link them: may_link() lists the libraries that it may.
constexpr std::string_view kRuntimes[] = {"libtorch", "libc10", "libpython"};

// Exchanges between ranks go through the host's communicator, in every plugin: a private
// communicator would connect ranks outside of the host's supervision.
constexpr std::string_view kCommunicators[] = {"libnccl", "librccl", "libnvshmem"};

// Environment variables that only NVIDIA's kernel libraries read (CUDA 12 and 13, cuDNN 8 and 9). A
// file with such a library linked statically contains their names.
constexpr std::string_view kWordsOfLibraries[] = {
    "CUBLAS_LOGINFO_DBG", "CUBLAS_NVTX_LEVEL", "CUBLASLT_LOG_LEVEL",  "CUBLASLT_NVTX_LEVEL",
    "CUDNN_LOGINFO_DBG",  "CUDNN_NVTX_LEVEL",  "CUSPARSE_NVTX_LEVEL", "CUSOLVERDN_NVTX_LEVEL",
};

// True if the library's file name, without its folder, begins with a word of the list.
template <size_t N>
bool begins_with_one_of(const std::string_view (&list)[N], const std::string& library) {
  const std::string file = library.substr(library.rfind('/') + 1);
  return std::any_of(std::begin(list), std::end(list),
                     [&](std::string_view prefix) { return file.starts_with(prefix); });
}

// For example "3 weak symbols (`a`)", with the first name.
std::string count_text(const std::vector<std::string>& names, const std::string& what) {
  return std::to_string(names.size()) + " " + what + (names.size() == 1 ? " symbol" : " symbols") +
         " (`" + excerpt(names[0]) + "`)";
}

// The major of an entry that this host loads.
std::optional<uint32_t> major_of_entry(const Elf::Symbol& symbol) {
  for (uint32_t major = kOldestAbiMajor; major <= FK_ABI_MAJOR; ++major)
    if (symbol.type == STT_FUNC && symbol.name == entry_symbol(major)) return major;
  return std::nullopt;
}

// In all findings, `true` is fatal: the plugin is refused.
void lint_entry(const Elf& elf, std::vector<uint32_t> entries, std::vector<Finding>& out) {
  std::sort(entries.begin(), entries.end());
  uint32_t noted = FK_ABI_MAJOR;
  for (const auto& note : elf.notes()) noted = major_of_note(note).value_or(noted);
  if (const std::string wrong = wrong_entry(entries, noted); !wrong.empty())
    out.push_back({/*fatal=*/true, "entry_symbol", wrong});
  if (const std::string old = old_abi(noted); !old.empty())
    out.push_back({/*fatal=*/false, "abi", old});
}

void lint_exports(const Elf& elf, std::vector<Finding>& out) {
  std::vector<std::string> unique, weak, others;
  std::vector<uint32_t> entries;
  for (const auto& symbol : elf.exports()) {
    if (symbol.binding == STB_GNU_UNIQUE)
      unique.push_back(symbol.name);
    else if (symbol.binding == STB_WEAK)
      weak.push_back(symbol.name);
    else if (const auto major = major_of_entry(symbol))
      entries.push_back(*major);
    else
      others.push_back(symbol.name);
  }
  lint_entry(elf, entries, out);
  if (!unique.empty()) {
    out.push_back({/*fatal=*/true, "unique_export",
                   "exports " + count_text(unique, "UNIQUE") +
                       ", shared with every other plugin; compile with -fno-gnu-unique "
                       "-fvisibility=hidden"});
  }
  if (!weak.empty()) {
    out.push_back({/*fatal=*/true, "weak_export",
                   "exports " + count_text(weak, "weak") +
                       ", which another library can replace; compile with "
                       "-fvisibility-inlines-hidden and link with fk/plugin.map"});
  }
  if (!others.empty()) {
    out.push_back({/*fatal=*/true, "one_symbol",
                   "exports " + count_text(others, "more") + " besides " + FK_PLUGIN_SYMBOL +
                       "; link with fk/plugin.map as version script"});
  }
}

void lint_needed(const Elf& elf, Trust trust, std::vector<Finding>& out) {
  for (const int64_t tag : {int64_t{DT_NEEDED}, int64_t{DT_AUXILIARY}, int64_t{DT_FILTER}}) {
    for (const auto& library : elf.entry_texts(tag)) {
      if (begins_with_one_of(kCommunicators, library)) {
        out.push_back({/*fatal=*/true, "needed",
                       "needs `" + excerpt(library) +
                           "`; ranks exchange through the host's communicator (fk_comm)"});
      } else if (trust == Trust::candidate && !may_link(library)) {
        out.push_back(
            {/*fatal=*/true, "needed",
             "needs `" + excerpt(library) +
                 "`; a candidate links libc, libm, libstdc++, libgcc_s, "
                 "libgomp, libcudart and libOpenCL only. A plugin in a folder of FK_PLUGIN_PATH "
                 "is a baseline, which may link it"});
      } else if (trust == Trust::baseline && begins_with_one_of(kRuntimes, library)) {
        out.push_back({/*fatal=*/false, "needed",
                       "needs `" + excerpt(library) + "`, which brings a runtime of its own"});
      }
    }
  }
}

// Searches a candidate's file for names from vendor libraries. Statically linked library code, and
// kernels cut out of a library, appear in no list of needed libraries. Deliberate hiding is not
// found here; LaunchFacts also checks the names of kernels that run.
void lint_embedded(const Elf& elf, Trust trust, std::vector<Finding>& out) {
  constexpr uint64_t kPart = 4 << 20, kOverlap = 64;  // longer than any searched word
  if (trust != Trust::candidate) return;
  for (uint64_t at = 0; at < elf.file_bytes(); at += kPart) {
    const auto part = elf.read(at, std::min(kPart + kOverlap, elf.file_bytes() - at));
    const std::string_view text(reinterpret_cast<const char*>(part.data()), part.size());
    for (const std::string_view word : kWordsOfLibraries) {
      if (text.find(word) == text.npos) continue;
      out.push_back({/*fatal=*/true, "embedded",
                     "has `" + std::string(word) + "`: a vendor library is linked statically"});
      return;
    }
    if (const auto name = kernel_of_library(text); !name.empty()) {
      out.push_back({/*fatal=*/true, "embedded",
                     "has `" + std::string(name) + "`: it contains a kernel of a vendor library"});
      return;
    }
  }
}

void lint_flags(const Elf& elf, Trust trust, std::vector<Finding>& out) {
  const bool strict = trust == Trust::candidate;
  const uint64_t flags = elf.entry(DT_FLAGS), flags_1 = elf.entry(DT_FLAGS_1);
  if (flags & DF_STATIC_TLS) {
    out.push_back({/*fatal=*/true, "static_tls",
                   "uses static thread-local storage, which is scarce in a process; compile with "
                   "-ftls-model=global-dynamic"});
  }
  if (elf.has(DT_TEXTREL) || (flags & DF_TEXTREL))
    out.push_back(
        {/*fatal=*/true, "text_relocation", "has relocations in its code; compile with -fPIC"});
  for (const int64_t tag : {int64_t{DT_RPATH}, int64_t{DT_RUNPATH}}) {
    for (const auto& path : elf.entry_texts(tag)) {
      out.push_back({strict, "search_path",
                     "has the library search path `" + excerpt(path) + "`; link without -rpath"});
    }
  }
  if (!elf.has(DT_BIND_NOW) && !(flags & DF_BIND_NOW) && !(flags_1 & DF_1_NOW)) {
    out.push_back(
        {strict, "bind_now",
         "resolves symbols lazily, so a missing symbol stops a run midway; link with -z now"});
  }
  const auto& segments = elf.segments();
  if (std::none_of(segments.begin(), segments.end(),
                   [](const auto& s) { return s.p_type == PT_GNU_STACK; }))
    out.push_back({strict, "executable_stack",
                   "does not say that its stack holds no code; link with -z noexecstack"});
  for (const auto& segment : segments) {
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) && (segment.p_flags & PF_X)) {
      out.push_back({strict, "writable_code", "has a segment that is writable and executable"});
    }
    if (segment.p_type == PT_GNU_STACK && (segment.p_flags & PF_X)) {
      out.push_back(
          {strict, "executable_stack", "asks for an executable stack; link with -z noexecstack"});
    }
  }
  // The compiler adds one entry; each source file with static constructors adds one more.
  const uint64_t constructors = elf.entry(DT_INIT_ARRAYSZ) / 8;
  if (constructors > 1) {
    out.push_back({/*fatal=*/false, "constructors",
                   "runs " + std::to_string(constructors - 1) +
                       (constructors == 2 ? " static constructor" : " static constructors") +
                       " at load, before the host calls any function"});
  }
}

}  // namespace

std::vector<std::string> legal_libraries(const std::filesystem::path& file) {
  std::vector<std::string> names;
  for (auto& library : Elf(file).entry_texts(DT_NEEDED))
    if (may_link(library)) names.push_back(std::move(library));
  return names;
}

std::vector<Finding> lint(const std::filesystem::path& file, Trust trust) {
  const Elf elf(file);
  std::vector<Finding> out;
  try {
    lint_exports(elf, out);
    lint_needed(elf, trust, out);
    lint_flags(elf, trust, out);
    lint_embedded(elf, trust, out);
  } catch (const Error& error) {
    out.push_back({/*fatal=*/true, "structure", error.what_text()});
  }
  return out;
}

std::string broken_rule(const std::filesystem::path& file, Trust trust) {
  try {
    for (const auto& finding : lint(file, trust))
      if (finding.fatal) return finding.rule + ": " + finding.text;
  } catch (const Error& error) {
    return "structure: " + error.what_text();
  }
  return {};
}

}  // namespace fk
