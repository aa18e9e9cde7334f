// SPDX-License-Identifier: Apache-2.0
#include "core/archive/program.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/base/io.hpp"
#include "core/base/json.hpp"
#include "core/base/sha256.hpp"
#include "core/base/elf.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

constexpr size_t kLogMost = 4000, kSentenceMost = 500;
constexpr size_t kCasesMost = 32;

std::string ending(const std::string& text, size_t most) {
  return text.size() <= most ? text : "..." + text.substr(text.size() - most);
}

// The largest known value.
void raise(std::optional<int64_t>& to, const std::optional<int64_t>& value) {
  if (value && (!to || *value > *to)) to = value;
}

// Skips a text in quotes that begins at `at`; returns the place behind it.
size_t behind_quotes(const std::string& text, size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote && text[at] != '\n'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

ProgramNotes notes_from(const Json& json, const std::string& name) {
  ProgramNotes out = from_fields<ProgramNotes>(json, name, {});
  // A misspelt key would be lost without a word.
  static const std::vector<std::string> known = {"author",         "parents", "strategy", "stage",
                                                 "predicted_gain", "tag",     "license",  "island"};
  for (const auto& [key, value] : json.items())
    if (!contains(known, key))
      fail(name, "has an unknown key `" + excerpt(key) + "`", did_you_mean(key, known));
  if (!out.stage.empty()) {
    const std::vector<std::string> stages(std::begin(kStages), std::end(kStages));
    need_known({out.stage}, stages, name + ".stage", "stage");
  }
  if (out.predicted_gain && !(*out.predicted_gain > 0))
    fail(name + ".predicted_gain", "is no positive number", "1.2 means 1.2 times the speed");
  return out;
}

ProgramNotes load_notes(const fs::path& folder) {
  const fs::path file = folder / kNotesFile;
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return {};
  return notes_from(parse_json(read_file(file, kNotesMost), file.string()), file.string());
}

std::string normalised(const std::string& text, const std::string& extension) {
  const bool python = extension == ".py" || extension == ".yaml";
  std::string out;
  const auto blank = [&] {
    if (!out.empty() && out.back() != ' ') out += ' ';
  };
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const char next = at + 1 < text.size() ? text[at + 1] : '\0';
    if (c == '"' || (c == '\'' && (python || at == 0 || !is_word(text[at - 1])))) {
      const size_t end = behind_quotes(text, at);
      out.append(text, at, end - at);
      at = end;
    } else if ((python && c == '#') || (!python && c == '/' && next == '/')) {
      at = std::min(text.find('\n', at), text.size());
    } else if (!python && c == '/' && next == '*') {
      const size_t end = text.find("*/", at + 2);
      at = end == text.npos ? text.size() : end + 2;
      blank();
    } else if (c == '\n' && python) {
      // An indentation has a meaning.
      while (!out.empty() && (out.back() == ' ' || out.back() == '\n')) out.pop_back();
      out += '\n';
      for (++at; at < text.size() && (text[at] == ' ' || text[at] == '\t'); ++at) out += text[at];
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      // A line with # ends where it ends.
      const size_t line = out.rfind('\n') == out.npos ? 0 : out.rfind('\n') + 1;
      const size_t first = out.find_first_not_of(' ', line);
      if (c == '\n' && first != out.npos && out[first] == '#' && out.back() != '\\') {
        while (!out.empty() && out.back() == ' ') out.pop_back();
        out += '\n';
      } else if (!out.empty() && out.back() != '\n') {
        blank();
      }
      ++at;
    } else if (!python && c == '#') {
      if (!out.empty() && out.back() != '\n') out += '\n';
      out += text[at++];
    } else {
      // A blank counts only between two words.
      if (!python && !out.empty() && out.back() == ' ' && out.size() > 1 &&
          out.rfind('\n') != out.size() - 2 && !(is_word(c) && is_word(out[out.size() - 2]))) {
        const size_t line = out.rfind('\n') == out.npos ? 0 : out.rfind('\n') + 1;
        if (out[line] != '#') out.pop_back();
      }
      out += text[at++];
    }
  }
  while (!out.empty() && (out.back() == ' ' || out.back() == '\n')) out.pop_back();
  return out;
}

