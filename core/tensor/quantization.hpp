// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints whose matrices are f8 or int8 with scales beside them. `quantization_config` of a
// config.json names the method; methods that are not fully understood are refused.

#pragma once

#include <cstdint>
#include <string>

#include "core/base/json.hpp"

namespace fk {

/// The content of a `quantization_config`.
struct Quantization {
  std::string method;  ///< "fp8", "compressed-tensors", "bitsandbytes", "mxfp4"; empty: none
  /// Rows and columns that share one scale. 0: a matrix has one scale, or one for each row.
  int64_t block_rows = 0, block_columns = 0;
  /// The rounding of a product's inputs by the method's own runtime: "none", "dynamic" or "static".
  std::string inputs = "none";

  /// Reads a whole config.json; without the key the method is empty. Error for another method, an
  /// unread key, or a value that would change the result; it names the key.
  static Quantization of(const Config& config);
};

}  // namespace fk
