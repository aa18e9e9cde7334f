// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/diffusers/video_decoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "baselines/models/parts/diffusers/unet.hpp"
#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

namespace {

constexpr int64_t kTaps = 3;  // frames, rows and columns of a convolution's window
constexpr double kClipEps = 1e-12;

// A video of a batch, channels last: x [B, frames * rows * columns, C].
struct Clip {
  Value x;
  int64_t frames = 0, rows = 0, columns = 0;
  int64_t image() const { return rows * columns; }
  int64_t pixels() const { return frames * image(); }
};

Value clip_rows(Net& n, Value x) {
  const Dims shape = n.shape(x);
  return n.reshape(x, {shape[0] * shape[1], shape[2]});
}
Clip with_rows(Net& n, const Clip& clip, Value rows) {
  Clip out = clip;
  out.x = n.reshape(rows, {n.shape(clip.x)[0], clip.pixels(), n.shape(rows)[1]});
  return out;
}

// A weight of the checkpoint for one pixel, as a matrix.
Value pointwise(Net& n, const std::string& path, Value x, int64_t width) {
  const int64_t channels = n.shape(x)[1].value();
  WeightSpec spec;
  spec.name = path + ".weight";
  spec.dtype = n.limits().weights();
  spec.shape = {width, channels};
  spec.view = PartView{{width, channels}, 0, 0, width, {0, 1}};
  return n("linear", path, {{"weight", n.weight(std::move(spec))}, {"x", x}}, {"bias"});
}

// Each pixel of the padded video, with those of the two frames before it side by side. So a
// convolution of images is one over time.
Clip causal_conv(Net& n, const std::string& path, const Clip& clip, int64_t width) {
  const Expr batch = n.shape(clip.x)[0];
  const int64_t channels = n.shape(clip.x)[2].value();
  const int64_t high = clip.rows + kTaps - 1, wide = clip.columns + kTaps - 1;
  const int64_t all = clip.frames * high * wide * kTaps;
  const Value order =
      computed(n, fmt::format("causal.{}x{}x{}", clip.frames, clip.rows, clip.columns), DType::i32,
               {all}, [clip, high, wide, all] {
                 std::vector<double> from;
                 from.reserve(static_cast<size_t>(all));
                 for (int64_t i = 0; i < all; ++i) {
                   const int64_t pixel = i / kTaps, frame = pixel / wide / high;
                   const int64_t t = std::max<int64_t>(0, frame + i % kTaps - (kTaps - 1));
                   const int64_t y = std::clamp<int64_t>(pixel / wide % high - 1, 0, clip.rows - 1);
                   const int64_t x = std::clamp<int64_t>(pixel % wide - 1, 0, clip.columns - 1);
                   from.push_back(static_cast<double>((t * clip.rows + y) * clip.columns + x));
                 }
                 return from;
               });
  const Value windows = n("select_rows", path + ".windows", {{"x", clip.x}, {"rows", order}});
  WeightSpec spec;
  spec.name = path + ".conv.weight";
  spec.dtype = n.limits().weights();
  spec.shape = {width, kTaps, channels, kTaps, kTaps};
  spec.stddev = 1 / std::sqrt(static_cast<double>(channels * kTaps * kTaps * kTaps));
  spec.view = PartView{{width, channels, kTaps, kTaps, kTaps}, 0, 0, width, {0, 2, 1, 3, 4}};
  using Ints = std::vector<int64_t>;
  const Value y =
      n("conv2d", path + ".conv",
        {{"out_channels", width},
         {"kernel_size", Ints{kTaps, kTaps}},
         {"stride", Ints{1, 1}},
         {"padding", Ints{0, 0}},
         {"dilation", Ints{1, 1}},
         {"weight", n.reshape(n.weight(std::move(spec)), {width, kTaps * channels, kTaps, kTaps})},
         {"x", n.reshape(windows, {batch * clip.frames, high, wide, kTaps * channels})}},
        {"bias"});
  Clip out = clip;
  out.x = n.reshape(y, {batch, clip.pixels(), width});
  return out;
}

Value clip_norm(Net& n, const std::string& path, const Clip& clip) {
  const int64_t width = n.shape(clip.x)[2].value();
  WeightSpec spec;
  spec.name = path + ".gamma";
  spec.dtype = n.limits().weights();
  spec.shape = {width};
  spec.mean = 1;
  spec.stddev = 0.2;
  spec.view = PartView{{width}, 0, 0, width, {0}};
  return n("rms_norm", path,
           {{"eps", kClipEps}, {"weight", n.weight(std::move(spec))}, {"x", clip_rows(n, clip.x)}});
}
Clip normed_silu(Net& n, const std::string& path, const Clip& clip) {
  return with_rows(
      n, clip,
      n("activation", path + ".silu", {{"kind", "silu"}, {"x", clip_norm(n, path, clip)}}));
}

Clip clip_sum(Net& n, const std::string& path, const Clip& a, Value rows) {
  return with_rows(n, a, n("add", path, {{"a", clip_rows(n, a.x)}, {"b", rows}}));
}

Clip clip_resnet(Net& n, const std::string& path, const Clip& clip, int64_t width) {
  Clip y = causal_conv(n, path + ".conv1", normed_silu(n, path + ".norm1", clip), width);
  y = causal_conv(n, path + ".conv2", normed_silu(n, path + ".norm2", y), width);
  Value own = clip_rows(n, clip.x);
  if (n.shape(clip.x)[2].value() != width) own = pointwise(n, path + ".conv_shortcut", own, width);
  return clip_sum(n, path + ".sum", y, own);
}

// A pixel sees those of its frame and of earlier frames, by one head as wide as the channels.
Clip clip_attention(Net& n, const std::string& path, const Clip& clip) {
  const Expr batch = n.shape(clip.x)[0];
  const int64_t width = n.shape(clip.x)[2].value(), image = clip.image();
  const Value x = clip_norm(n, path + ".norm", clip);
  const auto part = [&](const char* name) {
    return n.reshape(pointwise(n, path + name, x, width), {batch, clip.pixels(), 1, width});
  };
  const Value q = part(".to_q"), k = part(".to_k"), v = part(".to_v");
  Value seen;
  for (int64_t i = 0; i < clip.frames; ++i) {
    const std::string at = fmt::format("{}.frame.{}", path, i);
    const Value own = n("biased_attention", at,
                        {{"num_heads", 1},
                         {"num_kv_heads", 1},
                         {"head_dim", width},
                         {"scale", 1 / std::sqrt(static_cast<double>(width))},
                         {"q", n.slice(q, 1, i * image, image)},
                         {"k", n.slice(k, 1, 0, (i + 1) * image)},
                         {"v", n.slice(v, 1, 0, (i + 1) * image)}});
    const Value rows = n.reshape(own, {batch, image, width});
    seen = i == 0 ? rows
                  : Value(n("prepend_rows", at + ".join",
                            {{"prefix_rows", i * image}, {"before", seen}, {"x", rows}}));
  }
  return clip_sum(n, path + ".sum", clip,
                  pointwise(n, path + ".proj_out", clip_rows(n, seen), width));
}

// The channels of x repeated, as a product with a matrix of zeros and ones: row r of the result
// takes column(r), or nothing.
template <class Column>
Value repeated(Net& n, const std::string& path, Value x, int64_t count, Column column) {
  const int64_t channels = n.shape(x)[1].value();
  const Value matrix = computed(n, path + ".matrix", n.limits().weights(), {count, channels}, [=] {
    std::vector<double> all(static_cast<size_t>(count * channels));
    for (int64_t r = 0; r < count; ++r)
      if (const int64_t c = column(r); c >= 0) all[static_cast<size_t>(r * channels + c)] = 1;
    return all;
  });
  return n("linear", path, {{"weight", matrix}, {"x", x}});
}

// Twice as many rows and columns, and, if `slowed`, twice as many frames behind the first one. The
// first frame takes half of the channels.
Clip doubled(Net& n, const std::string& path, const Clip& clip, int64_t width, bool slowed) {
  const Expr batch = n.shape(clip.x)[0];
  const int64_t channels = n.shape(clip.x)[2].value(), each = slowed ? 8 : 4, count = each * width;
  const Clip wide = causal_conv(n, path + ".conv", clip, count);
  const int64_t times = count / channels, image = clip.image();
  Value sum = clip_sum(n, path + ".sum", wide,
                       repeated(n, path + ".shortcut", clip_rows(n, clip.x), count,
                                [times](int64_t r) { return r / times; }))
                  .x;
  if (slowed) {
    const auto first = [&](const std::string& at, Value x) {
      return clip_rows(
          n, n("prepend_rows", path + at, {{"prefix_rows", 0}, {"x", n.slice(x, 1, 0, image)}}));
    };
    const Value same = repeated(
        n, path + ".first.shortcut", first(".first.x", clip.x), count,
        [width, channels, half = times / 2](int64_t r) {
          const int64_t part = r / width;
          return part % 2 != 0 ? int64_t{-1} : part / 2 * (channels / 4) + r % width / half;
        });
    const Value own =
        n.reshape(n("add", path + ".first.sum", {{"a", first(".first.y", wide.x)}, {"b", same}}),
                  {batch, image, count});
    sum = clip.frames == 1 ? own
                           : Value(n("prepend_rows", path + ".join",
                                     {{"prefix_rows", image},
                                      {"before", own},
                                      {"x", n.slice(sum, 1, image, clip.pixels() - image)}}));
  }
  Clip out{{}, slowed ? 2 * clip.frames - 1 : clip.frames, 2 * clip.rows, 2 * clip.columns};
  const Value order =
      computed(n, path + ".order", DType::i32, {out.pixels()}, [clip, out, each, slowed] {
        std::vector<double> from;
        for (int64_t i = 0; i < out.pixels(); ++i) {
          const int64_t t = i / out.image(), y = i / out.columns % out.rows, x = i % out.columns;
          const int64_t frame = slowed ? (t + 1) / 2 : t;
          const int64_t place = y % 2 * 2 + x % 2;
          // The first frame has the even parts; a later one has a half for each new frame.
          const int64_t part = !slowed ? place : t == 0 ? 2 * place : (t + 1) % 2 * 4 + place;
          const int64_t pixel = (frame * clip.rows + y / 2) * clip.columns + x / 2;
          from.push_back(static_cast<double>(pixel * each + part));
        }
        return from;
      });
  out.x = n("select_rows", path + ".pixels",
            {{"x", n.reshape(sum, {batch, clip.pixels() * each, width})}, {"rows", order}});
  return out;
}

int64_t read_levels(const Config& config, const char* key) {
  const int64_t ratio = read_count(config, key);
  if (!std::has_single_bit(static_cast<uint64_t>(ratio)) || ratio < 2)
    config.fail_at(key, "it must be a power of two above 1");
  return std::bit_width(static_cast<uint64_t>(ratio)) - 1;
}

}  // namespace

