// SPDX-License-Identifier: Apache-2.0
// Images made of noise: the results "latents" and "image", channels last. The values are those of
// the latents. The image is looked at alone, because its values are of another size.
//   angle   1 - the cosine of a request's latents, the largest of all requests
//   noise   the mean square of the image's errors over the square of the oracle's range, the
//   largest
//           of all requests. PSNR is -10 log10 of it, in dB
#include <algorithm>
#include <cmath>

#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

const NamedTensor* drawn(const RequestResult& r, const char* name) {
  const auto it = std::ranges::find(r.tensors, name, &NamedTensor::name);
  return it == r.tensors.end() || it->shape.empty() ? nullptr : &*it;
}

double square_sum(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// A NaN is as far away as possible.
double angle_between(const std::vector<float>& got, const std::vector<float>& want) {
  const double both = square_sum(got, got) * square_sum(want, want);
  if (both == 0) return square_sum(want, want) == 0 && square_sum(got, got) == 0 ? 0 : 1;
  const double cosine = square_sum(got, want) / std::sqrt(both);
  return std::isnan(cosine) ? 2 : std::max(0.0, 1 - cosine);
}

// The mean square error over the square of the range.
double image_noise(const std::vector<float>& got, const std::vector<float>& want) {
  const auto [low, high] = std::ranges::minmax(want);
  double sum = 0;
  for (size_t i = 0; i < want.size(); ++i)
    sum += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
  if (std::isnan(sum)) return HUGE_VAL;
  const double range = static_cast<double>(high) - static_cast<double>(low);
  if (sum == 0) return 0;
  return range > 0 ? sum / static_cast<double>(want.size()) / (range * range) : HUGE_VAL;
}

class LatentMetric final : public ValueMetric {
 public:
  ErrorNumbers compare(const Answers& got, const Answers& want, bool routed) const override {
    ErrorNumbers errors = ValueMetric::compare(got, want, routed);
    if (!errors.wrong.empty()) return errors;
    double angle = 0, noise = 0;
    for (const auto& [id, r] : want) {
      const RequestResult& own = got.at(id);
      angle = std::max(angle,
                       angle_between(drawn(own, "latents")->values, drawn(r, "latents")->values));
      noise = std::max(noise, image_noise(drawn(own, "image")->values, drawn(r, "image")->values));
    }
    errors.more = {{"angle", "1 - cosine of the latents", angle},
                   {"noise", "noise of the image (PSNR = -10 log10 of it)", noise}};
    return errors;
  }
  std::vector<ShownImage> images(const RequestResult&) const override { return {{"image", -1, 1}}; }

 private:
  std::string collect(const Answers& got, const Answers& want, ComparedRows& rows) const override {
    for (const auto& [id, wanted] : want) {
      const auto it = got.find(id);
      if (it == got.end()) return "a request is missing";
      if (!it->second.failed.empty()) return "a request failed: " + it->second.failed;
      for (const char* name : {"latents", "image"}) {
        const NamedTensor *w = drawn(wanted, name), *g = drawn(it->second, name);
        if (!w) return std::string("the reference has no result ") + name;
        if (!g || g->shape != w->shape || g->values.size() != w->values.size())
          return std::string("the result ") + name + " is missing or has another shape";
      }
      const NamedTensor* latents = drawn(it->second, "latents");
      rows.width = latents->shape.back();
      rows.values.insert(rows.values.end(), latents->values.begin(), latents->values.end());
    }
    return rows.values.empty() ? "there are no results" : "";
  }

  // Errors of latents that are a share `worst1` of their spread turn them by less than worst1^2.
  // The decoder passes a share of that size on, and an image's range is several times its spread.
  std::vector<double> limits(const ErrorNumbers& own, const ErrorNumbers* rival,
                             double worst1) const override {
    if (own.more.empty()) return {};
    std::vector<double> most = {worst1 * worst1, worst1 * worst1};
    for (size_t i = 0; rival && i < most.size(); ++i)
      most[i] = std::max(most[i], kOfBaseline * kOfBaseline * rival->more[i].value);
    return most;
  }
};

FK_METRIC(lat, LatentMetric);

}  // namespace

}  // namespace fk
