// SPDX-License-Identifier: Apache-2.0
#include "core/cli/author/task.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/compiler.hpp"
#include "core/contract/show.hpp"
#include "core/judge/verdict/verdict.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

std::string task_template() {
  for (const char* dir : {"plugin_api/template", "template"}) {  // in the source tree; installed
    const fs::path file = paths::home() / dir / "task.md";
    std::error_code none;
    if (fs::is_regular_file(file, none)) return read_file(file);
  }
  fail(paths::home().string(), "it has no plugin_api/template/task.md and no template/task.md");
}

// `text` with a value for each "{key}". Values may contain braces.
std::string filled(const std::string& text,
                   const std::vector<std::pair<std::string, std::string>>& values) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    bool found = false;
    for (const auto& [key, value] : values) {
      const std::string mark = "{" + key + "}";
      if (text.compare(at, mark.size(), mark) != 0) continue;
      out += value;
      at += mark.size();
      found = true;
      break;
    }
    if (!found) out += text[at++];
  }
  return out;
}

// Compilers, flags and headers of the source's language.
std::string toolchain_of(const fs::path& file) {
  const std::string extension = file.extension();
  const std::string libraries =
      "- Libraries: libc, libm, libmvec, libstdc++, libgcc, libgomp and the CUDA runtime. No ready "
      "kernels.";
  if (extension == ".cu")
    return "- Flags: nvcc has -O3 and -std=c++17, for compute capability " +
           environment("FK_CUDA_ARCH", "90a") +
           " (`build --arch`). A file `candidate.yaml`\n  beside the source adds others, such as "
           "`cuda_flags: [--use_fast_math, -lineinfo]`.\n"
           "- Headers: the folder's, `fk/ops/OP.h`, the system's and CUDA's (`cuda_bf16.h`, "
           "`cuda_fp8.h`, `mma.h`).\n" +
           libraries +
           "\n- `forward()` launches on `ctx.stream` alone; a graph may capture it. Clusters, TMA, "
           "wgmma\n"
           "  and programmatic dependent launches are allowed.";
  if (extension == ".c" || extension == ".cpp")
    return "- Flags: -O3 is set. `march: native` in a file `candidate.yaml` beside the source "
           "compiles for this\n  processor. OpenMP and libm need no flag.\n"
           "- Headers: the folder's, `fk/ops/OP.h`, `fk/cpp/floats.hpp` (load, store, is_float) "
           "and "
           "the system's.\n" +
           libraries;
  return "- Compilers and rules of this language: `docs/candidates_in_*.md`.";
}

std::string alignment_of(const fs::path& file) {
  const std::string words =
      "Data starts at a multiple of `fk_alignment(view)` bytes: the largest power of two, up to "
      "16, "
      "which divides\nthe byte strides of all axes but the last; one element with one axis. ";
  return words +
         (file.extension() == ".cu"
              ? "A load of 16 bytes needs a check of it, in\nsupports() or in forward(). "
              : "") +
         "Weights start at 16 bytes, memory from fk_need at 256.";
}

}  // namespace

std::string task_page(const Contract& contract, const TaskPage& page) {
  const Policy policy;
  const std::string text = task_template();
  const auto with = [&](const PageParts& parts, bool source) {
    std::string body = contract_page(contract, parts);
    if (source) body += fmt::format("\n## {}\n\n```\n{}```\n", page.file, page.source);
    return filled(text, {{"op", contract.op},
                         {"file", page.file},
                         {"state", page.state},
                         {"name", page.name},
                         {"compile_seconds", fmt::format("{:.0f}", Workshop().seconds)},
                         {"compile_memory", human_bytes(kCompilerMemory)},
                         {"patience", fmt::format("{:.0f}", policy.patience_s)},
                         {"budget", fmt::format("{:.0f}", policy.budget_s)},
                         {"toolchain", toolchain_of(page.file)},
                         {"alignment", alignment_of(page.file)},
                         {"contract", body}});
  };
  struct Level {
    PageParts parts;
    bool source;
  };
  std::vector<Level> levels;
  for (const bool mirrors : {true, false})
    for (const bool source : {true, false})
      for (const size_t cases : {12, 6, 4, 2, 1, 0})
        levels.push_back({{.cases = cases, .mirrors = mirrors, .commands = false}, source});
  for (const auto& level : levels) {
    if (level.source && page.source.empty()) continue;
    std::string out = with(level.parts, level.source);
    if (out.size() <= kTaskPageMax) return out;
  }
  fail("new --task", fmt::format("the contract of {} is too long for a page of {} characters",
                                 contract.op, kTaskPageMax));
}

}  // namespace fk