VideoDecoder read_video_decoder(const Config& config) {
  VideoDecoder c;
  need_text(config, "_class_name", "AutoencoderKLHunyuanVideo15");
  need_boolean(config, {"downsample_match_channel", "upsample_match_channel"}, true);
  config.ignore("in_channels");
  c.latents = read_count(config, "latent_channels");
  c.colours = read_count(config, "out_channels");
  c.layers = read_count(config, "layers_per_block");
  c.widths = config.integers("block_out_channels");
  std::ranges::reverse(c.widths);
  c.doubled = read_levels(config, "spatial_compression_ratio");
  c.slowed = read_levels(config, "temporal_compression_ratio");
  c.scaling = config.number("scaling_factor");
  if (!(c.scaling > 0)) config.fail_at("scaling_factor", "it must be above 0");
  if (c.slowed > c.doubled || static_cast<int64_t>(c.widths.size()) <= c.doubled)
    config.fail_at("block_out_channels", "it needs more widths than levels which double images");
  int64_t before = 0;
  for (size_t i = 0; i < c.widths.size(); ++i) {
    const int64_t width = bounded(config, "block_out_channels", c.widths[i], kSizeMax);
    // A pixel becomes four, and in the first levels its frame becomes two.
    const auto level = static_cast<int64_t>(i);
    if (level >= 1 && level <= c.doubled) {
      const int64_t parts = level <= c.slowed ? 8 : 4;
      const bool fits = (parts * width) % before == 0 && before % parts == 0;
      if (!fits || (parts == 8 && (parts * width / before) % 2 != 0))
        config.fail_at("block_out_channels",
                       "neighbours must divide each other, and be multiples of 8");
    }
    before = width;
  }
  if (c.widths[0] % c.latents != 0)
    config.fail_at("latent_channels", "it must divide the last of block_out_channels");
  return c;
}

