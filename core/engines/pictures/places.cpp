// SPDX-License-Identifier: Apache-2.0
#include "core/engines/pictures/places.hpp"

#include <algorithm>
#include <cmath>

namespace fk {

namespace {

template <size_t N>
using Square = std::array<std::array<double, N>, N>;

// Eigenvectors of a symmetric matrix, that of the largest eigenvalue first (Jacobi's rotations).
template <size_t N>
Square<N> eigenvectors(Square<N> m) {
  Square<N> v{};
  for (size_t i = 0; i < N; ++i) v[i][i] = 1;  // rows are vectors
  constexpr int kSweeps = 32;
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (size_t p = 0; p < N; ++p)
      for (size_t q = p + 1; q < N; ++q) {
        if (m[p][q] == 0) continue;
        const double angle = std::atan2(2 * m[p][q], m[q][q] - m[p][p]) / 2;
        const double c = std::cos(angle), s = std::sin(angle);
        const auto turn = [&](double& a, double& b) {
          const double old = a;
          a = c * a - s * b, b = s * old + c * b;
        };
        for (size_t k = 0; k < N; ++k) turn(m[k][p], m[k][q]);
        for (size_t k = 0; k < N; ++k) turn(m[p][k], m[q][k]);
        for (size_t k = 0; k < N; ++k) turn(v[p][k], v[q][k]);
      }
  std::array<size_t, N> order{};
  for (size_t i = 0; i < N; ++i) order[i] = i;
  std::ranges::sort(order, [&](size_t a, size_t b) { return m[a][a] > m[b][b]; });
  Square<N> sorted{};
  for (size_t i = 0; i < N; ++i) sorted[i] = v[order[i]];
  return sorted;
}

std::array<double, 3> centre_of(const Places& places) {
  std::array<double, 3> sum{};
  for (const auto& p : places)
    for (size_t c = 0; c < 3; ++c) sum[c] += p[c] / static_cast<double>(places.size());
  return sum;
}

// Sums of products of the axes of two lists of places around their centres.
Square<3> products_of(const Places& a, const Places& b) {
  const auto of_a = centre_of(a), of_b = centre_of(b);
  Square<3> s{};
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t r = 0; r < 3; ++r)
      for (size_t c = 0; c < 3; ++c) s[r][c] += (a[i][r] - of_a[r]) * (b[i][c] - of_b[c]);
  return s;
}

double along(const std::array<double, 3>& axis, const std::array<double, 3>& p,
             const std::array<double, 3>& from) {
  double sum = 0;
  for (size_t c = 0; c < 3; ++c) sum += axis[c] * (p[c] - from[c]);
  return sum;
}

}  // namespace

Places places_of(const NamedTensor& tensor) {
  Places all;
  for (size_t i = 0; i + 3 <= tensor.values.size(); i += 3) {
    auto& place = all.emplace_back();
    for (size_t c = 0; c < 3; ++c) {
      place[c] = static_cast<double>(tensor.values[i + c]);
      if (!std::isfinite(place[c])) return {};
    }
  }
  return all;
}

double distance_of(const std::array<double, 3>& a, const std::array<double, 3>& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

Places superposed(const Places& places, const Places& onto) {
  const Square<3> s = products_of(places, onto);
  const Square<4> n = {
      {{s[0][0] + s[1][1] + s[2][2], s[1][2] - s[2][1], s[2][0] - s[0][2], s[0][1] - s[1][0]},
       {s[1][2] - s[2][1], s[0][0] - s[1][1] - s[2][2], s[0][1] + s[1][0], s[2][0] + s[0][2]},
       {s[2][0] - s[0][2], s[0][1] + s[1][0], s[1][1] - s[0][0] - s[2][2], s[1][2] + s[2][1]},
       {s[0][1] - s[1][0], s[2][0] + s[0][2], s[1][2] + s[2][1], s[2][2] - s[0][0] - s[1][1]}}};
  const auto [w, x, y, z] = eigenvectors(n)[0];
  const Square<3> turn = {
      {{w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)},
       {2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)},
       {2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z}}};
  const auto from = centre_of(places), to = centre_of(onto);
  Places moved;
  for (const auto& p : places) {
    auto& out = moved.emplace_back();
    for (size_t c = 0; c < 3; ++c) out[c] = to[c] + along(turn[c], p, from);
  }
  return moved;
}

PlaceFrame::PlaceFrame(const Places& shown) : centre_(centre_of(shown)) {
  const Square<3> axes = eigenvectors(products_of(shown, shown));
  across_ = axes[0], down_ = axes[1];
  double right = 0, low = 0;  // farthest from the centre
  for (const auto& p : shown) {
    right = std::max(right, std::fabs(along(across_, p, centre_)));
    low = std::max(low, std::fabs(along(down_, p, centre_)));
  }
  const double most = std::max(right, low);
  if (most > 0) scale_ = (kWidth / 2.0 - kEdge) / most;
  height_ = std::clamp<int64_t>(std::llround(2 * (low * scale_ + kEdge)), kWidth / 4, kWidth);
}

std::vector<int64_t> PlaceFrame::at(const Places& places, int64_t step) const {
  std::vector<int64_t> all;
  // Places of another side may lie far outside.
  const auto unit = [&](double value, int64_t whole) {
    return std::llround(
        std::clamp(static_cast<double>(whole) / 2 + value * scale_, -1.0 * kWidth, 2.0 * kWidth));
  };
  for (int64_t i = 0; i < std::ssize(places); i += step) {
    const auto& p = places[static_cast<size_t>(i)];
    all.push_back(unit(along(across_, p, centre_), kWidth));
    all.push_back(unit(along(down_, p, centre_), height_));
  }
  return all;
}

}  // namespace fk
