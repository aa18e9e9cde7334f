// SPDX-License-Identifier: Apache-2.0
// Parts of OpenFold3: tensors of its one request, products of rows, and encoders of atoms.
#pragma once
#include <string>
#include <vector>

#include "baselines/models/parts/fold/sizes.hpp"
#include "core/exec/model.hpp"

namespace fk::parts::folding {

// Atoms of the windows: of queries, of keys, and the place of each atom among the queries. A
// window's keys are around its queries, as far as there are atoms.
struct Windows {
  Value q_rows, k_rows, places;
};
// The rows of the one request.
Value tensor(Net& n, const std::string& name, DType dtype, const std::vector<int64_t>& shape);
Value floats(Net& n, const std::string& name, const std::vector<int64_t>& shape);
Value whole(Net& n, const std::string& name, int64_t count);
Value rows_of(Net& n, Value v);
std::string own_dtype(Net& n);
// In the dtype of activations.
Value cast(Net& n, const std::string& path, Value v);
// Rows of x times a weight, in the dtype of activations.
Value product(Net& n, const std::string& path, Value x, int64_t width);
// Rows of x; `bias`: the norm has one.
Value norm(Net& n, const std::string& path, Value x, bool bias = false);
Value activated(Net& n, const std::string& path, const char* kind, Value x);
Value sum(Net& n, const std::string& path, Value a, Value b);
Value gathered(Net& n, const std::string& path, Value x, Value rows);
// Rows side by side.
Value joined(Net& n, const std::string& path, const std::vector<Value>& parts);
// x [M, S, C] and row m of `left` and row s of `right`.
Value pair_sum(Net& n, const std::string& path, Value x, Value left, Value right);
// x [M, S, C] and row s of y.
Value columns_sum(Net& n, const std::string& path, Value x, Value y);
// x and its transition, whose hidden width is `times` its own.
Value transition(Net& n, const std::string& path, Value x, int64_t times);
Windows windows(Net& n, const FoldSizes& f, const AtomSizes& a);
// The condition of each atom, by its reference conformer.
Value atom_features(Net& n, const FoldSizes& f, const std::string& path, const AtomSizes& a);
// Rows of pairs in windows, by offsets in a conformer.
Value atom_pairs(Net& n, const FoldSizes& f, const std::string& path, const AtomSizes& a,
                 const Windows& w);
// Pairs of atoms [W, M, S, C] with both atoms' conditions and an MLP.
Value atom_pairs_of(Net& n, const FoldSizes& f, const std::string& path, const AtomSizes& a,
                    const Windows& w, Value pairs, Value condition);
// Blocks of atoms; `pairs` are normed.
Value atom_blocks(Net& n, const std::string& path, const AtomSizes& a, const Windows& w, Value x,
                  Value condition, Value pairs);
Value normed_pairs(Net& n, const std::string& path, Value pairs);
// Tokens as the means of their atoms.
Value tokens_of(Net& n, const FoldSizes& f, const std::string& path, const AtomSizes& a,
                Value atoms);

}  // namespace fk::parts::folding
