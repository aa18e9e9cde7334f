// SPDX-License-Identifier: Apache-2.0
// The arithmetic of images, channels last: the input patch of a convolution's output, norms with
// stored statistics, global response normalisation, and the MLP around it.
#pragma once
#include "op.hpp"

namespace fk::reference {

// A convolution's window. Arrays of two are rows, columns.
struct Window {
  int64_t kernel[2], stride[2], padding[2], dilation[2];
};

// patch[C, KH, KW], in the order of a weight's row, gets the inputs of output pixel (oy, ox) of
// image b. Pixels outside the image are 0. `row` has room for C.
inline void gather_patch(const fk_in* x, const Window& w, int64_t b, int64_t oy, int64_t ox,
                         double* row, double* patch) {
  const int64_t height = x->shape[1], width = x->shape[2], channels = x->shape[3];
  const int64_t taps = w.kernel[0] * w.kernel[1];
  for (int64_t tap = 0; tap < taps; ++tap) {
    const int64_t iy = oy * w.stride[0] - w.padding[0] + tap / w.kernel[1] * w.dilation[0];
    const int64_t ix = ox * w.stride[1] - w.padding[1] + tap % w.kernel[1] * w.dilation[1];
    if (iy >= 0 && iy < height && ix >= 0 && ix < width)
      load(x, offset(x, b, iy, ix), channels, row);
    else
      std::fill_n(row, channels, 0.0);
    for (int64_t c = 0; c < channels; ++c) patch[c * taps + tap] = row[c];
  }
}

// Activations behind a norm of pixels, in the order of the choices of `activation` in contracts.
enum class PixelActivation : int { none, relu, silu, gelu, mish };
inline double mish(double x) {
  return x * std::tanh(std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))));
}
inline double activated(double x, PixelActivation f) {
  switch (f) {
    case PixelActivation::relu:
      return std::max(x, 0.0);
    case PixelActivation::silu:
      return silu(x);
    case PixelActivation::gelu:
      return gelu(x, /*tanh_form=*/false);
    case PixelActivation::mish:
      return mish(x);
    default:
      return x;
  }
}

// Batch normalisation with stored statistics: (x - mean) * scale + bias for each channel.
struct ChannelAffine {
  int64_t channels;
  double *mean, *scale, *bias;
  ChannelAffine(Scratch& s, int64_t count)
      : channels(count), mean(s.take(count)), scale(s.take(count)), bias(s.take(count)) {}
  void read(const fk_in* weight_or_null, const fk_in* bias_or_null, const fk_in* means,
            const fk_in* variances, double eps) {
    if (!variances) return;  // a convolution that a block lacks
    load(variances, 0, channels, bias);
    if (weight_or_null)
      load(weight_or_null, 0, channels, scale);
    else
      std::fill_n(scale, channels, 1.0);
    for (int64_t c = 0; c < channels; ++c) scale[c] /= std::sqrt(bias[c] + eps);
    load(means, 0, channels, mean);
    if (bias_or_null)
      load(bias_or_null, 0, channels, bias);
    else
      std::fill_n(bias, channels, 0.0);
  }
  // One pixel, in place.
  void apply(double* x, PixelActivation f) const {
    for (int64_t c = 0; c < channels; ++c)
      x[c] = activated((x[c] - mean[c]) * scale[c] + bias[c], f);
  }
};

// One image, [height, width, channels] row-major, in doubles.
struct PixelMap {
  int64_t height, width, channels;
  double* at;
  int64_t pixels() const { return height * width; }
};

// Group normalisation of one image, in place.
struct GroupAffine {
  int64_t channels, groups;
  double eps;
  double *weight, *bias;
  GroupAffine(Scratch& s, int64_t count, int64_t of, double epsilon)
      : channels(count), groups(of), eps(epsilon), weight(s.take(count)), bias(s.take(count)) {}
  void read(const fk_in* weight_or_null, const fk_in* bias_or_null) {
    std::fill_n(weight, channels, 1.0);
    std::fill_n(bias, channels, 0.0);
    if (weight_or_null) load(weight_or_null, 0, channels, weight);
    if (bias_or_null) load(bias_or_null, 0, channels, bias);
  }
  void apply(const PixelMap& map, PixelActivation f) const {
    const int64_t width = channels / groups;
    const auto count = static_cast<double>(map.pixels() * width);
    for (int64_t first = 0; first < channels; first += width) {
      const auto each = [&](auto body) {
        for (int64_t p = 0; p < map.pixels(); ++p)
          for (int64_t c = first; c < first + width; ++c) body(map.at[p * channels + c], c);
      };
      double sum = 0, squares = 0;
      each([&](double v, int64_t) { sum += v; });
      const double mean = sum / count;
      each([&](double v, int64_t) { squares += (v - mean) * (v - mean); });
      const double scale = 1 / std::sqrt(squares / count + eps);
      each([&](double& v, int64_t c) {
        v = activated((v - mean) * scale * weight[c] + bias[c], f);
      });
    }
  }
};

