// SPDX-License-Identifier: Apache-2.0
// conv2d. Depthwise convolutions use depthwise.hpp. All others are a product (product.hpp) of the
// weight with patches, the inputs of one output pixel each. Patches are copied to scratch a few
// megabytes at a time; the weight is repacked to the order of a patch.
#ifdef FK_CPU_OPS
#include <utility>

#include "depthwise.hpp"
#include "fk/ops/conv2d.h"
#include "product.hpp"

namespace fk::cpu {

namespace {

constexpr int64_t kPatchBytes = 4 << 20;   // most bytes of patches at a time
constexpr int64_t kPatchRows = 64;         // least rows (patches) of a product
constexpr int64_t kBandBytes = 256 << 10;  // most bytes of a band of depthwise.hpp
constexpr int64_t kBandRows = 8;           // a band of this many output rows is not split further

// The op's init: arrays of two are rows, columns.
struct Window {
  int64_t kernel[2], stride[2], padding[2], dilation[2], groups, in_channels, out_channels;

  explicit Window(const fk_conv2d_init& i)
      : groups(i.groups), in_channels(i.in_channels), out_channels(i.out_channels) {
    for (int d = 0; d < 2; ++d) {
      kernel[d] = i.kernel_size->at[d];
      stride[d] = i.stride->at[d];
      padding[d] = i.padding->at[d];
      dilation[d] = i.dilation->at[d];
    }
  }
  bool depthwise() const { return groups == in_channels && groups == out_channels; }
  // True if a pixel of the input is a row of the product as it is: a 1x1 kernel without stride or
  // padding.
  bool pointwise() const {
    return groups == 1 && kernel[0] * kernel[1] * stride[0] * stride[1] == 1 &&
           padding[0] + padding[1] == 0;
  }
  int64_t taps() const { return kernel[0] * kernel[1]; }
  int64_t length() const { return in_channels / groups * taps(); }
  // Input pixels from the first to the last tap along an axis.
  int64_t reach(int d) const { return dilation[d] * (kernel[d] - 1) + 1; }
  // Patches of one product, of `rows` in all; `element` is the bytes of an element.
  int64_t patch_rows(int64_t rows, int64_t element) const {
    return std::min(rows, std::max(kPatchRows, kPatchBytes / (length() * element)));
  }
};

// The bands of a depthwise call (depthwise.hpp).
struct Bands {
  int64_t columns, width, rows;  // as in Depthwise; rows: output rows of a band
  Bands(const Window& w, int64_t out_rows, int64_t out_columns) {
    const auto whole = [&](int64_t n) { return (out_columns + n - 1) / n * n; };
    columns = whole(7) < whole(8) ? 7 : 8;
    width = (whole(columns) - 1) * w.stride[1] + w.reach(1);
    const int64_t fit = kBandBytes / (width * kDepthwiseBlock * 4) - w.reach(0);
    rows = std::clamp<int64_t>(fit / w.stride[0] + 1, 1, std::max<int64_t>(1, out_rows));
  }
  int64_t floats(const Window& w) const {
    return ((rows - 1) * w.stride[0] + w.reach(0)) * width * kDepthwiseBlock;
  }
};

ProductTypes types_of(const fk_in* weight, fk_opt_in bias, const fk_in* x) {
  return {type_of(x), type_of(weight), type_of(x), bias.or_null ? type_of(bias.or_null) : -1};
}

}  // namespace

struct Conv2dOp {
  using op = fk::conv2d;
  // Not batch invariant, as linear: few and many rows are summed in different orders.
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CPU,
                                    FK_GRAPH_ALWAYS,       /*deterministic=*/1,
                                    /*batch_invariant=*/0, FK_ACCUMULATE_F32,
                                    /*side_streams=*/0,    /*sm_count=*/0,
                                    /*sm=*/nullptr};

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_float(weights.weight, "weight: f32, bf16 or f16");
    if (weights.bias.or_null) need_float(weights.bias.or_null, "bias: f32, bf16 or f16");
    const Window w(init);
    if (w.in_channels % w.groups || w.out_channels % w.groups)
      throw unsupported{"groups: does not divide the channels"};
    if (w.depthwise()) {
      need.packed = w.taps() * padded(w.in_channels) * 4;
      const Bands bands(w, max.out->shape[1], max.out->shape[2]);
      need.scratch = threads_max() * padded(bands.floats(w)) * 4;
      return;
    }
    const int64_t element = bytes_of(type_of(max.x));
    const ProductTypes types = types_of(weights.weight, weights.bias, max.x);
    if (!w.pointwise()) need.packed = w.out_channels * w.length() * bytes_of(types.weight);
    const int64_t rows = cpu::rows(max.out);
    const int64_t chunk = w.pointwise() ? rows : w.patch_rows(rows, element);
    need.scratch = parts(w, chunk, types)[3];
  }

  Conv2dOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : window_(init), weights_(weights), threads_(threads_of(host)) {}

  void prepare(const op::forward& max, const fk_memory& memory) {
    packed_ = memory.packed ? memory.packed : weights_.weight->data;
    if (memory.packed && !memory.packed_ready) pack(memory.packed);
    if (window_.depthwise()) return;
    types_ = types_of(weights_.weight, weights_.bias, max.x);
    product_ = std::make_unique<Product>(window_.out_channels / window_.groups, window_.length(),
                                         types_, threads_);
    const int64_t rows = cpu::rows(max.out), chunk = chunk_of(rows);
    if (rows == 0) return;
    product_->prepare(chunk, window_.length());
    if (rows % chunk) product_->prepare(rows % chunk, window_.length());
  }

  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (window_.depthwise()) return run_depthwise(args, static_cast<float*>(ctx.scratch));
    const int64_t rows = cpu::rows(args.out), chunk = chunk_of(rows);
    for (int64_t first = 0; first < rows; first += chunk)
      run_patches(args, first, std::min(chunk, rows - first), static_cast<char*>(ctx.scratch));
  }

 private:
  struct Parts {
    int64_t at[4];
    int64_t operator[](int i) const { return at[i]; }
  };
  // Offsets in scratch, in bytes: patches (0), the product's own scratch, a group's results, the
  // end.
  static Parts parts(const Window& w, int64_t chunk, ProductTypes types) {
    const auto whole = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
    const int64_t element = bytes_of(types.x);
    Parts p{};
    p.at[1] = w.pointwise() ? 0 : whole(chunk * w.length() * element);
    p.at[2] = p.at[1] + whole(Product::scratch_bytes(chunk, w.length(), types));
    p.at[3] = p.at[2] + (w.groups == 1 ? 0 : whole(chunk * w.out_channels / w.groups * element));
    return p;
  }
  int64_t chunk_of(int64_t rows) const {
    return window_.pointwise() ? rows : window_.patch_rows(rows, bytes_of(types_.x));
  }

  // Repacks the weight [O, C/groups, taps] to [O, taps, C/groups], or for depthwise to [taps,
  // padded C] in float32.
  void pack(void* into) const {
    const int64_t taps = window_.taps(), depth = window_.in_channels / window_.groups;
    if (window_.depthwise()) {
      const int64_t stride = padded(window_.in_channels);
      auto* out = static_cast<float*>(into);
      std::fill_n(out, taps * stride, 0.f);
      for (int64_t c = 0; c < window_.in_channels; ++c)
        for (int64_t t = 0; t < taps; ++t) out[t * stride + c] = weight_at(c * taps + t);
      return;
    }
    const auto width = static_cast<size_t>(bytes_of(type_of(weights_.weight)));
    const auto* from = static_cast<const char*>(weights_.weight->data);
    auto* out = static_cast<char*>(into);
    for (int64_t o = 0; o < window_.out_channels; ++o)
      for (int64_t t = 0; t < taps; ++t)
        for (int64_t c = 0; c < depth; ++c, out += width)
          std::memcpy(out, from + static_cast<size_t>((o * depth + c) * taps + t) * width, width);
  }
  float weight_at(int64_t i) const {
    float value = 0;
    const void* weight = weights_.weight->data;
    convert_({static_cast<const char*>(weight) + i * bytes_of(type_of(weights_.weight)), &value,
              /*bias=*/nullptr, type_of(weights_.weight), kF32, /*bias_type=*/0},
             1);
    return value;
  }

  void run_depthwise(const op::forward& args, float* scratch) {
    const int64_t images = args.out->shape[0], out_rows = args.out->shape[1];
    Bands bands(window_, out_rows, args.out->shape[2]);
    const int64_t blocks = (window_.in_channels + kDepthwiseBlock - 1) / kDepthwiseBlock;
    // 2 bands per thread at least, if they can be split so far.
    const int64_t room = padded(bands.floats(window_));
    const auto count = [&] { return (out_rows + bands.rows - 1) / bands.rows; };
    while (images * blocks * count() < 2 * threads_ && bands.rows > kBandRows)
      bands.rows = (bands.rows + 1) / 2;
    Depthwise a{args.x->data,
                data<void>(weights_.bias),
                args.out->data,
                static_cast<const float*>(packed_),
                window_.in_channels,
                padded(window_.in_channels),
                {args.x->shape[1], args.x->shape[2]},
                {out_rows, args.out->shape[2]},
                /*kernel=*/{},
                /*stride=*/{},
                /*padding=*/{},
                /*dilation=*/{},
                bands.columns,
                bands.width,
                type_of(args.x),
                type_or_f32(weights_.bias)};
    for (int d = 0; d < 2; ++d) {
      a.kernel[d] = window_.kernel[d];
      a.stride[d] = window_.stride[d];
      a.padding[d] = window_.padding[d];
      a.dilation[d] = window_.dilation[d];
    }
    const int64_t per_image = blocks * count();
    share(threads_, images * per_image, args.x->nbytes * window_.taps(),
          [&](int64_t item, int thread) {
            const int64_t first = item % count() * bands.rows;
            depthwise_(a, item / per_image, first, std::min(out_rows, first + bands.rows),
                       item % per_image / count() * kDepthwiseBlock, scratch + thread * room);
          });
  }

  // Computes rows [first, first + count) of the output, group by group.
  void run_patches(const op::forward& args, int64_t first, int64_t count, char* scratch) {
    const Parts at = parts(window_, chunk_of(cpu::rows(args.out)), types_);
    const int64_t element = bytes_of(types_.x), width = window_.out_channels / window_.groups;
    const int64_t weight_bytes = width * window_.length() * bytes_of(types_.weight);
    for (int64_t g = 0; g < window_.groups; ++g) {
      const char* x = static_cast<const char*>(args.x->data);
      if (!window_.pointwise()) {
        split(threads_, count, count * window_.length() * element,
              [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin; i < end; ++i)
                  gather(args, first + i, g, scratch + i * window_.length() * element);
              });
        x = scratch;
      }
      char* out =
          static_cast<char*>(args.out->data) + (first * window_.out_channels + g * width) * element;
      const void* bias = nullptr;
      if (types_.bias >= 0) bias = data<char>(weights_.bias) + g * width * bytes_of(types_.bias);
      char* results = window_.groups == 1 ? out : scratch + at[2];
      product_->run(count, x, window_.length(),
                    static_cast<const char*>(packed_) + g * weight_bytes, bias, results,
                    scratch + at[1]);
      if (window_.groups == 1) continue;
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(out + i * window_.out_channels * element, results + i * width * element,
                    static_cast<size_t>(width * element));
    }
  }

  // Copies the patch of output pixel `row` in group g: [KH, KW, C/groups].
  void gather(const op::forward& args, int64_t row, int64_t g, char* patch) const {
    const int64_t height = args.x->shape[1], width = args.x->shape[2];
    const int64_t out_rows = args.out->shape[1], out_columns = args.out->shape[2];
    const int64_t y = row / out_columns % out_rows * window_.stride[0] - window_.padding[0];
    const int64_t x = row % out_columns * window_.stride[1] - window_.padding[1];
    const int64_t image = row / out_columns / out_rows;
    const int64_t pixel = window_.in_channels * bytes_of(types_.x), piece = pixel / window_.groups;
    const char* from = static_cast<const char*>(args.x->data) + g * piece;
    const bool inside = x >= 0 && x + window_.reach(1) <= width;
    // If a window's row is inside the image and contiguous, it is one copy.
    const bool joined = inside && window_.groups == 1 && window_.dilation[1] == 1;
    for (int64_t ky = 0; ky < window_.kernel[0]; ++ky) {
      const int64_t iy = y + ky * window_.dilation[0];
      const bool there = iy >= 0 && iy < height;
      const char* line = from + (image * height + iy) * width * pixel;
      if (there && joined) {
        std::memcpy(patch, line + x * pixel, static_cast<size_t>(window_.kernel[1] * pixel));
        patch += window_.kernel[1] * pixel;
        continue;
      }
      for (int64_t kx = 0; kx < window_.kernel[1]; ++kx, patch += piece) {
        const int64_t ix = x + kx * window_.dilation[1];
        if (there && ix >= 0 && ix < width)
          std::memcpy(patch, line + ix * pixel, static_cast<size_t>(piece));
        else
          std::memset(patch, 0, static_cast<size_t>(piece));
      }
    }
  }

  const Window window_;
  const op::weights& weights_;
  const int threads_;
  const void* packed_ = nullptr;
  ProductTypes types_{};
  std::unique_ptr<Product> product_;
  decltype(&generic::depthwise) depthwise_ = FK_CPU_PICK(depthwise);
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(conv2d, Conv2dOp);

}  // namespace fk::cpu
#endif