Value decoded_video(Net& n, const std::string& path, const VideoDecoder& c, Value latents) {
  const Dims shape = n.shape(latents);
  const Expr batch = shape[0];
  Clip clip{{}, shape[1].value(), shape[2].value(), shape[3].value()};
  clip.x = n.reshape(lowered(n, path + ".latent", latents, 1 / c.scaling),
                     {batch, clip.pixels(), c.latents});
  const std::string at = path + ".decoder";
  const int64_t times = c.widths[0] / c.latents;
  const Value same = repeated(n, at + ".conv_in.shortcut", clip_rows(n, clip.x), c.widths[0],
                              [times](int64_t r) { return r / times; });
  clip = clip_sum(n, at + ".conv_in.sum", causal_conv(n, at + ".conv_in", clip, c.widths[0]), same);
  clip = clip_resnet(n, at + ".mid_block.resnets.0", clip, c.widths[0]);
  clip = clip_attention(n, at + ".mid_block.attentions.0", clip);
  clip = clip_resnet(n, at + ".mid_block.resnets.1", clip, c.widths[0]);
  for (size_t i = 0; i < c.widths.size(); ++i) {
    const std::string block = fmt::format("{}.up_blocks.{}", at, i);
    for (int64_t j = 0; j <= c.layers; ++j)
      clip = clip_resnet(n, fmt::format("{}.resnets.{}", block, j), clip, c.widths[i]);
    const auto level = static_cast<int64_t>(i);
    if (level < c.doubled)
      clip = doubled(n, block + ".upsamplers.0", clip, c.widths[i + 1], level < c.slowed);
    n.tap(fmt::format("{}.{}", path, i), {clip.x});
  }
  clip = causal_conv(n, at + ".conv_out", normed_silu(n, at + ".norm_out", clip), c.colours);
  return n.reshape(clip.x, {batch, clip.frames, clip.rows, clip.columns, c.colours});
}

std::vector<Model::Unread> unread_video_encoder(const std::string& path) {
  return {{path + ".encoder.", "the encoder of videos"}};
}

}  // namespace fk::parts
