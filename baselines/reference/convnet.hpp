// SPDX-License-Identifier: Apache-2.0
// Shared by ops of convolutions and norms (ConvNorm of image.hpp): images in scratch, and the
// names of a convolution's weights in contracts.
#pragma once
#include "image.hpp"

namespace fk::reference {

// An image in scratch. Without memory, it only counts.
inline PixelMap take_map(Scratch& s, int64_t height, int64_t width, int64_t channels) {
  return {height, width, channels, s.take(height * width * channels)};
}
inline void load_map(const fk_in* x, int64_t image, const PixelMap& to) {
  for (int64_t p = 0; p < to.pixels(); ++p)
    load(x, offset(x, image, p / to.width, p % to.width), to.channels, to.at + p * to.channels);
}
// Stores the map as image `image` of out, plus the pixels of `residual_or_null`, an image as large.
inline void store_map(const PixelMap& from, const PixelMap* residual_or_null, const fk_out* out,
                      int64_t image) {
  for (int64_t p = 0; p < from.pixels(); ++p) {
    double* pixel = from.at + p * from.channels;
    for (int64_t c = 0; residual_or_null && c < from.channels; ++c)
      pixel[c] += residual_or_null->at[p * from.channels + c];
    store(out, offset(out, image, p / from.width, p % from.width), from.channels, pixel);
  }
}
inline int64_t strided(int64_t size, int64_t stride) { return (size - 1) / stride + 1; }

// The weights of a convolution and of the norm behind it.
struct ConvNormWeights {
  const fk_in *weight, *norm_weight, *norm_bias, *norm_mean, *norm_variance;
};
// The fields of a contract whose names begin with `name`.
#define FK_CONV_NORM(w, name)                                                         \
  ::fk::reference::ConvNormWeights {                                                  \
    ::fk::reference::view_of(w.name), ::fk::reference::view_of(w.name##_norm_weight), \
        ::fk::reference::view_of(w.name##_norm_bias),                                 \
        ::fk::reference::view_of(w.name##_norm_mean),                                 \
        ::fk::reference::view_of(w.name##_norm_variance)                              \
  }
inline const fk_in* view_of(const fk_in* view) { return view; }
inline const fk_in* view_of(fk_opt_in view) { return view.or_null; }

inline void need_floats(const ConvNormWeights& w) {
  need_floats(w.weight, w.norm_weight, w.norm_bias, w.norm_mean, w.norm_variance);
}
// The convolution of `in` channels to `out`, in `s`. Without memory, it only counts.
inline ConvNorm conv_norm(Scratch& s, const Window& window, int64_t groups, int64_t in, int64_t out,
                          const ConvNormWeights& w, double eps, PixelActivation f) {
  const int64_t taps = window.kernel[0] * window.kernel[1];
  ConvNorm conv{window, groups, w.weight, ChannelAffine(s, out), f, s.take(in * taps)};
  if (conv.patch) conv.affine.read(w.norm_weight, w.norm_bias, w.norm_mean, w.norm_variance, eps);
  return conv;
}

// An activation of the sum of a wide and a narrow convolution, each with its norm.
struct RepVgg {
  ConvNorm wide, point;
  PixelActivation activation;
  RepVgg(Scratch& s, int64_t channels, const ConvNormWeights& three, const ConvNormWeights& one,
         double eps, PixelActivation f)
      : wide(conv_norm(s, centred(3, 1), 1, channels, channels, three, eps, PixelActivation::none)),
        point(conv_norm(s, centred(1, 1), 1, channels, channels, one, eps, PixelActivation::none)),
        activation(f) {}
  // `other` has room for an image.
  void operator()(const PixelMap& x, const PixelMap& other, const PixelMap& out) const {
    wide(x, out);
    point(x, other);
    for (int64_t i = 0; i < x.pixels() * x.channels; ++i)
      out.at[i] = activated(out.at[i] + other.at[i], activation);
  }
};

// Squeeze and excitation: the gates of an image's channels from their means, two products with an
// activation between them.
struct SqueezeExcite {
  const fk_in *squeeze, *squeeze_bias, *excite, *excite_bias;
  int64_t channels, squeezed;
  PixelActivation activation;
  double *means, *hidden, *gates;
  SqueezeExcite(Scratch& s, int64_t count, int64_t narrow, PixelActivation f, const fk_in* first,
                const fk_in* first_bias, const fk_in* second, const fk_in* second_bias)
      : squeeze(first),
        squeeze_bias(first_bias),
        excite(second),
        excite_bias(second_bias),
        channels(count),
        squeezed(narrow),
        activation(f),
        means(s.take(count)),
        hidden(s.take(narrow)),
        gates(s.take(count)) {}
  // In place.
  void operator()(const PixelMap& x) const {
    std::fill_n(means, channels, 0.0);
    for (int64_t p = 0; p < x.pixels(); ++p)
      for (int64_t c = 0; c < channels; ++c) means[c] += x.at[p * channels + c];
    for (int64_t c = 0; c < channels; ++c) means[c] /= static_cast<double>(x.pixels());
    matrix_vector(squeeze, 0, squeezed, channels, squeeze_bias, means, hidden);
    for (int64_t i = 0; i < squeezed; ++i) hidden[i] = activated(hidden[i], activation);
    matrix_vector(excite, 0, channels, squeezed, excite_bias, hidden, gates);
    for (int64_t c = 0; c < channels; ++c) gates[c] = 1 / (1 + std::exp(-gates[c]));
    for (int64_t p = 0; p < x.pixels(); ++p)
      for (int64_t c = 0; c < channels; ++c) x.at[p * channels + c] *= gates[c];
  }
};

}  // namespace fk::reference
