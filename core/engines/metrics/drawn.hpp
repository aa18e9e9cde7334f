// SPDX-License-Identifier: Apache-2.0
// Distances of latents and of images, for metrics of models which draw.
#pragma once
#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "core/exec/metric.hpp"

namespace fk {

// Null: the result is missing, or is a single number.
inline const NamedTensor* drawn(const RequestResult& r, const std::string& name) {
  const auto it = std::ranges::find(r.tensors, name, &NamedTensor::name);
  return it == r.tensors.end() || it->shape.empty() ? nullptr : &*it;
}

// 1 - the cosine. A NaN is as far away as possible.
inline double angle_between(std::span<const float> got, std::span<const float> want) {
  const auto product = [](std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i)
      sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
  };
  const double own = product(got, got), right = product(want, want);
  if (own * right == 0) return own == 0 && right == 0 ? 0 : 1;
  const double cosine = product(got, want) / std::sqrt(own * right);
  return std::isnan(cosine) ? 2 : std::max(0.0, 1 - cosine);
}

// The mean square error over the square of the range. PSNR is -10 log10 of it.
inline double image_noise(std::span<const float> got, std::span<const float> want) {
  const auto [low, high] = std::ranges::minmax(want);
  double sum = 0;
  for (size_t i = 0; i < want.size(); ++i)
    sum += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
  if (std::isnan(sum)) return HUGE_VAL;
  const double range = static_cast<double>(high) - static_cast<double>(low);
  if (sum == 0) return 0;
  return range > 0 ? sum / static_cast<double>(want.size()) / (range * range) : HUGE_VAL;
}

// Rows of the result `rows` of all requests. Returns empty, or the missing part. A request needs
// the result `shown` too.
inline std::string collect_latents(const Answers& got, const Answers& want,
                                   const std::string& shown, int64_t& width,
                                   std::vector<float>& values,
                                   const std::string& rows = "latents") {
  for (const auto& [id, wanted] : want) {
    const auto it = got.find(id);
    if (it == got.end()) return "a request is missing";
    if (!it->second.failed.empty()) return "a request failed: " + it->second.failed;
    for (const std::string& name : {rows, shown}) {
      const NamedTensor *w = drawn(wanted, name), *g = drawn(it->second, name);
      if (!w) return "the reference has no result " + name;
      if (!g || g->shape != w->shape || g->values.size() != w->values.size())
        return "the result " + name + " is missing or has another shape";
    }
    const NamedTensor* latents = drawn(it->second, rows);
    width = latents->shape.back();
    values.insert(values.end(), latents->values.begin(), latents->values.end());
  }
  return values.empty() ? "there are no results" : "";
}

}  // namespace fk
