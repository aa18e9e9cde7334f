// SPDX-License-Identifier: Apache-2.0
// conv2d by cuDNN: one graph per shape, with the bias added before the result is rounded. Images
// and filters are channels last, the order of cuDNN's kernels for tensor cores. The engine is the
// first proposal of cuDNN's heuristics which the error model admits, so it is the same in every
// process. The first call of a shape makes its graph, so this call must not be captured.
#include "fk/ops/conv2d.h"

#include <array>

#include "common.hpp"
#include "filters.hpp"
#include "frontend.hpp"

namespace {
using namespace fkd;
using op = fk::conv2d;

enum Place : int64_t { kX = 1, kWeight, kBias, kY };

// The key of a graph. Sizes are rows and columns.
struct Window {
  int64_t dtype, images, channels, outputs, groups, bias;
  std::array<int64_t, 2> in, out, kernel, stride, padding, dilation;
  int64_t workspace;  // at most
  auto operator<=>(const Window&) const = default;
};

Tensor_attributes image(Place place, int64_t n, int64_t channels, std::array<int64_t, 2> size) {
  const auto [high, wide] = size;
  return Tensor_attributes()
      .set_uid(place)
      .set_dim({n, channels, high, wide})
      .set_stride({high * wide * channels, 1, wide * channels, channels});
}

fe::DataType_t type_of(int64_t dtype) {
  return dtype == FK_F32   ? fe::DataType_t::FLOAT
         : dtype == FK_F16 ? fe::DataType_t::HALF
                           : fe::DataType_t::BFLOAT16;
}

// Engines are excluded if their order of additions varies between runs, if they sum in 16 bits, or
// if they transform images first. A transformation loses more bits than one rounding of the result.
std::vector<fe::NumericalNote_t> unwanted(int64_t dtype) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> notes{Note::NONDETERMINISTIC,
                          Note::DOWN_CONVERT_INPUTS,
                          Note::REDUCED_PRECISION_REDUCTION,
                          Note::FFT,
                          Note::WINOGRAD,
                          Note::WINOGRAD_TILE_4x4,
                          Note::WINOGRAD_TILE_6x6,
                          Note::WINOGRAD_TILE_13x13};
  // Tensor cores multiply float32 as TF32, with eleven bits.
  if (dtype == FK_F32) notes.push_back(Note::TENSOR_CORE);
  return notes;
}

std::unique_ptr<Made> make(const Window& w) {
  auto made = std::make_unique<Made>();
  fe::graph::Graph& g = made->graph;
  g.set_io_data_type(type_of(w.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto list = [](const std::array<int64_t, 2>& of) {
    return std::vector<int64_t>(of.begin(), of.end());
  };
  const Tensor x = g.tensor(image(kX, w.images, w.channels, w.in));
  const Tensor weight = g.tensor(image(kWeight, w.outputs, w.channels / w.groups, w.kernel));
  Tensor y = g.conv_fprop(x, weight,
                          fe::graph::Conv_fprop_attributes()
                              .set_padding(list(w.padding))
                              .set_stride(list(w.stride))
                              .set_dilation(list(w.dilation)));
  const Tensor_attributes as = image(kY, w.images, w.outputs, w.out);
  if (w.bias) {
    y->set_dim(as.get_dim()).set_stride(as.get_stride());
    y = g.pointwise(y, g.tensor(image(kBias, 1, w.outputs, {1, 1})),
                    fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }
  y->set_output(true).set_uid(kY).set_dim(as.get_dim()).set_stride(as.get_stride());
  describe(*made);
  check(g.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}),
        "create_execution_plans");
  g.deselect_numeric_notes(unwanted(w.dtype)).deselect_workspace_greater_than(w.workspace);
  build(*made, w.workspace);
  return made;
}

int64_t bytes_of(const fk_in* view) { return fk_numel(view) * view->dtype.bits / 8; }

class Conv2d {
 public:
  using op = ::op;
  // For another batch, another engine may run.
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& wanted) {
    const int x = FK_DTYPE(max.x);
    need(x == FK_F32 || x == FK_F16 || x == FK_BF16, "float32, float16 and bfloat16 only");
    need(FK_DTYPE(weights.weight) == x, "weight: the dtype of x only");
    const fk_in* bias = weights.bias.or_null;
    need(!bias || FK_DTYPE(bias) == x, "bias: the dtype of x only");
    need(init.in_channels % init.groups == 0 && init.out_channels % init.groups == 0,
         "groups: does not divide the channels");
    // For 16 bits cuDNN then runs the groups at the same time, on streams of its own.
    need(x == FK_F32 || init.groups == 1 || init.in_channels > init.groups ||
             init.out_channels == init.groups,
         "groups of one channel with several outputs: float32 only");
    for (const fk_in* view : {max.x, weights.weight, fk_as_in(max.out)})
      need(fk_numel(view) < int64_t{1} << 31, "fewer than 2^31 elements only");
    wanted.scratch = workspace(weights, max);
    if (is_turned(init)) wanted.packed = bytes_of(weights.weight);
  }
  Conv2d(const fk_host&, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights) {}
  void prepare(const op::forward& max, const fk_memory& memory) {
    weight_ = weights_.weight->data;
    if (is_turned(init_)) {
      const fk_in& w = *weights_.weight;
      if (!memory.packed_ready)
        channels_last({w.data, memory.packed, w.shape[0], w.shape[1], w.shape[2] * w.shape[3],
                       w.dtype.bits / 8},
                      static_cast<cudaStream_t>(memory.stream));
      weight_ = memory.packed;
    }
    workspace_ = workspace(weights_, max);
    const std::lock_guard lock(mutex());
    if (fk_numel(fk_as_in(max.out))) made_for(window(max), make);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!fk_numel(fk_as_in(a.out))) return;
    const auto at = [](const void* pointer) { return const_cast<void*>(pointer); };
    std::unordered_map<int64_t, void*> pointers{
        {kX, at(a.x->data)}, {kWeight, at(weight_)}, {kY, a.out->data}};
    if (const fk_in* bias = weights_.bias.or_null) pointers.emplace(kBias, at(bias->data));
    const std::lock_guard lock(mutex());
    execute(made_for(window(a), make), pointers, ctx.scratch, ctx.scratch_bytes,
            static_cast<cudaStream_t>(ctx.stream));
  }

 private:
  // Filters with one channel or one tap are channels last already.
  static bool is_turned(const op::init& init) {
    return init.in_channels > init.groups && init.kernel_size->at[0] * init.kernel_size->at[1] > 1;
  }
  // Engines without a kernel for this order copy all three tensors to another order.
  static int64_t workspace(const op::weights& weights, const op::forward& max) {
    return kWorkspace + bytes_of(max.x) + bytes_of(weights.weight) + bytes_of(fk_as_in(max.out));
  }
  Window window(const op::forward& a) const {
    const auto two = [](const int64_t* at) { return std::array{at[0], at[1]}; };
    return {FK_DTYPE(a.x),
            a.x->shape[0],
            init_.in_channels,
            init_.out_channels,
            init_.groups,
            weights_.bias.or_null != nullptr,
            two(a.x->shape + 1),
            two(a.out->shape + 1),
            two(init_.kernel_size->at),
            two(init_.stride->at),
            two(init_.padding->at),
            two(init_.dilation->at),
            workspace_};
  }
  const op::init& init_;
  const op::weights& weights_;
  const void* weight_ = nullptr;
  int64_t workspace_ = 0;
};
FK_OP(conv2d, Conv2d);

}  // namespace
