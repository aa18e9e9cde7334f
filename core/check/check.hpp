// SPDX-License-Identifier: Apache-2.0
// Conformance: a provider must keep every promise of the contract, and give right values.
//
// Each case and variant (dtype, layout, optional fields, shapes) takes these steps. supports() is
// asked three times with null data. create, prepare and forward run on poisoned outputs and
// scratch, with guarded memory. All of this comes again at other addresses with other poison. Calls
// are captured and replayed where the provider claims that. The values are compared with the
// reference provider's under an error model. All runs in the calling process, which a bad plugin
// may crash. So the verb `check` calls it in a worker process (core/cli/check.cpp).
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/cases/inputs.hpp"
#include "core/cases/selection.hpp"
#include "core/comm/communicator.hpp"
#include "core/device/device.hpp"
#include "core/plugin/library.hpp"

namespace fk {

enum class CheckStatus {
  ok,
  unsupported,  // the provider refused, with its reason
  left_out,     // not asked, or not compared: the host has the reason
  unjudged,     // all rules kept, but no reference to compare with
  untestable,   // right, but mutants pass too: the case proves nothing
  wrong,        // errors are larger than rounding explains
  violation     // a broken rule: memory, lifecycle, claims, a crash
};
const char* status_name(CheckStatus status);

struct CheckRow {
  std::string op, provider, case_name, variant;
  CheckStatus status = CheckStatus::ok;
  std::string rule;  // of a violation: guard, input, footprint, frame, unwritten, scratch, state,
                     // deterministic, batch_invariant, replicated, graph, packed, leak, stale,
                     // thread, threads, instances, stream, waits, supports, create, prepare,
                     // forward, reset, where (of a call of fk_comm), hello. From outside: lint,
                     // load, contract, crash, exit, threw, time, memory, sandbox
  std::string text;
  double worst = 0;   // largest error as a share of the allowed error; below 1 is right
  bool echo = false;  // of a collective: only because another rank failed first
  int ranks = 1;      // that call the case together
};

struct CheckReport {
  std::vector<CheckRow> rows;
  int count(CheckStatus status) const;
  bool passed() const { return !count(CheckStatus::wrong) && !count(CheckStatus::violation); }
};

struct CheckOptions {
  std::string size = "smoke";  // smoke; ci: smoke too; full: both too; range
  uint64_t seed = 1;
  std::vector<std::string> ops;         // empty: all
  std::vector<Family> families;         // empty: two for a smoke case, by the seed; else all
  std::vector<std::string> only_cases;  // names; empty: all
  bool quick = false;       // cases as written, without variants; bf16 if float32 is refused
  bool conformance = true;  // also the rules of conformance.hpp
  // Cases in place of the contract's, all as written. They outlive the check.
  const std::vector<Case>* cases = nullptr;
  Family family = Family::ordinary;  // of the inputs
  bool values_only = false;          // one call and its values; a sample of a large output
  Device* device = nullptr;          // device of the providers; null: the CPU
  int threads = 2;                   // threads that the plugin may use
  Communicator* comm = nullptr;      // this rank's; null: ops with a communicator are left out
  const Plugins* plugins = nullptr;  // source of children; null: no children
  // Called during the check, so that a crash loses nothing. `step` names the next step.
  std::function<void(const CheckRow& row)> on_row;
  std::function<void(const CheckRow& about, const std::string& step)> on_step;
};

// Providers of right answers: `reference` on the CPU, and for larger cases `cuda_reference` on the
// device. The latter is its own op, or else composed_oracle() (composition.hpp): the op's
// decomposition over its kernels. Either may be null, or the checked provider itself.
struct Oracles {
  const Provider* cpu = nullptr;
  const Provider* device = nullptr;
  static Oracles of(const Plugins& plugins, const std::string& op);
};

// Inputs and answers for several calls on one case. The first call that needs them makes them.
struct CaseAnswers {
  std::optional<CaseValues> inputs, want;
  std::string why;  // why there is no `want`
};

// Rows that keep all rules are unjudged without any oracle. A failure of the device (an illegal
// access) ends the check with the current row.
CheckReport check_provider(const Provider& provider, const Oracles& oracles,
                           const CheckOptions& options);

// Tests one case and variant, and fills the row's status, rule, text and worst. `answers` belong to
// this case and variant.
void run_trial(const Provider& provider, const Oracles& oracles, const Case& source,
               const Variant& variant, const CheckOptions& options, CaseAnswers& answers,
               CheckRow& row);

// Tests one case as written. Providers of equal contracts may share `answers`.
CheckRow check_case(const Provider& provider, const Oracles& oracles, const Case& source,
                    const CheckOptions& options, CaseAnswers& answers);

void need_size(const std::string& size);  // error at --size for an unknown size

// True when a request for cases of size `asked` includes those of `size`.
bool size_includes(const std::string& asked, const std::string& size);

// The numbers of ranks of a contract's cases, ascending; {1} where ranks do not matter. `size`:
// only cases that this size includes; with `alone`, only cases of exactly this size.
std::vector<int> ranks_of(const Contract& contract, const std::vector<Case>& cases,
                          const std::string& size, bool alone = false);

// Tests all ops of a loaded plugin.
CheckReport check_plugin(const Plugins& plugins, const std::string& plugin,
                         const CheckOptions& options);

// The variants of a case with other dtypes, for a case of any size.
std::vector<Variant> dtype_variants(const Contract& contract, const Case& source);

// The variants of a case to check. The first is the case as written. Those of a `full` case have no
// other dtypes, to save time.
std::vector<Variant> variants_of(const Contract& contract, const Case& source, bool quick);

// Applies `shrink` to the axes of a case that count rows, and stores the results in `variant`. A
// multiple of a smaller axis stays a multiple (tokens of equal requests, assignments of tokens).
void shrink_rows(const Case& source, const std::function<int64_t(int64_t)>& shrink,
                 Variant& variant);

// Why the CPU leaves a case out, unless it is requested by name; empty: it does not.
std::string too_large_for_cpu(const ResolvedCase& resolved);

// The oracle for a call, by its size. Null with `why` when the call is too large for all oracles.
const Provider* oracle_of(const Oracles& oracles, const Provider& provider,
                          const ResolvedCase& resolved, std::string& why);

// The same for a provider on devices of this type that is no oracle.
const Provider* oracle_of(const Oracles& oracles, int32_t device_type, const ResolvedCase& resolved,
                          std::string& why);

// The reference's outputs for these inputs, in float32 where the contract allows it. Empty with
// `why` when it refuses the case.
CaseValues reference_outputs(const Provider& reference, const ResolvedCase& resolved,
                             const Case& source, const Variant& variant, const CaseValues& values,
                             const CheckOptions& options, std::string& why);

// The same for a changed call. Empty when the change breaks the contract, and for several ranks.
CaseValues changed_outputs(const Provider& reference, const ResolvedCase& resolved,
                           const Case& source, const Variant& variant, const CallChange& change,
                           const CaseValues& values, const CheckOptions& options);

}  // namespace fk
