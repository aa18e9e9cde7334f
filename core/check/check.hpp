// SPDX-License-Identifier: Apache-2.0
// Conformance: does a provider keep every promise of the contract, and are its values right?
//
// Per case and variant (dtype, layout, optional fields, shapes): supports() asked thrice with null
// data, create, prepare, forward on poisoned outputs and scratch with guarded memory, again at
// other addresses with other poison, captured and replayed where the provider claims that it can
// be, and the comparison with the reference provider under an error model. Everything runs in the
// calling process, which a bad plugin may bring down: isolate.hpp runs it in a child process.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/cases/inputs.hpp"
#include "core/comm/communicator.hpp"
#include "core/device/device.hpp"
#include "core/plugin/library.hpp"

namespace fk {

enum class CheckStatus {
  ok,
  unsupported,  // the provider refused, with its reason
  unjudged,     // every rule was kept, but there is no reference to compare with
  untestable,   // right, but so are mutants: the case tells nothing
  wrong,        // values beyond what rounding explains
  violation     // a broken rule: memory, lifecycle, claims, a crash
};
const char* status_name(CheckStatus status);

struct CheckRow {
  std::string op, provider, case_name, variant;
  CheckStatus status = CheckStatus::ok;
  std::string rule;  // of a violation: guard, input, footprint, frame, unwritten, scratch, state,
                     // deterministic, batch_invariant, replicated, graph, packed, leak, stale,
                     // thread, threads, instances, stream, waits, supports, create, prepare,
                     // forward, reset, where (of a call of fk_comm), hello; from outside: lint,
                     // load, contract, crash, exit, threw, time, memory, sandbox
  std::string text;
  double worst = 0;   // largest error as a share of what is allowed; below 1 is right
  bool echo = false;  // of a collective: another rank had failed before
};

struct CheckReport {
  std::vector<CheckRow> rows;
  int count(CheckStatus status) const;
  bool passed() const { return !count(CheckStatus::wrong) && !count(CheckStatus::violation); }
};

struct CheckOptions {
  std::string size = "smoke";  // smoke; ci: and smoke; full: and both; range
  uint64_t seed = 1;
  std::vector<std::string> ops;  // empty: all
  std::vector<Family> families;  // empty: of a smoke case two that the seed chooses, else all
  std::vector<std::string> only_cases;  // by name; empty: all
  bool quick = false;       // the cases as written, without variants; in bf16 where that is refused
  bool conformance = true;  // the rules of conformance.hpp, too
  // Instead of the contract's: all of them as they are written. They outlive the check.
  const std::vector<Case>* cases = nullptr;
  Family family = Family::ordinary;  // of the inputs
  bool values_only = false;          // one call and its values; of a large output a sample
  Device* device = nullptr;          // where providers run; null: the CPU
  int threads = 2;                   // what the plugin is told it may use
  Communicator* comm = nullptr;      // this rank's; null: ops with a communicator are left out
  const Plugins* plugins = nullptr;  // where children come from; null: none are lent
  // Called as the check goes, so that a crash loses nothing. `step` names what comes next.
  std::function<void(const CheckRow& row)> on_row;
  std::function<void(const CheckRow& about, const std::string& step)> on_step;
};

// Who answers for right: the provider `reference` on the CPU and, where a case is too large for
// that, `cuda_reference` on the device: its own op, else composed_oracle() (composition.hpp), the
// op's expansion over its kernels. Either may be null, or the provider under check itself.
struct Oracles {
  const Provider* cpu = nullptr;
  const Provider* device = nullptr;
  static Oracles of(const Plugins& plugins, const std::string& op);
};

// Contents that several calls on one case share: they are made by the first that needs them.
struct CaseAnswers {
  std::optional<CaseValues> inputs, want;
  std::string why;  // why there is no `want`
};

// Without any oracle, rows that keep all rules are unjudged. A device that fails (an illegal
// access) ends the check with the row in which it did.
CheckReport check_provider(const Provider& provider, const Oracles& oracles,
                           const CheckOptions& options);

// One case and variant: fills the row's status, rule, text and worst. `answers` belong to them.
void run_trial(const Provider& provider, const Oracles& oracles, const Case& source,
               const Variant& variant, const CheckOptions& options, CaseAnswers& answers,
               CheckRow& row);

// One case as it is written. `answers` may be shared between providers of equal contracts.
CheckRow check_case(const Provider& provider, const Oracles& oracles, const Case& source,
                    const CheckOptions& options, CaseAnswers& answers);

void need_size(const std::string& size);  // error at --size where it is none

// Whether who asks for one size of cases gets those of another as well.
bool size_includes(const std::string& asked, const std::string& size);

// How many ranks these cases of a contract have, ascending; {1} where ranks do not matter. `size`:
// of those of one size; with `alone` without those of smaller sizes.
std::vector<int> ranks_of(const Contract& contract, const std::vector<Case>& cases,
                          const std::string& size, bool alone = false);

// All ops of one loaded plugin.
CheckReport check_plugin(const Plugins& plugins, const std::string& plugin,
                         const CheckOptions& options);

// The variants of a case that are checked; the first is the case as written.
std::vector<Variant> variants_of(const Contract& contract, const Case& source, bool quick);

// The axes of a case that count rows under a function, which the variant gets; one that is a
// multiple of a smaller one stays so (tokens of equal requests, assignments of tokens).
void shrink_rows(const Case& source, const std::function<int64_t(int64_t)>& shrink,
                 Variant& variant);

// Why a case is left out on the CPU unless it is asked for by name; empty if it is not.
std::string too_large_for_cpu(const ResolvedCase& resolved);

// The oracle for a call, by its size; null with `why` when it is too large for those that there
// are.
const Provider* oracle_of(const Oracles& oracles, const Provider& provider,
                          const ResolvedCase& resolved, std::string& why);

// The same for whoever runs on devices of this type and is no oracle.
const Provider* oracle_of(const Oracles& oracles, int32_t device_type, const ResolvedCase& resolved,
                          std::string& why);

// The reference's outputs for the same inputs, float32 where the contract allows it. Empty with
// `why` when it does not take the case.
CaseValues reference_outputs(const Provider& reference, const ResolvedCase& resolved,
                             const Case& source, const Variant& variant, const CaseValues& values,
                             const CheckOptions& options, std::string& why);

}  // namespace fk
