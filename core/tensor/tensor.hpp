// SPDX-License-Identifier: Apache-2.0
//
// Host memory with a type and a shape. Tensor owns its memory and is contiguous. TensorView borrows
// memory and may have strides. Device memory is in core/device.

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/dtype.hpp"

namespace fk {

using Shape = std::vector<int64_t>;

inline constexpr std::size_t kTensorAlignment = 256;  // bytes

/// Product of the extents; 1 for a scalar. Error at `where` for a negative extent or more than
/// 2^62 elements.
int64_t numel(const Shape& shape, const std::string& where = "shape");
/// numel * bytes(dtype) with overflow refused.
int64_t shape_bytes(const Shape& shape, DType dtype, const std::string& where = "shape");
/// Row-major strides in elements.
Shape contiguous_strides(const Shape& shape);
/// "[2, 3]"
std::string shape_text(const Shape& shape);

/// Owning, contiguous, row-major, 256-byte aligned. Copies are deep. Do not write to `dtype` and
/// `shape`; `reshaped` changes the shape.
struct Tensor {
  DType dtype = DType::f32;
  Shape shape{0};

  Tensor() = default;
  /// Zeroed memory. Error when the size overflows or memory is short.
  Tensor(DType dtype, Shape shape);
  /// Values in row-major order, rounded to dtype. Error when their number does not fit.
  static Tensor of(DType dtype, Shape shape, const std::vector<double>& values);
  /// A copy of contiguous memory.
  static Tensor copy_of(const void* data, DType dtype, Shape shape);

  Tensor(const Tensor& other);
  Tensor& operator=(const Tensor& other);
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor() = default;

  void* data() { return data_.get(); }
  const void* data() const { return data_.get(); }
  int64_t numel() const { return numel_; }
  int64_t bytes() const { return numel_ * fk::bytes(dtype); }

  /// `flat` is in row-major order and checked (FK_CHECK).
  double at(int64_t flat) const;
  void set(int64_t flat, double value);
  /// All elements as double.
  std::vector<double> values() const;

  Tensor to(DType target) const;
  /// The same elements under another shape with the same number. Error otherwise.
  Tensor reshaped(Shape target) const;

  /// The memory as elements; FK_CHECK that sizeof(T) matches dtype.
  template <class T>
  std::span<T> as() {
    check_width(sizeof(T));
    return {static_cast<T*>(data()), static_cast<std::size_t>(numel_)};
  }
  template <class T>
  std::span<const T> as() const {
    check_width(sizeof(T));
    return {static_cast<const T*>(data()), static_cast<std::size_t>(numel_)};
  }

 private:
  struct Free {
    Free() noexcept {}
    explicit Free(std::size_t bytes) noexcept : mapped(bytes) {}
    std::size_t mapped = 0;  // bytes; 0: allocated
    void operator()(std::byte* memory) const noexcept;
  };
  void check_width(std::size_t width) const;
  std::unique_ptr<std::byte[], Free> data_;
  int64_t numel_ = 0;
};

/// Borrowed memory, read-only, valid as long as its owner. Implicit from Tensor, so that functions
/// take one type.
struct TensorView {
  const void* data = nullptr;  ///< no alignment needed
  DType dtype = DType::f32;
  Shape shape;
  Shape strides;  ///< in elements; empty means contiguous

  TensorView() = default;
  TensorView(const void* data, DType dtype, Shape shape, Shape strides = {});
  TensorView(const Tensor& tensor);  // NOLINT: implicit

  bool contiguous() const;
  /// A contiguous copy, in the same or another type.
  Tensor copy() const;
  Tensor to(DType target) const;
};

}  // namespace fk
