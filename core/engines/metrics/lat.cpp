// SPDX-License-Identifier: Apache-2.0
// Images made of noise: the results "latents" and "image", channels last. The values are those of
// the latents. The image is looked at alone, because its values are of another size.
//   angle   1 - the cosine of a request's latents, the largest of all requests
//   noise   the mean square of the image's errors over the square of the oracle's range, the
//   largest
//           of all requests. PSNR is -10 log10 of it, in dB
#include <algorithm>

#include "core/engines/metrics/drawn.hpp"
#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

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
    return collect_latents(got, want, "image", rows.width, rows.values);
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
