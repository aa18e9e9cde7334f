// SPDX-License-Identifier: Apache-2.0
// Results which a metric calls images (Metric::images), videos and sounds. An image is reduced to
// at most 512 pixels a side, but numbers are those of the whole image. A sound [samples, 1] is
// shown by its spectrogram, and a spectrogram [frames, bands] with frames as columns.
#include <algorithm>
#include <cmath>

#include "core/base/base64.hpp"
#include "core/base/png.hpp"
#include "core/base/sound.hpp"
#include "core/exec/picture.hpp"

namespace fk {

namespace {

constexpr int64_t kShownMost = 512;    // pixels of a side
constexpr int64_t kStripMost = 2048;   // columns of all frames of a video
constexpr int64_t kFramesMost = 8;     // of a video, the first and the last one among them
constexpr int64_t kSoundRate = 24000;  // samples a second, of all models of speech here
constexpr int64_t kSoundMost = 20 * kSoundRate;  // samples of a file

// A result as an image [rows, columns, colours]: of a video, some frames side by side. A sound is
// its spectrogram.
struct Drawable {
  std::vector<int64_t> shape;
  std::vector<float> values;
  std::string which = {};  // ", 8 of 32 frames" of a video
  std::string wav = {};    // of a sound
  bool wide = false;       // more columns are shown
};

// Rows of frames become columns, with the first band below.
Drawable spectrogram_of(std::span<const float> rows, int64_t bands) {
  const int64_t frames = std::ssize(rows) / bands;
  Drawable image{.shape = {bands, frames, 1}, .values = {}, .wide = true};
  for (int64_t band = bands - 1; band >= 0; --band)
    for (int64_t frame = 0; frame < frames; ++frame)
      image.values.push_back(rows[static_cast<size_t>(frame * bands + band)]);
  return image;
}

// Magnitudes in decibels: -1 is 80 dB below a tone at full scale, 1 is such a tone.
Drawable sound_of(const NamedTensor& sound) {
  std::vector<float> rows = magnitudes_of(sound.values);
  for (float& magnitude : rows) {
    const double share = static_cast<double>(magnitude) / (kSpectrumFrame / 4.0);
    magnitude = std::isfinite(share) ? static_cast<float>(1 + std::log10(std::max(share, 1e-4)) / 2)
                                     : magnitude;
  }
  Drawable image = spectrogram_of(rows, kSpectrumBins);
  const auto shown = static_cast<size_t>(std::min<int64_t>(kSoundMost, std::ssize(sound.values)));
  image.wav = base64_of(wav_of(std::span(sound.values).first(shown), kSoundRate));
  return image;
}

// Frames side by side.
Drawable strip_of(const NamedTensor& video) {
  const auto& s = video.shape;
  Drawable strip;
  const int64_t frames = std::min(s[0], kFramesMost);
  strip.which = ", " + std::to_string(frames) + " of " + std::to_string(s[0]) + " frames";
  strip.shape = {s[1], frames * s[2], s[3]};
  const int64_t row = s[2] * s[3];
  for (int64_t y = 0; y < s[1]; ++y)
    for (int64_t i = 0; i < frames; ++i) {
      const int64_t frame = frames == 1 ? 0 : i * (s[0] - 1) / (frames - 1);
      const auto from = video.values.begin() + (frame * s[1] + y) * row;
      strip.values.insert(strip.values.end(), from, from + row);
    }
  return strip;
}

// Without a shape where the result is missing, or is no image and no video.
Drawable drawable(const RequestResult& r, const std::string& name) {
  const auto it = std::ranges::find(r.tensors, name, &NamedTensor::name);
  if (it == r.tensors.end()) return {};
  const auto& s = it->shape;
  const bool flat = s.size() == 2 && s[0] > 0 && s[1] > 0 &&
                    static_cast<int64_t>(it->values.size()) == s[0] * s[1];
  if (flat) return s[1] == 1 ? sound_of(*it) : spectrogram_of(it->values, s[1]);
  if (s.size() < 3 || s.size() > 4 || (s.back() != 1 && s.back() != 3)) return {};
  int64_t values = 1;
  for (const int64_t side : s) values *= std::max<int64_t>(side, 0);
  if (values == 0 || static_cast<int64_t>(it->values.size()) != values) return {};
  if (s.size() == 4) return strip_of(*it);
  return {.shape = s, .values = it->values};
}

// Fills sizes and PNG. shown(i) is the brightness of value i of an image [rows, columns, colours],
// from 0 to 1. A pixel is the mean of a square of the image.
template <class Shown>
void draw_picture(const std::vector<int64_t>& shape, bool wide, const Shown& shown,
                  Picture& picture) {
  const int64_t rows = shape[0], columns = shape[1], colours = shape[2];
  const int64_t most = wide ? kStripMost : kShownMost;
  const int64_t step = (std::max(rows, columns) + most - 1) / most;
  picture.height = (rows + step - 1) / step, picture.width = (columns + step - 1) / step;
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < picture.height; ++y)
    for (int64_t x = 0; x < picture.width; ++x)
      for (int64_t c = 0; c < colours; ++c) {
        double sum = 0, count = 0;
        for (int64_t row = y * step; row < std::min(rows, (y + 1) * step); ++row)
          for (int64_t column = x * step; column < std::min(columns, (x + 1) * step); ++column) {
            sum += shown((row * columns + column) * colours + c);
            ++count;
          }
        const double mean = sum / count;
        pixels.push_back(static_cast<uint8_t>(
            std::lround(255 * (std::isfinite(mean) ? std::clamp(mean, 0.0, 1.0) : 0.0))));
      }
  picture.png = base64_of(png_of(picture.width, picture.height, colours, pixels));
}

Picture picture_of(const ShownImage& image, const std::string& side, const Drawable& tensor) {
  Picture picture{.result = image.result + tensor.which, .side = side, .wav = tensor.wav};
  draw_picture(
      tensor.shape, tensor.wide || !tensor.which.empty(),
      [&](int64_t i) {
        return (static_cast<double>(tensor.values[static_cast<size_t>(i)]) - image.black) /
               (image.white - image.black);
      },
      picture);
  return picture;
}

Picture difference_picture(const ShownImage& image, const std::string& side, const Drawable& got,
                           const Drawable& want) {
  Picture picture{.result = image.result + want.which, .side = side, .difference = true};
  const auto apart = [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    return std::fabs(static_cast<double>(got.values[at]) - static_cast<double>(want.values[at])) /
           (image.white - image.black);
  };
  const auto count = static_cast<int64_t>(want.values.size());
  for (int64_t i = 0; i < count; ++i) {
    // A NaN is as far away as possible.
    const double d = std::isnan(apart(i)) ? HUGE_VAL : apart(i);
    picture.worst = std::max(picture.worst, d);
    picture.mean += d / static_cast<double>(count);
  }
  const double white = picture.worst > 0 && std::isfinite(picture.worst) ? picture.worst : 1;
  draw_picture(
      want.shape, want.wide || !want.which.empty(),
      [&](int64_t i) {
        const double d = apart(i);
        return std::isfinite(d) ? d / white : 1;
      },
      picture);
  return picture;
}

void add_image_pictures(const PictureTask& task, std::vector<Picture>& all) {
  for (const ShownImage& image : task.metric.images(task.want)) {
    const Drawable wanted = drawable(task.want, image.result);
    if (wanted.shape.empty()) continue;
    if (task.first) all.push_back(picture_of(image, kReferenceSide, wanted));
    if (!task.got) continue;
    const Drawable drawn = drawable(*task.got, image.result);
    if (drawn.shape != wanted.shape || drawn.which != wanted.which) continue;
    all.push_back(picture_of(image, task.side, drawn));
    all.push_back(difference_picture(image, task.side, drawn, wanted));
  }
}
FK_PICTURES(images, add_image_pictures);

}  // namespace

}  // namespace fk
