// SPDX-License-Identifier: Apache-2.0
// Where weights come from: a checkpoint in the Hub's layout or a seed, laid out once in one block
// of shared memory that runners map read only.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/io.hpp"
#include "core/device/device.hpp"
#include "core/graph/graph.hpp"
#include "core/tensor/safetensors.hpp"

namespace fk {

// Offsets of every weight in the block: in table order, each aligned to 256 bytes.
struct WeightLayout {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  explicit WeightLayout(const WeightTable& table);
};

// Gives the host memory of each weight, laid out as WeightLayout says.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Valid as long as the source; null where the weights are on the device alone.
  virtual const std::byte* block(const WeightTable& table) = 0;
  // The same on a device where they already are; null where they have to be uploaded.
  virtual const std::byte* on_device(Device&, const WeightTable&) { return nullptr; }
};

// Names of the checkpoint's tensors that a weight is read from: none where it is computed.
std::vector<std::string> tensors_of(const WeightSpec& spec);
// Whether a weight takes a tensor as it is; false: its values are Checkpoint::scaled. Error where
// it takes neither.
bool takes_unscaled(const WeightSpec& spec, const StoredTensor& tensor);

using Progress = std::function<void(int64_t done, int64_t total)>;

// Reads every weight from the checkpoint (concatenating and stacking parts, converting dtypes), or
// makes it from the seed when `checkpoint` is null. `into` has WeightLayout::bytes bytes. Errors
// name the weight, the checkpoint tensor and the file.
void fill_weights(const WeightTable& table, const Checkpoint* checkpoint, uint64_t seed,
                  std::byte* into, int threads, const Progress& progress);

// The same into memory of a device, one weight after the other: random numbers are made there, the
// rest goes through host memory of the size of the largest weight.
void fill_weights(const WeightTable& table, const Checkpoint* checkpoint, uint64_t seed,
                  Device& device, std::byte* into, int threads, const Progress& progress);

// Fills private memory of this process.
std::unique_ptr<WeightSource> private_weights(const Checkpoint* checkpoint, uint64_t seed,
                                              int threads);
// Uses memory that another process filled; `bytes` must equal the layout's.
std::unique_ptr<WeightSource> shared_weights(SharedMemory memory);
// The same on a device: a descriptor of Device::allocate_shared, which stays the caller's.
std::unique_ptr<WeightSource> device_weights(int fd, int64_t bytes);

}  // namespace fk
