// SPDX-License-Identifier: Apache-2.0
// Every collective of a communicator of the CPU, against what it means.
#pragma once
#include <string>

#include "core/comm/shared_comm.hpp"
#include "core/tensor/tensor.hpp"

namespace fk::test {

// A dense view of a tensor that owns its dims.
struct View {
  fk_out out{};
  Shape shape, strides;
  explicit View(Tensor& tensor) : shape(tensor.shape), strides(contiguous_strides(tensor.shape)) {
    const auto type = to_dlpack(tensor.dtype);
    out.data = tensor.data();
    out.device_type = FK_CPU;
    out.ndim = static_cast<int32_t>(shape.size());
    out.dtype = {type.code, type.bits, 1};
    out.shape = shape.data();
    out.strides = strides.data();
    out.nbytes = tensor.bytes();
  }
  const fk_in* in() const { return fk_as_in(&out); }
};

// The value of rank r at element i. It differs between ranks, and is a small whole number, so sums
// are exact in every dtype.
inline double element(int rank, int64_t i) { return static_cast<double>((rank + 1) * 7 + i % 11); }

inline Tensor numbers(DType dtype, int rank, int64_t count) {
  Tensor t(dtype, {count});
  for (int64_t i = 0; i < count; ++i)
    from_double(element(rank, i), static_cast<std::byte*>(t.data()) + i * bytes(dtype), dtype);
  return t;
}

// "" when every element of `got` is want(i).
template <class Want>
std::string differs(const Tensor& got, const Want& want) {
  for (int64_t i = 0; i < got.numel(); ++i)
    if (got.at(i) != want(i))
      return "element " + std::to_string(i) + " is " + std::to_string(got.at(i)) + ", not " +
             std::to_string(want(i));
  return "";
}

// "" when they are right for n elements of a rank.
inline std::string collectives(SharedCommunicator& comm, DType dtype, int64_t n) {
  const int size = comm.size(), rank = comm.rank();
  const fk_comm& c = *comm.table();
  Tensor x = numbers(dtype, rank, n), wide = numbers(dtype, rank, size * n);
  Tensor all(dtype, {size * n}), part(dtype, {n});
  const View vx(x), vwide(wide), vall(all), vpart(part);
  const auto fails = [&](const char* what, int32_t status, const std::string& difference) {
    if (status == FK_OK && difference.empty()) return std::string();
    return std::string(what) + ": " + c.error(&c) + difference;
  };
  int32_t status = c.all_gather(&c, vx.in(), &vall.out, nullptr);
  auto why =
      fails("all_gather", status,
            differs(all, [&](int64_t i) { return element(static_cast<int>(i / n), i % n); }));
  if (!why.empty()) return why;
  status = c.all_to_all(&c, vwide.in(), &vall.out, nullptr);
  why = fails("all_to_all", status, differs(all, [&](int64_t i) {
                return element(static_cast<int>(i / n), rank * n + i % n);
              }));
  if (!why.empty()) return why;
  const auto sum = [&](int64_t i) {
    double total = 0;
    for (int r = 0; r < size; ++r) total += element(r, i);
    return total;
  };
  status = c.reduce_scatter(&c, vwide.in(), &vpart.out, FK_SUM, nullptr);
  why =
      fails("reduce_scatter", status, differs(part, [&](int64_t i) { return sum(rank * n + i); }));
  if (!why.empty()) return why;
  status = c.all_reduce(&c, vx.in(), &vpart.out, FK_MAX, nullptr);
  why = fails("all_reduce max", status,
              differs(part, [&](int64_t i) { return element(size - 1, i); }));
  if (!why.empty()) return why;
  status = c.all_reduce(&c, vx.in(), &vx.out, FK_SUM, nullptr);  // in place
  return fails("all_reduce", status, differs(x, sum));
}

}  // namespace fk::test