// A convolution with a norm and an activation behind it, as modules of image models have them.
// Weights are [O, C/groups, KH, KW]. `patch` has room for C * KH * KW doubles.
struct ConvNorm {
  Window window;
  int64_t groups;
  const fk_in* weight;
  ChannelAffine affine;
  PixelActivation activation;
  double* patch;

  // Fills out.at; its other members are the sizes of the result.
  void operator()(const PixelMap& x, const PixelMap& out) const {
    const int64_t taps = window.kernel[0] * window.kernel[1];
    const int64_t each = out.channels / groups, length = x.channels / groups * taps;
    for (int64_t p = 0; p < out.pixels(); ++p) {
      gather(x, p / out.width, p % out.width);
      double* to = out.at + p * out.channels;
      for (int64_t o = 0; o < out.channels; ++o)
        to[o] = dot_view(weight, o * length, patch + o / each * length, length);
      affine.apply(to, activation);
    }
  }

 private:
  void gather(const PixelMap& x, int64_t oy, int64_t ox) const {
    const int64_t taps = window.kernel[0] * window.kernel[1];
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t iy =
          oy * window.stride[0] - window.padding[0] + tap / window.kernel[1] * window.dilation[0];
      const int64_t ix =
          ox * window.stride[1] - window.padding[1] + tap % window.kernel[1] * window.dilation[1];
      const bool inside = iy >= 0 && iy < x.height && ix >= 0 && ix < x.width;
      const double* from = inside ? x.at + (iy * x.width + ix) * x.channels : nullptr;
      for (int64_t c = 0; c < x.channels; ++c) patch[c * taps + tap] = from ? from[c] : 0;
    }
  }
};
// A window of odd size with as many zeros on each side as keep the size at stride 1.
inline Window centred(int64_t kernel, int64_t stride) {
  return {{kernel, kernel}, {stride, stride}, {kernel / 2, kernel / 2}, {1, 1}};
}

// Global response normalisation of x[positions, channels], one image, in place: x + bias + weight *
// x * n. n[c] is the norm of channel c divided by the mean norm of all channels. `norms` and `row`
// have room for `channels`.
inline void respond(double* x, int64_t positions, int64_t channels, double eps, const fk_in* weight,
                    const fk_in* bias, double* norms, double* row) {
  std::fill_n(norms, channels, 0.0);
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t c = 0; c < channels; ++c) norms[c] += x[p * channels + c] * x[p * channels + c];
  double sum = 0;
  for (int64_t c = 0; c < channels; ++c) sum += norms[c] = std::sqrt(norms[c]);
  load(weight, 0, channels, row);
  for (int64_t c = 0; c < channels; ++c)
    norms[c] = 1 + row[c] * norms[c] / (sum / static_cast<double>(channels) + eps);
  load(bias, 0, channels, row);
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t c = 0; c < channels; ++c)
      x[p * channels + c] = x[p * channels + c] * norms[c] + row[c];
}

// Rows of scratch (op.hpp) for response_mlp().
struct ResponseMlpRows {
  double *x, *hidden, *norms, *row, *out;
  template <class Init, class Forward>
  ResponseMlpRows(Scratch& s, const Init& i, const Forward& args)
      : x(s.take(i.hidden_size)),
        hidden(s.take(args.x->shape[1] * args.x->shape[2] * i.intermediate_size)),
        norms(s.take(i.intermediate_size)),
        row(s.take(i.intermediate_size)),
        out(s.take(i.hidden_size)) {}
};

// One image through the MLP. source(p, x[C]) loads position p's row, sink(p, out[C]) stores its
// result.
template <class Init, class Weights, class Source, class Sink>
void response_mlp(const Init& init, const Weights& weights, bool tanh_form, int64_t positions,
                  const ResponseMlpRows& rows, Source source, Sink sink) {
  const int64_t channels = init.hidden_size, width = init.intermediate_size;
  for (int64_t p = 0; p < positions; ++p) {
    double* hidden = rows.hidden + p * width;
    source(p, rows.x);
    matrix_vector(weights.fc1, 0, width, channels, weights.fc1_bias.or_null, rows.x, hidden);
    for (int64_t f = 0; f < width; ++f) hidden[f] = gelu(hidden[f], tanh_form);
  }
  respond(rows.hidden, positions, width, init.grn_eps, weights.grn_weight, weights.grn_bias,
          rows.norms, rows.row);
  for (int64_t p = 0; p < positions; ++p) {
    matrix_vector(weights.fc2, 0, channels, width, weights.fc2_bias.or_null,
                  rows.hidden + p * width, rows.out);
    sink(p, rows.out);
  }
}

}  // namespace fk::reference
