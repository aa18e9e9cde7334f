// SPDX-License-Identifier: Apache-2.0
//
// The distance between two tensors, and its pattern. Errors are shares of the spread (standard
// deviation) of the wanted values, because a relative error per element is meaningless near zero.
// The pattern helps a kernel's author most: which rows, which columns, what factor.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/tensor/tensor.hpp"

namespace fk {

struct Difference {
  int64_t numel = 0;
  double spread = 0;   ///< standard deviation of the wanted finite values, guarded
  double max_abs = 0;  ///< largest |got - want|; infinite for a wrong infinity
  double max_error_of_spread = 0;
  double rms_of_spread = 0;     ///< over elements where both are finite
  double worst1_of_spread = 0;  ///< 99th percentile of the error (of a sample above 4 Mi elements)
  int64_t worst_index = -1;     ///< row-major; a wrong NaN or infinity counts as the worst
  double got = 0, want = 0;     ///< the values there
  int64_t nan_count = 0;        ///< NaN where a number was wanted, or the reverse
  int64_t mismatched = 0;       ///< elements with an error above the limit, NaN included
  double limit_of_spread = 0;   ///< the limit that was used
  std::string pattern;          ///< one sentence, "identical" when every element is equal
  std::string name;             ///< name of the pattern's kind; empty: identical
  std::string next;             ///< the place to check for this pattern; empty: identical

  bool identical() const { return max_abs == 0 && nan_count == 0; }
};

/// The default limit between rounding noise and a wrong element: 16 epsilon of the coarser of the
/// two types, at least 1e-5; 0 for integers.
double noise_limit_of_spread(DType got, DType want);

/// Compares in double. NaN equals NaN, an infinity equals itself. The spread is guarded: if all
/// wanted values are equal, it is their magnitude; if they are zero, it is 1. `limit_of_spread` < 0
/// stands for noise_limit_of_spread; it decides only `mismatched` and `pattern`. Error when shapes
/// differ. An empty tensor is identical. `wrong`: 1 for each wrong element, in place of the limit.
Difference compare(const TensorView& got, const TensorView& want, double limit_of_spread = -1,
                   std::span<const uint8_t> wrong = {});

/// True for equal sizes and equal bytes; shapes and dtypes are not compared.
bool same_bytes(const Tensor& a, const Tensor& b);

/// The position of a flat index: "[0, 3, 17]".
std::string position_text(const Shape& shape, int64_t flat);

}  // namespace fk
