// SPDX-License-Identifier: Apache-2.0
// Videos made of noise: the results "latents" and "video", frames first, channels last. A frame of
// latents may stand for several frames of the video. The values are those of the latents. Frames
// are looked at alone, because an error in one frame hides among many others, and because later
// frames of a model see earlier ones.
//   angle       1 - the cosine of a frame's latents, the largest of all frames of all requests
//   mean_angle  the mean of all frames
//   noise       the mean square of a frame's errors over the square of the range of the oracle's
//               frame, the largest of all. PSNR is -10 log10 of it, in dB
//   mean_noise  the mean of all frames
#include <algorithm>

#include "core/engines/metrics/drawn.hpp"
#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

// The largest and the mean distance of frames.
struct FrameDistances {
  double worst = 0, sum = 0, frames = 0;
  double mean() const { return frames > 0 ? sum / frames : 0; }

  template <class Between>
  void add(const NamedTensor& got, const NamedTensor& want, Between between) {
    const auto count = static_cast<size_t>(want.shape[0]);
    if (count == 0) return;
    const size_t each = want.values.size() / count;
    for (size_t i = 0; i < count; ++i) {
      const double d = between(std::span(got.values).subspan(i * each, each),
                               std::span(want.values).subspan(i * each, each));
      worst = std::max(worst, d);
      sum += d;
      ++frames;
    }
  }
};

class VideoMetric final : public ValueMetric {
 public:
  ErrorNumbers compare(const Answers& got, const Answers& want, bool routed) const override {
    ErrorNumbers errors = ValueMetric::compare(got, want, routed);
    if (!errors.wrong.empty()) return errors;
    FrameDistances angle, noise;
    for (const auto& [id, r] : want) {
      const RequestResult& own = got.at(id);
      angle.add(*drawn(own, "latents"), *drawn(r, "latents"), angle_between);
      noise.add(*drawn(own, "video"), *drawn(r, "video"), image_noise);
    }
    errors.more = {
        {"angle", "1 - cosine of the latents of the worst frame", angle.worst},
        {"mean_angle", "1 - cosine of the latents of a frame", angle.mean()},
        {"noise", "noise of the worst frame (PSNR = -10 log10 of it)", noise.worst},
        {"mean_noise", "noise of a frame", noise.mean()},
    };
    return errors;
  }
  std::vector<ShownImage> images(const RequestResult&) const override { return {{"video", -1, 1}}; }

 private:
  std::string collect(const Answers& got, const Answers& want, ComparedRows& rows) const override {
    return collect_latents(got, want, "video", rows.width, rows.values);
  }

  // As for one image (lat.cpp). Errors add up from frame to frame: the worst frame has a share of
  // the spread which is larger than that of all values.
  std::vector<double> limits(const ErrorNumbers& own, const ErrorNumbers* rival,
                             double worst1) const override {
    if (own.more.empty()) return {};
    const double most = worst1 * worst1;
    std::vector<double> all = {4 * most, most, 4 * most, most};
    for (size_t i = 0; rival && i < all.size(); ++i)
      all[i] = std::max(all[i], kOfBaseline * kOfBaseline * rival->more[i].value);
    return all;
  }
};

FK_METRIC(vid, VideoMetric);

}  // namespace

}  // namespace fk
