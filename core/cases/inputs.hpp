// SPDX-License-Identifier: Apache-2.0
// A case of a contract made concrete: scalars, axes, dtypes and shapes, and the contents of every
// input, made by the generators that the contract names. Contents depend on the seed and the names
// alone.
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

// What is different from the case as it is written.
struct Variant {
  std::string name = "as written";
  std::map<std::string, DType> dtypes;           // by field
  std::optional<std::vector<std::string>> with;  // optional fields and groups that are present
  std::map<std::string, int64_t> axes;           // free axes
  std::map<std::string, std::vector<int64_t>> listed;  // those that differ by entry of a list
  enum class Layout { written, padded, interleaved } layout = Layout::written;
  const fk_comm* comm = nullptr;  // this rank's, where the contract has a communicator
};

// One tensor field (or list of them) of a resolved case.
struct CaseField {
  const Slot* slot = nullptr;
  bool present = true;
  bool strided = false;  // to be laid out with gaps
  int64_t step = 0;      // elements from one row to the next; 0: with some gap
  DType dtype = DType::f32;
  Shape shape;                      // of the first entry
  int64_t entries = 1;              // tensors in a list; 1 otherwise
  std::vector<Shape> entry_shapes;  // where those of a list differ
  std::string values;               // generator; empty: by role

  const Shape& shape_of(int64_t entry) const {
    return entry_shapes.empty() ? shape : entry_shapes[static_cast<size_t>(entry)];
  }
};

struct ResolvedCase {
  const Contract* contract = nullptr;
  std::shared_ptr<const std::map<std::string, std::vector<Tensor>>> contents;  // of the case
  std::string name;
  Axes axes;                                           // of those that are listed, the sums
  std::map<std::string, std::vector<int64_t>> listed;  // axes that differ by entry of a list
  std::vector<fk_slot> init, scalars;  // scalars: the forward section, 0 for tensors
  int rank = 0;                        // every rank has contents of its own
  std::vector<CaseField> fields;       // weights, then forward tensors
  // What `ints` slots of `init` point to.
  std::shared_ptr<std::deque<std::pair<std::vector<int64_t>, fk_ints>>> lists;

  const CaseField* find(std::string_view field) const;  // null if there is none or it is absent
  std::vector<const CaseField*> written() const;        // out and inout, in slot order
  Axes axes_of(const Slot& slot, int64_t entry) const;  // the axes inside one entry of a list
};

// Error at the case when a value, an axis or a dtype is missing or wrong.
ResolvedCase resolve(const Contract& contract, const Case& source, const Variant& variant);

// What kind of contents the float tensors of a call have (families.hpp).
enum class Family {
  ordinary,     // as the contract's generators make them
  large,        // each tensor times a power of two
  small,        // each tensor divided by one
  shift,        // a mean of several times the spread
  heavy_tails,  // a power of the ordinary value: a few large ones, many small ones
  ties,         // rounded to few distinct values
  sparse,       // mostly zeros
  denormals,    // a share of the elements below the smallest normal number
  permuted,     // the rows of the ordinary contents in another order
  equal,        // every element of a tensor the same
  outliers,     // a few elements at random places are far larger
  rows,    // each row has a size of its own, from ordinary ones down to nothing, as padding has
  unread,  // caches and states hold what nobody may calculate with where they are not read
  masked,  // logits of -inf, and rows of logits far below 0
};

// Dense contents by field, one tensor per list entry, for everything that is read: weights, in and
// inout. Contents of whole numbers are those of the ordinary family. Error when a generator is
// unknown or cannot be satisfied.
using CaseValues = std::map<std::string, std::vector<Tensor>>;
CaseValues make_inputs(const ResolvedCase& resolved, uint64_t seed, int threads,
                       Family family = Family::ordinary);
// The same without the weights: other inputs of an instance.
CaseValues make_forward_inputs(const ResolvedCase& resolved, uint64_t seed, int threads,
                               Family family);
// One field of forward, as make_inputs() makes it.
std::vector<Tensor> make_field(const ResolvedCase& resolved, const std::string& field,
                               uint64_t seed, int threads);

// The generators' names, for messages and documents.
std::vector<std::string> generator_names();

}  // namespace fk
