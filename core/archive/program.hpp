// SPDX-License-Identifier: Apache-2.0
// A program: the sources of one candidate for one op on one kind of device. A verdict of it is
// feedback for the next step of an agent.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.hpp"
#include "core/judge/verdict/verdict.hpp"

namespace fk {

struct ProgramFile {
  std::string name;  // below the candidate's folder
  std::string text;
};
template <class Visitor>
void fields(Visitor& v, ProgramFile& f) {
  v("name", f.name, "its name in the candidate's folder");
  v("text", f.text, "its text");
}

// An author's words about a program: the file kNotesFile beside the sources.
struct ProgramNotes {
  std::string author, strategy, stage, tag, license;
  std::vector<std::string> parents;  // ids of programs
  std::optional<double> predicted_gain;
  int64_t island = 0;
};
inline constexpr const char* kNotesFile = "notes.json";
inline constexpr size_t kNotesMost = size_t{64} << 10;  // bytes
inline constexpr const char* kStages[] = {"draft", "refine"};
template <class Visitor>
void fields(Visitor& v, ProgramNotes& n) {
  v.optional("author", n.author, !n.author.empty(), "an agent or a person");
  v.optional("parents", n.parents, !n.parents.empty(), "ids of the programs that it comes from");
  v.optional("strategy", n.strategy, !n.strategy.empty(), "the idea of the change, in words");
  v.optional("stage", n.stage, !n.stage.empty(), "draft: new; refine: a change of its parent");
  v.optional("predicted_gain", n.predicted_gain, n.predicted_gain.has_value(),
             "its expected speed over the first parent's; 1: no gain");
  v.optional("tag", n.tag, !n.tag.empty(), "a declared kind, for diversity");
  v.optional("license", n.license, !n.license.empty(), "SPDX name of the source's licence");
  v.optional("island", n.island, n.island != 0, "the part of a population that it belongs to");
}
// The notes of a candidate's folder; none without the file. Error with place for an unknown stage,
// a wrong type and an unknown key.
ProgramNotes load_notes(const std::filesystem::path& folder);
ProgramNotes notes_from(const Json& json, const std::string& name);

// Facts about a program without its times. The driver's facts are the largest of all cases.
struct Features {
  std::optional<int64_t> launches, shared_bytes, registers;
  std::optional<bool> tensor_cores;  // device code has instructions of matrix units
  std::optional<bool> threads;       // code for the CPU has OpenMP
  std::string tag;
};
template <class Visitor>
void fields(Visitor& v, Features& f) {
  v.optional("launches", f.launches, f.launches.has_value(), "launched kernels of one call");
  v.optional("shared_bytes", f.shared_bytes, f.shared_bytes.has_value(),
             "shared memory of a block, bytes");
  v.optional("registers", f.registers, f.registers.has_value(), "registers of a thread");
  v.optional("tensor_cores", f.tensor_cores, f.tensor_cores.has_value(),
             "device code uses matrix units");
  v.optional("threads", f.threads, f.threads.has_value(), "code for the CPU has OpenMP pragmas");
  v.optional("tag", f.tag, !f.tag.empty(), "the author's tag");
}

// Feedback of one case.
struct CaseFeedback {
  std::string name, status, why;
  std::optional<double> speed, low, high, of_roofline;
};
template <class Visitor>
void fields(Visitor& v, CaseFeedback& c) {
  v("case", c.name, "the case");
  v("status", c.status, "its status");
  v("why", c.why, "one sentence");
  v("speed", c.speed, "the baseline's time over the program's; null: it was not timed");
  v("low", c.low, "lower end of its 99 % interval");
  v("high", c.high, "upper end");
  v("of_roofline", c.of_roofline, "least time of the device over its time; null: unknown");
}

struct ProgramVerdict {
  std::string time, device, host, receipt, baseline;
  std::string status, why, evidence, next, log;
  std::optional<double> speed, low, high;
  std::string size;
  double seconds = 0;  // of timing per case; 0: correctness alone
  bool thorough = false;
  std::vector<CaseFeedback> cases;
  bool right() const {
    const auto known = status_of(status);
    return known && is_right(*known);
  }
};
template <class Visitor>
void fields(Visitor& v, ProgramVerdict& p) {
  v("time", p.time, "begin of the judgement, UTC");
  v("device", p.device, "the device");
  v("host", p.host, "version of fk-host");
  v("receipt", p.receipt, "id of the signed receipt; empty: there is none");
  v("baseline", p.baseline, "the plugins that it raced; empty: none");
  v("size", p.size, "size of the cases");
  v("seconds", p.seconds, "timing per case; 0: correctness alone");
  v("thorough", p.thorough, "true: no case was left out");
  v("status", p.status, "the status");
  v("why", p.why, "the reason");
  v("evidence", p.evidence, "the evidence");
  v("next", p.next, "the next step");
  v("log", p.log, "the end of the compiler's or the candidate's output");
  v("speed", p.speed, "the baseline's time over the program's; null: it was not timed");
  v("low", p.low, "lower end of its 99 % interval");
  v("high", p.high, "upper end");
  v("cases", p.cases, "cases that failed or were timed");
}

struct JudgedProgram {
  std::string id;  // SHA-256 of op, kind of device and files
  std::string op, family, kind, language, name, created;
  std::string normal;   // SHA-256 of its normalised source
  std::string binary;   // SHA-256 of its code and data; empty: unknown
  std::string same_as;  // an earlier program that has the same normalised source or binary
  ProgramNotes notes;
  Features features;
  std::vector<ProgramFile> files;  // empty in lists
  // The best of its verdicts: a right one with times, else the last one.
  ProgramVerdict verdict;
};
template <class Visitor>
void fields(Visitor& v, JudgedProgram& p) {
  v("id", p.id, "SHA-256 of op, kind of device and files");
  v("op", p.op, "the op");
  v("family", p.family, "the op's family");
  v("kind", p.kind, "kind of device: cpu, cuda");
  v("language", p.language, "language of the first source");
  v("name", p.name, "the candidate's name");
  v("created", p.created, "when the archive got it, UTC");
  v("same_as", p.same_as, "an earlier program with the same code; empty: none");
  v("notes", p.notes, "its author's words");
  v("features", p.features, "what is known without its times");
  v.optional("files", p.files, !p.files.empty(), "its sources");
  v("verdict", p.verdict, "the right and timed verdict with the highest lower end, or the last");
}

// Sources without comments and with one blank for white space outside of texts. Equal programs have
// equal texts. `language`: an extension such as ".cpp" or ".py".
std::string normalised(const std::string& text, const std::string& extension);
// SHA-256 of normalised sources, without the plugin's name.
std::string normal_hash(const std::vector<ProgramFile>& files);
// SHA-256 of the code and constants of a plugin, without its notes; empty when it cannot be read.
std::string binary_hash(const std::filesystem::path& plugin);
// Ops that sources implement, by their words and names. For sources that do not compile.
std::vector<std::string> ops_of_sources(const std::vector<ProgramFile>& files);
std::string program_id(const std::string& op, const std::string& kind,
                       const std::vector<ProgramFile>& files);
// "cuda:0" -> "cuda"
std::string kind_of_device(const std::string& device);

// The part of a verdict about one op; all of it if no case names an op.
ProgramVerdict feedback_of(const Verdict& verdict, const std::string& op);
Features features_of(const Verdict& verdict, const std::string& op, const std::string& kind,
                     const std::vector<ProgramFile>& files);

}  // namespace fk
