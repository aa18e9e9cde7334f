// SPDX-License-Identifier: Apache-2.0
// A case of a judgement, as broker, oracle and runner name it to each other: the contract's or a
// recorded one, as it is written, in a variant, or with another routing. Runners must not read the
// folder of a recorded one, so its sizes travel with its name.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/cases/inputs.hpp"

namespace fk {

struct AskedCase {
  std::string op, name, size;  // size: "captured" for recorded ones
  std::string variant;         // a name of variants_of() or drawn_variants(); empty: as written
  std::string captured;        // folder of recorded cases; empty: the contract's
  std::string recorded;        // its sizes, as JSON
  double skew = 0;             // of the routing; 0: the case's own
  uint64_t draw = 0;  // what a hidden variant has its rows from (hidden_cases.hpp); 0: not yet
  std::string key() const;  // equal for equal contents
};

Json to_json(const AskedCase& asked);
AskedCase asked_case_from(const Json& json);

// A recorded case without contents.
std::string recorded_text(const Case& source);

struct PosedCase {
  Case source;
  Variant variant;
};
// The same of a case that is at hand: in the routing and the variant that were asked for.
PosedCase pose(const AskedCase& asked, const Contract& contract, Case source);
// What is resolved and called. With `contents` a recorded one is read from its folder. Error when
// there is no such case or variant.
PosedCase pose(const AskedCase& asked, const Contract& contract, const Catalog* contents);

// SHA-256, in hex, of what its calls are: op, sizes, constructor values, dtypes, layout, generators
// and recorded contents. Names and seeds are no part of it, so the same case has the same one in
// every verdict, whatever it is called; what the contract says of all cases is not either.
std::string case_hash(const Contract& contract, const PosedCase& posed);

// The variants of a case that are judged beside it as written: those whose name is in `wanted`, or
// all for "all"; of dtypes those in `dtypes`, or all. An Error at a name that no case may have is
// the caller's.
std::vector<std::string> variants_wanted(const Contract& contract, const Case& source,
                                         const std::vector<std::string>& variants,
                                         const std::vector<std::string>& dtypes);

}  // namespace fk