std::string normal_hash(const std::vector<ProgramFile>& files) {
  // Another name is no other program: C++, Python and Rust name a plugin so.
  static const std::regex name(R"re((FK_PLUGIN ?\(|PLUGIN ?= ?\(|fk::plugin! ?\()"[^"]*")re");
  std::string all;
  for (const auto& file : files) {
    const std::string text = std::regex_replace(
        normalised(file.text, fs::path(file.name).extension().string()), name, "$1\"\"");
    if (!text.empty()) all += fs::path(file.name).extension().string() + " " + sha256(text) + "\n";
  }
  return sha256(all);
}

std::string binary_hash(const fs::path& plugin) {
  try {
    const Elf elf(plugin);
    Sha256 hash;
    for (const char* name : {".text", ".rodata", ".data", ".nv_fatbin"}) {
      const auto section = elf.section(name);
      hash.update(std::string(name) + " " + std::to_string(section ? section->bytes : 0) + "\n");
      if (!section) continue;
      const std::vector<std::byte> bytes = elf.read(section->offset, section->bytes);
      hash.update(bytes);
    }
    return hex_text(hash.finish());
  } catch (const Error&) {
    return {};  // a plugin that cannot be read has a verdict, and no known code
  }
}

std::vector<std::string> ops_of_sources(const std::vector<ProgramFile>& files) {
  static const std::regex macro(R"(\bFK_OP\(\s*(\w+))"),
      header(R"re(#include "fk/ops/(\w+)\.h")re");
  std::vector<std::string> out;
  for (const std::regex* const form : {&macro, &header}) {
    for (const auto& file : files)
      for (auto it = std::sregex_iterator(file.text.begin(), file.text.end(), *form);
           it != std::sregex_iterator(); ++it)
        if (!contains(out, (*it)[1].str())) out.push_back((*it)[1]);
    if (!out.empty()) return out;
  }
  for (const auto& file : files) {
    const fs::path path = file.name;
    if (path.extension() != ".yaml") out.push_back(path.stem());
  }
  return out;
}

std::string program_id(const std::string& op, const std::string& kind,
                       const std::vector<ProgramFile>& files) {
  std::string all = op + "\n" + kind + "\n";
  for (const auto& file : files) all += file.name + " " + sha256(file.text) + "\n";
  return sha256(all);
}

std::string kind_of_device(const std::string& device) { return device.substr(0, device.find(':')); }

ProgramVerdict feedback_of(const Verdict& verdict, const std::string& op) {
  Verdict part = verdict;
  std::erase_if(part.cases, [&](const CaseVerdict& c) { return c.op != op; });
  if (part.cases.empty()) part.cases = verdict.cases;
  if (part.cases.size() != verdict.cases.size()) {
    part.why.clear(), part.evidence.clear(), part.next.clear();
    part.aggregate = {};
    conclude(part);
  }
  ProgramVerdict out;
  out.time = verdict.time, out.device = verdict.device, out.host = verdict.host_version;
  out.receipt = verdict.receipt;
  std::vector<std::string> baselines;
  for (const auto& baseline : verdict.baselines) baselines.push_back(baseline.name);
  out.baseline = join(baselines, " ");
  out.status = name_of(part.status);
  out.why = excerpt(part.why, kSentenceMost), out.evidence = excerpt(part.evidence, kSentenceMost);
  out.next = excerpt(part.next, kSentenceMost);
  out.log = printable(ending(verdict.log, kLogMost), "\n\t");
  const Ratio& ratio = part.aggregate.ratio;
  if (ratio.value > 0) out.speed = ratio.value, out.low = ratio.low, out.high = ratio.high;
  out.size = verdict.policy.size;
  out.seconds = verdict.policy.seconds;
  out.thorough = verdict.policy.thorough;
  for (const auto& c : part.cases) {
    if (c.left_out || (c.timings.empty() && !is_failure(c.status))) continue;
    if (out.cases.size() == kCasesMost) break;
    CaseFeedback row{c.case_name + (c.variant.empty() ? "" : " " + c.variant),
                     name_of(c.status),
                     excerpt(c.why, kSentenceMost),
                     {},
                     {},
                     {},
                     {}};
    if (!c.timings.empty()) {
      const TimingRow& t = c.timings.front();
      if (t.ratio.value > 0)
        row.speed = t.ratio.value, row.low = t.ratio.low, row.high = t.ratio.high;
      row.of_roofline = t.candidate.roofline;
    }
    out.cases.push_back(std::move(row));
  }
  return out;
}

Features features_of(const Verdict& verdict, const std::string& op, const std::string& kind,
                     const std::vector<ProgramFile>& files) {
  Features out;
  for (const auto& c : verdict.cases) {
    if (c.op != op) continue;
    for (const auto& t : c.timings) {
      raise(out.launches, t.candidate.launches);
      raise(out.shared_bytes, t.candidate.shared_bytes);
      raise(out.registers, t.candidate.registers);
    }
  }
  static const std::regex matrix(
      R"(\bw?g?mma\b|mma_sync|mma\.sync|wgmma|tcgen05|nvcuda::wmma|\btl\.dot\b|\bT\.gemm\b|cute\.gemm)");
  static const std::regex parallel(R"(#\s*pragma\s+omp\s+parallel)");
  const auto has = [&](const std::regex& form) {
    return std::any_of(files.begin(), files.end(), [&](const ProgramFile& file) {
      return std::regex_search(normalised(file.text, fs::path(file.name).extension().string()),
                               form);
    });
  };
  if (kind == "cpu")
    out.threads = has(parallel);
  else
    out.tensor_cores = has(matrix);
  return out;
}

}  // namespace fk
