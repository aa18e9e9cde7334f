// SPDX-License-Identifier: Apache-2.0
// Input distributions: ordinary contents, changed so that code fitted to ordinary contents fails. A
// distribution changes only float tensors, and keeps the promises of the contract's generators.
// Values from a range stay in the range; constants and tables do not change. The seed decides
// elements, scale and order.
#pragma once
#include <string>
#include <vector>

#include "core/cases/inputs.hpp"

namespace fk {

const char* family_name(Family family);
// Error at `where` with the nearest name.
Family family_of(const std::string& name, const std::string& where = "family");
// In the order of the enumeration, ordinary first.
std::vector<Family> all_families();

// Promises of a field's generator about its contents.
struct Legal {
  enum class Kind {
    fixed,  // nothing may change
    range,  // any values within [low, high]
    free    // any values
  } kind = Kind::fixed;
  double mean = 0, spread = 1;  // of the generator's values
  double low = 0, high = 0;     // of a range
  bool gentle = false;          // for chained ops above L1, which strong changes only saturate
  bool beyond = false;          // large bfloat16 values may exceed float16's range
};

// Seeds of one tensor. `rows` is equal for tensors with the same first axis, which are permuted
// alike. `places` differs between ranks with their own contents.
struct FamilySeeds {
  uint64_t tensor = 0, rows = 0, places = 0;
};

// Changes dense ordinary contents. False when the distribution does not fit them (sparse contents
// of a range without 0). FK_CHECK: no whole numbers.
bool apply_family(Family family, const Legal& legal, const FamilySeeds& seeds, Tensor& tensor);

// Changes that concern several fields of a call.
void change_together(Family family, const ResolvedCase& resolved, uint64_t seed,
                     CaseValues& values);

// True if a distribution may change a field: a float, read by the call, not fixed by its generator.
// Weights of ops above L1 stay, because they are part of a model.
bool family_may_change(const ResolvedCase& resolved, const CaseField& field);

// True if a field may exceed float16's range. In L1: all fields except scores of choices, whose
// result would be a single choice. In layers: a running sum, which is normalised first. In L2:
// inputs of products that neither choose nor keep values. Elsewhere rounding would decide the
// result of a softmax or router.
bool family_may_go_beyond(const ResolvedCase& resolved, const CaseField& field);

// The reason why a case lacks this distribution: no read field may change in this way. Empty: it
// has it. Runs no generator.
std::string family_unfit(const ResolvedCase& resolved, Family family);

// The reason why this distribution's answer judges nothing: the reference, in the outputs' dtypes,
// overflows or is the same number everywhere. Empty: it is meaningful. `want` holds the reference's
// outputs. Ordinary contents are never excused.
std::string family_meaningless(const ResolvedCase& resolved, Family family, const CaseValues& want);

}  // namespace fk
