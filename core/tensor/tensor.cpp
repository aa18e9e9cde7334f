// SPDX-License-Identifier: Apache-2.0
//
// Owned and viewed host memory.

#include "core/tensor/tensor.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/parts.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

// Copies a strided view into contiguous memory of the same type, the last axis in the inner loop.
void pack(const TensorView& view, std::byte* target) {
  const int64_t width = bytes(view.dtype);
  const auto* source = static_cast<const std::byte*>(view.data);
  const std::size_t rank = view.shape.size();
  const int64_t count = numel(view.shape);
  if (count == 0) return;
  const int64_t inner = rank == 0 ? 1 : view.shape[rank - 1];
  const int64_t step = rank == 0 ? 1 : view.strides[rank - 1];
  Shape index(rank, 0);
  for (int64_t row = 0; row < count / inner; ++row) {
    int64_t start = 0;
    for (std::size_t axis = 0; axis + 1 < rank; ++axis) start += index[axis] * view.strides[axis];
    for (int64_t i = 0; i < inner; ++i) {
      std::memcpy(target, source + (start + i * step) * width, static_cast<std::size_t>(width));
      target += width;
    }
    for (std::size_t axis = rank < 2 ? 0 : rank - 1; axis-- > 0;) {
      if (++index[axis] < view.shape[axis]) break;
      index[axis] = 0;
    }
  }
}

// Zeroed large pages. The kernel makes them on first touch, in the threads that fill them.
void* mapped(std::size_t size, std::size_t align) {
  void* all =
      ::mmap(nullptr, size + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(all);
  const std::size_t before = (align - reinterpret_cast<std::uintptr_t>(begin) % align) % align;
  if (before) (void)::munmap(begin, before);
  (void)::munmap(begin + before + size, align - before);
  (void)::madvise(begin + before, size, MADV_HUGEPAGE);
  return begin + before;
}

constexpr int64_t kPiece = int64_t{1} << 20;  // elements that one thread copies at a time

}  // namespace

int64_t numel(const Shape& shape, const std::string& where) {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t count = 1;
  bool empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) fail(where, "has a negative extent: " + shape_text(shape));
    empty = empty || extent == 0;
  }
  if (empty) return 0;
  for (const int64_t extent : shape) {
    if (extent > kMost / count) fail(where, "has too many elements: " + shape_text(shape));
    count *= extent;
  }
  return count;
}

int64_t shape_bytes(const Shape& shape, DType dtype, const std::string& where) {
  const int64_t count = numel(shape, where);
  if (count > INT64_MAX / bytes(dtype)) fail(where, "is too large: " + shape_text(shape));
  return count * bytes(dtype);
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * (shape[axis] > 0 ? shape[axis] : 1);
  }
  return strides;
}

std::string shape_text(const Shape& shape) {
  std::vector<std::string> parts;
  for (const int64_t extent : shape) parts.push_back(std::to_string(extent));
  return "[" + join(parts, ", ") + "]";
}

void Tensor::Free::operator()(std::byte* memory) const noexcept {
  if (mapped)
    (void)::munmap(memory, mapped);
  else
    std::free(memory);
}

Tensor::Tensor(DType type, Shape extents) : dtype(type), shape(std::move(extents)) {
  const int64_t needed = shape_bytes(shape, dtype, "tensor");
  numel_ = fk::numel(shape, "tensor");
  if (needed == 0) return;
  // Touching a gigabyte in small pages first takes longer than computing its contents.
  constexpr int64_t kPage = int64_t{2} << 20;
  const bool large = needed >= 4 * kPage;
  const int64_t align = large ? kPage : static_cast<int64_t>(kTensorAlignment);
  if (needed > INT64_MAX - 2 * align) fail("tensor", "is too large: " + shape_text(shape));
  const auto rounded = static_cast<std::size_t>((needed + align - 1) / align * align);
  const auto of = static_cast<std::size_t>(align);
  auto* memory =
      static_cast<std::byte*>(large ? mapped(rounded, of) : std::aligned_alloc(of, rounded));
  if (!memory) fail("tensor", fmt::format("no memory for {}", human_bytes(needed)));
  data_ = std::unique_ptr<std::byte[], Free>(memory, Free{large ? rounded : 0});
  if (!large) std::memset(memory, 0, rounded);
}

