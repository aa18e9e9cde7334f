// SPDX-License-Identifier: Apache-2.0
// The name of a judged case in messages between controller, oracle and worker. It is a case of the
// contract or of a recording: as written, in a variant, or with another routing. Workers must not
// read the folder of a recording, so the sizes of its cases travel with the name.
#pragma once
#include <string>
#include <vector>

#include "core/base/field_list.hpp"
#include "core/cases/inputs.hpp"

namespace fk {

struct AskedCase {
  std::string op, name, size;  // size: "captured" for recorded ones
  std::string variant;         // a name of variants_of() or hidden_variants(); empty: as written
  std::string captured;        // folder of recorded cases; empty: the contract's
  std::string recorded;        // its sizes, as JSON
  double skew = 0;             // of the routing; 0: the case's own
  uint64_t draw = 0;  // a hidden variant's rows come from it (hidden_cases.hpp); 0: not yet known
  std::string key() const;  // equal for equal contents
  FK_FIELDS(op, name, size, variant, captured, recorded, skew, draw)
};

// A recorded case without its contents, as JSON.
std::string recorded_text(const Case& source);

struct PosedCase {
  Case source;
  Variant variant;
};
// Applies the requested routing and variant to `source`.
PosedCase pose(const AskedCase& asked, const Contract& contract, Case source);
// Finds the case first. With `contents`, a recorded case is read from its folder. Error when there
// is no such case or variant.
PosedCase pose(const AskedCase& asked, const Contract& contract, const Catalog* contents);

// SHA-256, in hex, of the calls of a case: op, sizes, constructor values, dtypes, layout,
// generators and recorded contents. Names, seeds and the contract's rules for all cases are not
// part of it. So the same case has the same hash in every verdict, under any name.
std::string case_hash(const Contract& contract, const PosedCase& posed);

// The variants to judge in addition to the case as written: those named in `variants`, and of
// dtypes those in `dtypes`; "all" takes each one. The caller reports a name that no case has.
std::vector<std::string> variants_wanted(const Contract& contract, const Case& source,
                                         const std::vector<std::string>& variants,
                                         const std::vector<std::string>& dtypes);

}  // namespace fk
