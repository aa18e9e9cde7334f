// SPDX-License-Identifier: Apache-2.0
// Launches of this provider's kernels on a queue, and the base class of its ops.
#pragma once
#include <algorithm>

#include "adapters/opencl/launcher.hpp"
#include "fk/cpp/plugin.hpp"

namespace fko {

extern const char* const kKernels;  // the text of kernels.cl

inline constexpr fk_claims kClaims{FK_END(fk_claims, sm), FK_OPENCL,         FK_GRAPH_NEVER,
                                   /*deterministic=*/1,
                                   /*batch_invariant=*/1, FK_ACCUMULATE_F64,
                                   /*side_streams=*/0,
                                   /*sm_count=*/0,
                                   /*sm=*/nullptr};

// One launch: arguments in the order of the kernel, then run(). Error (std::runtime_error) with the
// call and its status.
//
//   Launch(ctx, "silu_and_mul").view(a.out).view(a.x).value(width).run(items);
class Launch {
 public:
  Launch(const fk_ctx& ctx, const char* kernel) : launch_(ctx, kKernels, "-cl-std=CL1.2", kernel) {}
  // The address of the first element, and a Ref of kernels.cl. An absent view is a null pointer.
  Launch& view(const fk_in* view) {
    struct {
      cl_long stride[6];
      cl_long dtype;
    } ref{};
    for (int i = 0; view && i < std::min(view->ndim, 6); ++i) ref.stride[i] = view->strides[i];
    if (view) ref.dtype = FK_DTYPE(view);
    launch_.pointer(view ? view->data : nullptr).bytes(&ref, sizeof ref);
    return *this;
  }
  Launch& view(const fk_out* view) { return this->view(view ? fk_as_in(view) : nullptr); }
  Launch& view(fk_opt_in view) { return this->view(view.or_null); }
  Launch& view(fk_opt_out view) { return this->view(view.or_null); }
  Launch& pointer(const void* memory) {
    launch_.pointer(memory);
    return *this;
  }
  template <class T>
  Launch& value(T v) {
    launch_.value(v);
    return *this;
  }
  // Enqueues `items` work items. Their number becomes the last argument.
  void run(int64_t items) { launch_.value(items).run(items); }

 private:
  fk_opencl::Launch launch_;
};

template <class Op>
struct Plain {
  using op = Op;
  static constexpr fk_claims claims = kClaims;
  const typename Op::init& init;
  const typename Op::weights& weights;
  static void supports(const typename Op::init&, const typename Op::weights&,
                       const typename Op::forward&, fk_need&) {}
  Plain(const fk_host&, const typename Op::init& i, const typename Op::weights& w)
      : init(i), weights(w) {}
  void prepare(const typename Op::forward&, const fk_memory&) {}
};

}  // namespace fko
