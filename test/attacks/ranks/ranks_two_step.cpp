// SPDX-License-Identifier: Apache-2.0
// honest: several ranks: reduce_scatter, then all_gather, padded to whole parts
#include "../ranks.hpp"

namespace {

struct TwoStep : attack::AllReduce {
  using AllReduce::AllReduce;
  struct View {
    fk_out view{};
    int64_t shape = 0, stride = 1;
    View(std::vector<float>& data) : shape(static_cast<int64_t>(data.size())) {
      view.data = data.data();
      view.device_type = FK_CPU;
      view.ndim = 1;
      view.dtype = {2, 32, 1};
      view.shape = &shape;
      view.strides = &stride;
      view.nbytes = shape * 4;
    }
    View(const View&) = delete;
    const fk_in* in() const { return fk_as_in(&view); }
  };
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const auto size = static_cast<size_t>(comm->size);
    std::vector<float> all = own(args);
    all.resize((all.size() + size - 1) / size * size);
    std::vector<float> part(all.size() / size);
    View whole(all), mine(part);
    need(comm->reduce_scatter(comm, whole.in(), &mine.view, init.reduction, ctx.stream));
    need(comm->all_gather(comm, mine.in(), &whole.view, ctx.stream));
    fk::store(args.out, 0, count(args), all.data());
  }
};
FK_OP(all_reduce, TwoStep);

}  // namespace
FK_PLUGIN("ranks_two_step", "0");
