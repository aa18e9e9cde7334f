// SPDX-License-Identifier: Apache-2.0
// Families of inputs: ordinary contents, changed in ways that code which is fitted to ordinary
// contents does not survive. A family changes float tensors alone, and only as far as the
// contract's generators allow: what is drawn from a range stays in it, constants and tables stay
// what they are. Which elements, which scale and which order follows from the seed.
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

// What the generator of a field promises about its contents.
struct Legal {
  enum class Kind {
    fixed,  // nothing may change
    range,  // any values within [low, high]
    free    // any values
  } kind = Kind::fixed;
  double mean = 0, spread = 1;  // of what the generator makes
  double low = 0, high = 0;     // of a range
  bool gentle = false;          // ops above L1 chain so much that strong changes only saturate them
  bool beyond = false;          // large bfloat16 is then more than float16 holds
};

// Seeds of one tensor: `rows` is that of all tensors with the same first axis, which are
// permuted alike; `places` differs between ranks that have contents of their own.
struct FamilySeeds {
  uint64_t tensor = 0, rows = 0, places = 0;
};

// Changes dense ordinary contents; false when the family does not fit them (sparse contents
// of a range without 0). Tensors of whole numbers are an error.
bool apply_family(Family family, const Legal& legal, const FamilySeeds& seeds, Tensor& tensor);

// What a family changes beside that, of a whole call.
void change_together(Family family, const ResolvedCase& resolved, uint64_t seed,
                     CaseValues& values);

// Whether a family may change a field: float, read by the call, not bound to fixed contents by its
// generator. Weights are part of a model where an op is more than L1: there they stay.
bool family_may_change(const ResolvedCase& resolved, const CaseField& field);

// Whether it may be so large that float16 cannot hold it: in L1 but for choices, all but one of
// which would be nothing, a running sum of a layer, which is normalised first, and in L2 what
// products take that neither choose nor keep anything. Elsewhere rounding would decide what a
// softmax or a router sees of it.
bool family_may_go_beyond(const ResolvedCase& resolved, const CaseField& field);

// Why a case has no such family: nothing that a call reads may change so. Empty where it has.
// Generators are not run.
std::string family_unfit(const ResolvedCase& resolved, Family family);

// Why the answer for these contents can judge nothing: the reference, in the outputs' dtypes,
// overflows, or gives the same number everywhere. Empty when it can. `want` holds the reference's
// outputs. Ordinary contents are never excused.
std::string family_meaningless(const ResolvedCase& resolved, Family family, const CaseValues& want);

}  // namespace fk
