// SPDX-License-Identifier: Apache-2.0
// Renderings: results of the shape [rows, columns, colours]. Beside all values, this metric looks
// at each image, because one wrong image would hide among many.
//   mse        mean squared error of the worst image, over the square of its brightest value. The
//              PSNR is -10 log10 of it
//   ssim_loss  1 - SSIM of the worst image (Wang et al. 2004), in windows of 8 by 8 pixels
//   contrast   spread of all values over the darkest image's brightest value; it is not judged
#include <algorithm>
#include <cmath>

#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

constexpr int64_t kWindow = 8, kBetweenWindows = 4;  // pixels
constexpr double kOfMeans = 0.01 * 0.01, kOfSpreads = 0.03 * 0.03;
// The worst 1 % of normal errors are about three times their standard deviation. Squared:
constexpr double kWorstOfSpread = 9;

struct ImageErrors {
  double mse = 0, ssim_loss = 0, peak = HUGE_VAL;
};

// SSIM of one window of one colour.
double ssim_at(const NamedTensor& got, const NamedTensor& want, int64_t row, int64_t column,
               int64_t colour, double peak) {
  const int64_t rows = std::min(kWindow, want.shape[0]), columns = std::min(kWindow, want.shape[1]);
  double g = 0, w = 0, gg = 0, ww = 0, gw = 0;
  for (int64_t y = row; y < row + rows; ++y) {
    for (int64_t x = column; x < column + columns; ++x) {
      const auto at = static_cast<size_t>((y * want.shape[1] + x) * want.shape[2] + colour);
      const double a = static_cast<double>(got.values[at]) / peak,
                   b = static_cast<double>(want.values[at]) / peak;
      g += a, w += b, gg += a * a, ww += b * b, gw += a * b;
    }
  }
  const auto count = static_cast<double>(rows * columns);
  g /= count, w /= count;
  const double of_g = gg / count - g * g, of_w = ww / count - w * w, both = gw / count - g * w;
  return (2 * g * w + kOfMeans) * (2 * both + kOfSpreads) /
         ((g * g + w * w + kOfMeans) * (of_g + of_w + kOfSpreads));
}

ImageErrors compare_images(const NamedTensor& got, const NamedTensor& want) {
  ImageErrors e;
  double squares = 0, peak = 0;
  for (size_t i = 0; i < want.values.size(); ++i) {
    squares +=
        std::pow(static_cast<double>(got.values[i]) - static_cast<double>(want.values[i]), 2);
    peak = std::max(peak, std::abs(static_cast<double>(want.values[i])));
  }
  if (!(peak > 0)) peak = 1;  // a black image
  e.peak = peak;
  e.mse = squares / static_cast<double>(want.values.size()) / (peak * peak);
  double sum = 0, count = 0;
  for (int64_t colour = 0; colour < want.shape[2]; ++colour)
    for (int64_t row = 0; row == 0 || row + kWindow <= want.shape[0]; row += kBetweenWindows)
      for (int64_t column = 0; column == 0 || column + kWindow <= want.shape[1];
           column += kBetweenWindows, ++count)
        sum += ssim_at(got, want, row, column, colour, peak);
  e.ssim_loss = 1 - sum / count;
  if (std::isnan(squares)) e.mse = e.ssim_loss = HUGE_VAL;
  return e;
}

class RenderingMetric final : public ValueMetric {
 public:
  ErrorNumbers compare(const Answers& got, const Answers& want, bool routed) const override {
    ErrorNumbers errors = ValueMetric::compare(got, want, routed);
    if (!errors.wrong.empty()) return errors;
    ImageErrors worst;
    for (const auto& [id, wanted] : want) {
      for (const auto& image : wanted.tensors) {
        if (image.shape.size() != 3) continue;
        const auto& own = got.at(id).tensors;
        const ImageErrors e =
            compare_images(*std::ranges::find(own, image.name, &NamedTensor::name), image);
        worst.mse = std::max(worst.mse, e.mse);
        worst.ssim_loss = std::max(worst.ssim_loss, e.ssim_loss);
        worst.peak = std::min(worst.peak, e.peak);
      }
    }
    if (worst.peak == HUGE_VAL) {
      errors.wrong = "there is no result of the shape [rows, columns, colours]";
      return errors;
    }
    errors.more = {{"mse", "mean squared error of an image", worst.mse},
                   {"ssim_loss", "1 - SSIM of an image", worst.ssim_loss},
                   {"contrast", "spread over brightest value", errors.spread / worst.peak}};
    return errors;
  }
  std::vector<ShownImage> images(const RequestResult& result) const override {
    std::vector<ShownImage> all;
    for (const auto& tensor : result.tensors)
      if (tensor.shape.size() == 3) all.push_back({tensor.name});
    return all;
  }

 private:
  // An error e of all values, over the brightest one, has the square e^2. It takes about e^2 over
  // the second constant from the SSIM of an even window, and less elsewhere.
  std::vector<double> limits(const ErrorNumbers& own, const ErrorNumbers* rival,
                             double worst1) const override {
    if (own.more.size() < 3) return {};
    double mse = std::pow(worst1 * own.more[2].value, 2),
           ssim = mse / (kWorstOfSpread * kOfSpreads);
    if (rival) {
      mse = std::max(mse, kOfBaseline * kOfBaseline * rival->more[0].value);
      ssim = std::max(ssim, kOfBaseline * kOfBaseline * rival->more[1].value);
    }
    return {mse, ssim, HUGE_VAL};
  }
};

FK_METRIC(ren, RenderingMetric);

}  // namespace

}  // namespace fk
