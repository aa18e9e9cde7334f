// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints in the layout of the HuggingFace Hub. The header of a file is untrusted: opening
// checks all sizes, offsets, shapes and names by the rules of the format's own reader. Offsets must
// be contiguous from 0 to the end of the file, without holes or overlap, so at() cannot reach
// outside the mapping.

#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/io.hpp"
#include "core/tensor/dtype.hpp"
#include "core/tensor/quantization.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

/// A tensor inside a mapped file; valid while its SafeTensors or Checkpoint lives. The bytes may be
/// unaligned: the format allows it, so copy or memcpy before using them as numbers.
struct StoredTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
  std::string where;  ///< "path/model.safetensors: tensor `name`"

  TensorView view() const { return {bytes.data(), dtype, shape}; }
  Tensor load() const { return Tensor::copy_of(bytes.data(), dtype, shape); }
};

/// One .safetensors file, mapped. Movable.
class SafeTensors {
 public:
  static constexpr std::size_t kHeaderBytesMax = 100'000'000;  ///< the reference reader's limit

  /// Error names the file and the first fault.
  static SafeTensors open(const std::filesystem::path& path);
  /// The same for an image in memory, which must outlive the object.
  static SafeTensors parse(std::span<const std::byte> image, std::string name);

  /// Sorted.
  std::vector<std::string> names() const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Null when there is none.
  const StoredTensor* find(std::string_view name) const;
  /// Error with the nearest name.
  const StoredTensor& at(std::string_view name) const;
  /// __metadata__, often {"format": "pt"}.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& file() const { return file_; }

 private:
  SafeTensors() = default;
  void read(std::span<const std::byte> image);

  Mapping mapping_;
  std::string file_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Writes a file that the reference reader accepts: header padded to 8 bytes, widest elements
/// first, data contiguous. Strided views are packed. A temporary file is renamed to `path`. Error
/// when it cannot.
void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// A model's weights. They are a folder with model.safetensors.index.json and its shards, or with
/// model.safetensors, or with exactly one *.safetensors (diffusers). Or they are one such file. All
/// shards are mapped on opening. Movable.
class Checkpoint {
 public:
  /// Error names the missing shard, the entry of weight_map that its shard lacks, or the folder
  /// without weights. Shard names with a folder in them are refused. A config.json beside the files
  /// declares their quantisation.
  static Checkpoint open(const std::filesystem::path& path);
  /// The same; if no config.json lies beside the files, `config` (of their model) declares the
  /// quantisation.
  static Checkpoint open(const std::filesystem::path& path, const Config& config);

  std::vector<std::string> names() const;  ///< sorted
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const StoredTensor* find(std::string_view name) const;
  /// Error with the nearest name.
  const StoredTensor& at(std::string_view name) const;
  /// Bytes of all tensors.
  int64_t bytes() const;
  const std::string& where() const { return where_; }

  const Quantization& quantization() const { return quantization_; }
  /// The conversion of an f8 or int8 matrix to floats: its own scales, times `factor`.
  struct Scaling {
    const StoredTensor* scales = nullptr;
    double factor = 1;
    int64_t rows = 0, columns = 0;    ///< of a block; 0: one scale, or one for each row
    std::vector<std::string> beside;  ///< names of all tensors that belong to the matrix
    /// True if the matrix also has scales of its inputs, which the host does not use.
    bool has_input_scale = false;
  };
  /// Error if no scales are declared, or if they are missing or of another size.
  Scaling scaling(const std::string& name) const;
  /// The values of a quantised matrix in float32, row-major.
  std::vector<float> scaled(const std::string& name) const;

 private:
  Checkpoint() = default;
  void read_quantization(const Config* config);
  void add_files(const std::filesystem::path& path);
  void add_index(const std::filesystem::path& index);
  void add_file(const std::filesystem::path& file);

  std::string where_;
  std::filesystem::path folder_;
  Quantization quantization_;
  std::vector<std::unique_ptr<SafeTensors>> shards_;
  std::map<std::string, const StoredTensor*, std::less<>> tensors_;
};

}  // namespace fk
