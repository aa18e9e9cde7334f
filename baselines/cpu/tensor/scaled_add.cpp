// SPDX-License-Identifier: Apache-2.0
// scaled_add: x + scale * y, or scale * y without x, where y may be multiplied by a row of gates
// first; memory bounds its time.
#include "simd.hpp"

namespace fk::cpu {
struct ScaledAdd {
  const void *x, *y;  // x: null if absent
  void* out;
  float scale;
  int type;
  // With gates: row t of `channels` has the row t / gate_rows % gates of them; gate_rows 0: row 0.
  const void* gate;
  int64_t channels, gate_rows, gates;
  int gate_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(scaled_add_range, const ScaledAdd&, int64_t begin, int64_t end)
FK_CPU_KERNEL(gated_add_rows, const ScaledAdd&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

void scaled_add_range(const ScaledAdd& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    const T* y = static_cast<const T*>(a.y) + begin;
    T* out = static_cast<T*>(a.out) + begin;
    if (!a.x)
      return each_vector(end - begin,
                         [&](int64_t i, auto n) { store(out + i, load(y + i, n) * a.scale, n); });
    const T* x = static_cast<const T*>(a.x) + begin;
    each_vector(end - begin, [&](int64_t i, auto n) {
      store(out + i, load(x + i, n) + load(y + i, n) * a.scale, n);
    });
  });
}

void gated_add_rows(const ScaledAdd& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.gate_type, [&]<class G>() {
      for (int64_t t = begin; t < end; ++t) {
        const T* y = static_cast<const T*>(a.y) + t * a.channels;
        const T* x = a.x ? static_cast<const T*>(a.x) + t * a.channels : nullptr;
        const int64_t row = a.gate_rows ? t / a.gate_rows % a.gates : 0;
        const G* gate = static_cast<const G*>(a.gate) + row * a.channels;
        T* out = static_cast<T*>(a.out) + t * a.channels;
        each_vector(a.channels, [&](int64_t i, auto n) {
          const Vf v = load(y + i, n) * (load(gate + i, n) * a.scale);
          store(out + i, x ? load(x + i, n) + v : v, n);
        });
      }
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#define FK_SCALED_ADD_EDITION 2
#include "fk/ops/scaled_add.h"
#include "op.hpp"

namespace fk::cpu {

struct ScaledAddOp {
  using op = fk::scaled_add;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.y, "y: f32, bf16 or f16");
    if (max.x.or_null) need_same(max.y, max.x.or_null, "x: of y's type");
    need_same(max.y, max.out, "out: of y's type");
    if (max.gate.or_null) need_float(max.gate.or_null, "gate: f32, bf16 or f16");
  }
  ScaledAddOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    ScaledAdd a{};
    a.x = data<void>(args.x);
    a.y = args.y->data;
    a.out = args.out->data;
    a.scale = static_cast<float>(init_.scale);
    a.type = type_of(args.y);
    if (const fk_in* gate = args.gate.or_null) {
      const int64_t count = rows(args.y);
      a.gate = gate->data;
      a.gate_type = type_of(gate);
      a.channels = init_.size;
      a.gate_rows = init_.gate_rows;
      a.gates = gate->shape[0];
      return split(threads_, count, args.y->nbytes * 3,
                   [&](int64_t begin, int64_t end, int) { gated_(a, begin, end); });
    }
    split_tiles(threads_, 1, fk_numel(args.y), args.y->nbytes * 3,
                [&](int64_t, int64_t begin, int64_t end) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::gated_add_rows) gated_ = FK_CPU_PICK(gated_add_rows);
  decltype(&generic::scaled_add_range) kernel_ = FK_CPU_PICK(scaled_add_range);
};
FK_OP(scaled_add, ScaledAddOp);

}  // namespace fk::cpu
#endif
