// SPDX-License-Identifier: Apache-2.0
// The frame of kernels which compute each item alone: copies and elementwise ops. A thread has an
// item, most often sixteen bytes of the result.
#pragma once
#include "dependent_launch.cuh"
#include "launch.cuh"

namespace fkc {

template <class F>
__global__ void __launch_bounds__(kItemThreads) each_item(F f, int64_t items) {
  wait_for_inputs();
  const int64_t i = item_of_thread();
  if (i < items) f(i);
}
// f(i) for i below `items`; f is a struct of arguments.
template <class F>
void for_each_item(int64_t items, const fk_ctx& ctx, const F& f) {
  if (items) launch(each_item<F>, blocks_of(items), kItemThreads, 0, ctx, f, items);
}

}  // namespace fkc
