// SPDX-License-Identifier: Apache-2.0
// Sources of weights: a checkpoint in the Hub's layout, or a seed. Weights are laid out once in a
// block of shared memory, which workers map read only.
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

// Offsets of all weights in the block, in table order, each aligned to 256 bytes.
struct WeightLayout {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  explicit WeightLayout(const WeightTable& table);
};

// Gives host memory with all weights in a WeightLayout.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Valid as long as the source. Null: the weights are on the device only.
  virtual const std::byte* block(const WeightTable& table) = 0;
  // The same for weights that are on the device already. Null: they must be uploaded.
  virtual const std::byte* on_device(Device&, const WeightTable&) { return nullptr; }
};

// Checkpoint tensors from which a weight is read; none for a computed weight.
std::vector<std::string> tensors_of(const WeightSpec& spec);
// True: the weight takes the tensor unchanged. False: its values are Checkpoint::scaled. Error when
// it takes neither.
bool takes_unscaled(const WeightSpec& spec, const StoredTensor& tensor);

using Progress = std::function<void(int64_t done, int64_t total)>;

// Reads all weights from the checkpoint (concatenates and stacks parts, converts dtypes). Without a
// checkpoint, makes them from the seed. `into` has WeightLayout::bytes bytes. Errors name the
// weight, the checkpoint tensor and the file.
void fill_weights(const WeightTable& table, const Checkpoint* checkpoint, uint64_t seed,
                  std::byte* into, int threads, const Progress& progress);

// The same into device memory, one weight after the other. Random numbers are made on the device.
// Other weights go through host memory of the largest weight's size.
void fill_weights(const WeightTable& table, const Checkpoint* checkpoint, uint64_t seed,
                  Device& device, std::byte* into, int threads, const Progress& progress);

// Fills private memory of this process.
std::unique_ptr<WeightSource> private_weights(const Checkpoint* checkpoint, uint64_t seed,
                                              int threads);
// Uses memory that another process filled. `bytes` must equal the layout's.
std::unique_ptr<WeightSource> shared_weights(SharedMemory memory);
// The same on a device: `fd` comes from Device::allocate_shared and stays the caller's.
std::unique_ptr<WeightSource> device_weights(int fd, int64_t bytes);

}  // namespace fk
