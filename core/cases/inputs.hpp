// SPDX-License-Identifier: Apache-2.0
// A case of a contract made concrete: scalars, axes, dtypes and shapes, and the contents of every
// input, from the contract's generators. Contents depend only on the seed and the names.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"
#include "core/tensor/tensor.hpp"
#include "fk/comm.h"

namespace fk {

// Differences from the written case.
struct Variant {
  std::string name = "as written";
  std::map<std::string, DType> dtypes;           // by field
  std::optional<std::vector<std::string>> with;  // optional fields and groups that are present
  std::map<std::string, int64_t> axes;           // free axes
  std::map<std::string, std::vector<int64_t>> listed;  // axes that differ by entry of a list
  // padded: gaps behind each axis but the last. padded_rows: behind the entries of the first axis
  // alone.
  enum class Layout { written, padded, interleaved, padded_rows } layout = Layout::written;
  const fk_comm* comm = nullptr;  // this rank's, where the contract has a communicator
};

// One tensor field (or list of them) of a resolved case.
struct CaseField {
  const Slot* slot = nullptr;
  bool present = true;
  bool strided = false;     // laid out with gaps
  bool dense_rows = false;  // only the first axis has gaps
  int64_t step = 0;         // elements from one row to the next; 0: with some gap
  DType dtype = DType::f32;
  Shape shape;                      // of the first entry
  int64_t entries = 1;              // tensors in a list; 1 otherwise
  std::vector<Shape> entry_shapes;  // if those of a list differ
  std::string values;               // generator; empty: by role

  const Shape& shape_of(int64_t entry) const {
    return entry_shapes.empty() ? shape : entry_shapes[static_cast<size_t>(entry)];
  }
};

struct ResolvedCase {
  const Contract* contract = nullptr;
  std::shared_ptr<const std::map<std::string, std::vector<Tensor>>> contents;  // of the case
  std::string name;
  Axes axes;                                           // sums, for axes with a value per list entry
  std::map<std::string, std::vector<int64_t>> listed;  // axes that differ by entry of a list
  std::vector<fk_slot> init, scalars;  // scalars: the forward section, 0 for tensors
  int rank = 0;                        // selects the rank's own contents
  std::vector<CaseField> fields;       // weights, then forward tensors
  // Targets of the `ints` slots of `init`.
  std::shared_ptr<std::deque<std::pair<std::vector<int64_t>, fk_ints>>> lists;

  const CaseField* find(std::string_view field) const;  // null if unknown or absent
  std::vector<const CaseField*> written() const;        // out and inout, in slot order
  Axes axes_of(const Slot& slot, int64_t entry) const;  // the axes inside one entry of a list
};

// Error at the case for a missing or wrong value, axis or dtype.
ResolvedCase resolve(const Contract& contract, const Case& source, const Variant& variant);

// The input distribution of a call's float tensors (numerics/families.hpp).
enum class Family {
  ordinary,     // from the contract's generators
  large,        // each tensor times a power of two
  small,        // each tensor divided by a power of two
  shift,        // a mean of several times the spread
  heavy_tails,  // powers of ordinary values: a few large ones, many small ones
  ties,         // rounded to few distinct values
  sparse,       // mostly zeros
  denormals,    // a share of the elements below the smallest normal number
  permuted,     // the rows of the ordinary contents in another order
  equal,        // every element of a tensor the same
  outliers,     // a few elements at random places are far larger
  rows,         // each row has its own size, from ordinary down to zero, like padding
  unread,       // unread parts of caches and states hold unusable values
  masked,       // logits of -inf, and rows of logits far below 0
};

// Dense contents by field, one tensor per list entry, for all read fields: weights, in and inout.
// Whole numbers are as in the ordinary distribution. Error for an unknown or unsatisfiable
// generator.
using CaseValues = std::map<std::string, std::vector<Tensor>>;
CaseValues make_inputs(const ResolvedCase& resolved, uint64_t seed, int threads,
                       Family family = Family::ordinary);
// The same without weights: further inputs for an instance.
CaseValues make_forward_inputs(const ResolvedCase& resolved, uint64_t seed, int threads,
                               Family family);
// One field of forward, equal to make_inputs().
std::vector<Tensor> make_field(const ResolvedCase& resolved, const std::string& field,
                               uint64_t seed, int threads);

// The generators' names, for messages and documents.
std::vector<std::string> generator_names();

}  // namespace fk
