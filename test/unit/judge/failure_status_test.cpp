// SPDX-License-Identifier: Apache-2.0
// The verdict on a candidate whose process ended, or sent no answer. It has the status which leads
// to the fault, and the evidence.
#include "core/judge/case_run.hpp"

#include "test/catch.hpp"

using namespace fk;

namespace {

CaseVerdict ended(const std::string& kind, const std::string& text, const std::string& log = "") {
  CaseVerdict row;
  blame_failure(row, {kind, "rms_norm", text, log});
  return row;
}

CaseVerdict said(const std::string& words) {
  CaseVerdict row;
  blame_words(row, words);
  return row;
}

}  // namespace

TEST_CASE("blame_of_a_process_that_ended_has_its_status_and_what_it_printed") {
  const auto memory = ended("memory", "took 3.1 GiB, 2.0 GiB are allowed", "the last words");
  CHECK(memory.status == Status::memory);
  CHECK_THAT(memory.why, ContainsSubstring("3.1 GiB") && ContainsSubstring("rms_norm"));
  CHECK(memory.evidence == "the last words");
  // An answer that nobody asked for is no accident.
  const auto cheating = ended("protocol", "it answered what was not asked", "printed");
  CHECK(cheating.status == Status::cheating);
  CHECK_THAT(cheating.why, ContainsSubstring("what was not asked"));
  CHECK(cheating.evidence == "printed");
  CHECK(ended("crashed", "crashed: SIGSEGV").status == Status::crashed);
  // A rank takes its process with it where its device is lost.
  CHECK(ended("lost", "rank 2: forward: unspecified launch failure").status == Status::crashed);
  CHECK(ended("lost", "rank 2: an illegal memory access").status == Status::illegal_access);
  CHECK(ended("hang", "gave no sign of life").status == Status::hang);
  CHECK(ended("environment", "cannot be started").status == Status::environment);
  const auto forbidden = ended("forbidden", "it called execve");
  CHECK(forbidden.status == Status::violation);
  CHECK(forbidden.rule == "sandbox");
  CHECK(ended("crashed", "", std::string(5000, 'x')).evidence.size() == 2000);
  // Inputs cannot be written: who tries breaks that rule, who leaves a tensor touches what is not
  // its own.
  const auto input = ended("crashed", "crashed: SIGSEGV at address 0x70, a write to the input x");
  CHECK(input.status == Status::violation);
  CHECK(input.rule == "input");
  const auto past = ended("crashed", "crashed: SIGSEGV at address 0x70, past the end of x");
  CHECK(past.status == Status::illegal_access);
  CHECK(past.rule.empty());
  CaseVerdict row;
  blame_failure(row, {"exited", "", "called exit(3)", "", "Return an error."});
  CHECK(row.next == "Return an error.");
}

TEST_CASE("blame_of_words_knows_the_limits_of_the_sandbox") {
  struct Row {
    const char *words, *next;
    Status status;
  };
  const Row rows[] = {
      {"forward: std::bad_alloc", "Check the computed size", Status::memory},
      {"prepare: std::bad_array_new_length", "Check the computed size", Status::memory},
      {"create: mmap: Cannot allocate memory", "Check the computed size", Status::memory},
      {"forward: open: Too many open files", "256 descriptors", Status::violation},
      {"forward: Resource temporarily unavailable", "threads", Status::violation},
      {"create: fopen: Permission denied", "opens no files", Status::violation},
      {"forward: socket: Operation not permitted", "The sandbox refuses the call", Status::violation},
      {"forward: clone3: Function not implemented", "The sandbox refuses the call", Status::violation},
      {"forward: tile size 7", "", Status::violation}};
  for (const Row& one : rows) {
    INFO(one.words);
    const auto row = said(one.words);
    CHECK(row.status == one.status);
    CHECK(row.rule.empty() == (one.status == Status::memory));
    CHECK_THAT(row.next, ContainsSubstring(one.next));
    CHECK(row.next.empty() == (*one.next == 0));
  }
}

TEST_CASE("blame_of_words_knows_captures_refusals_and_what_a_device_says") {
  const auto graph = said("capture: silu_and_mul: allocates memory in a graph");
  CHECK(graph.status == Status::graph_unsafe);
  CHECK(graph.rule == "graph");
  CHECK(graph.why == "silu_and_mul: allocates memory in a graph");
  const auto refused = said("refused: only bf16");
  CHECK(refused.status == Status::refused);
  CHECK(refused.why == "only bf16");
  for (const char* words : {"forward: an illegal memory access was encountered",
                            "an op failed on the device: misaligned address"})
    CHECK(said(words).status == Status::illegal_access);
  for (const char* rule : {"prepare", "forward", "plan", "create"}) {
    const auto row = said(std::string(rule) + ": cannot");
    CHECK(row.status == Status::violation);
    CHECK(row.rule == rule);
  }
}