Tensor Tensor::of(DType dtype, Shape shape, const std::vector<double>& values) {
  Tensor tensor(dtype, std::move(shape));
  if (tensor.numel() != static_cast<int64_t>(values.size())) {
    fail("tensor", fmt::format("{} values for shape {}", values.size(), shape_text(tensor.shape)));
  }
  convert(values.data(), DType::f64, tensor.data(), dtype, tensor.numel());
  return tensor;
}

Tensor Tensor::copy_of(const void* data, DType dtype, Shape shape) {
  Tensor tensor(dtype, std::move(shape));
  const int64_t width = fk::bytes(dtype);
  in_pieces(tensor.numel(), kPiece, [&](int64_t first, int64_t count) {
    std::memcpy(tensor.data_.get() + first * width,
                static_cast<const std::byte*>(data) + first * width,
                static_cast<std::size_t>(count * width));
  });
  return tensor;
}

Tensor::Tensor(const Tensor& other) : Tensor(copy_of(other.data(), other.dtype, other.shape)) {}
Tensor& Tensor::operator=(const Tensor& other) {
  if (this != &other) *this = Tensor(other);
  return *this;
}
Tensor::Tensor(Tensor&& other) noexcept
    : dtype(other.dtype),
      shape(std::exchange(other.shape, Shape{0})),
      data_(std::move(other.data_)),
      numel_(std::exchange(other.numel_, 0)) {}
Tensor& Tensor::operator=(Tensor&& other) noexcept {
  std::swap(dtype, other.dtype);
  std::swap(shape, other.shape);
  std::swap(data_, other.data_);
  std::swap(numel_, other.numel_);
  return *this;
}

double Tensor::at(int64_t flat) const {
  FK_CHECK(flat >= 0 && flat < numel_, "index outside of the tensor");
  return to_double(data_.get() + flat * fk::bytes(dtype), dtype);
}
void Tensor::set(int64_t flat, double value) {
  FK_CHECK(flat >= 0 && flat < numel_, "index outside of the tensor");
  from_double(value, data_.get() + flat * fk::bytes(dtype), dtype);
}
std::vector<double> Tensor::values() const {
  std::vector<double> result(static_cast<std::size_t>(numel_));
  convert(data(), dtype, result.data(), DType::f64, numel_);
  return result;
}

Tensor Tensor::to(DType target) const {
  Tensor result(target, shape);
  in_pieces(numel_, kPiece, [&](int64_t first, int64_t count) {
    convert(data_.get() + first * fk::bytes(dtype), dtype,
            result.data_.get() + first * fk::bytes(target), target, count);
  });
  return result;
}

Tensor Tensor::reshaped(Shape target) const {
  if (fk::numel(target, "tensor") != numel_) {
    fail("tensor", "cannot be reshaped from " + shape_text(shape) + " to " + shape_text(target));
  }
  return copy_of(data(), dtype, std::move(target));
}

void Tensor::check_width(std::size_t width) const {
  FK_CHECK(static_cast<int64_t>(width) == fk::bytes(dtype), "element width differs from dtype");
}

TensorView::TensorView(const void* memory, DType type, Shape extents, Shape steps)
    : data(memory), dtype(type), shape(std::move(extents)), strides(std::move(steps)) {
  if (!strides.empty() && strides.size() != shape.size()) {
    fail("tensor", fmt::format("{} strides for shape {}", strides.size(), shape_text(shape)));
  }
}
TensorView::TensorView(const Tensor& tensor)
    : data(tensor.data()), dtype(tensor.dtype), shape(tensor.shape) {}

bool TensorView::contiguous() const {
  if (strides.empty()) return true;
  const Shape packed = contiguous_strides(shape);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 0) return true;
    if (shape[axis] != 1 && strides[axis] != packed[axis]) return false;
  }
  return true;
}

Tensor TensorView::copy() const {
  if (contiguous()) return Tensor::copy_of(data, dtype, shape);
  Tensor result(dtype, shape);
  pack(*this, static_cast<std::byte*>(result.data()));
  return result;
}

Tensor TensorView::to(DType target) const {
  if (!contiguous()) return copy().to(target);
  Tensor result(target, shape);
  convert(data, dtype, result.data(), target, result.numel());
  return result;
}

}  // namespace fk
