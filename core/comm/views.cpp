// SPDX-License-Identifier: Apache-2.0
// Checks of views, and the exchange of a few bytes by an all-gather.
#include "core/comm/views.hpp"

namespace fk {

namespace {

int64_t dense_bytes(const fk_in& view, const char* what) {
  const int64_t bytes = fk_numel(&view) * view.dtype.bits / 8;
  if (view.nbytes != bytes) fail("ranks", std::string(what) + " is not dense");
  return bytes;
}

}  // namespace

int64_t part_bytes(const fk_in& x, const fk_out& out, int64_t x_parts, int64_t out_parts) {
  const int64_t mine = dense_bytes(x, "x"), theirs = dense_bytes(*fk_as_in(&out), "out");
  if (FK_DTYPE(&x) != FK_DTYPE(&out)) fail("ranks", "x and out have different dtypes");
  if (mine * out_parts != theirs * x_parts || mine % x_parts != 0)
    fail("ranks", "x has " + std::to_string(mine) + " bytes and out " + std::to_string(theirs));
  return mine / x_parts;
}

CommCall call_of(const char* op, const fk_in& x, int64_t detail) {
  return CommCall::of(op, static_cast<uint32_t>(FK_DTYPE(&x)), fk_numel(&x),
                      static_cast<uint32_t>(detail));
}

std::vector<std::string> gather_bytes(const fk_comm& host, const void* mine, size_t bytes) {
  const auto size = static_cast<size_t>(host.size);
  std::string all(size * bytes, 0);
  const fk_dtype byte{1, 8, 1};  // one unsigned number of 8 bits
  fk_temp x{}, out{};
  fk_in like{};
  like.device_type = FK_CPU;
  like.dtype = byte;
  const int64_t one[] = {static_cast<int64_t>(bytes)}, whole[] = {static_cast<int64_t>(all.size())};
  fk_temp_view(&x, &like, const_cast<void*>(mine), 1, one);
  fk_temp_view(&out, &like, all.data(), 1, whole);
  if (host.all_gather(&host, fk_as_in(&x.view), &out.view, nullptr) != FK_OK)
    fail("ranks", host.error(&host));
  std::vector<std::string> parts;
  for (size_t r = 0; r < size; ++r) parts.push_back(all.substr(r * bytes, bytes));
  return parts;
}

}  // namespace fk
