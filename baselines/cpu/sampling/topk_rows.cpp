// SPDX-License-Identifier: Apache-2.0
// topk_rows. A vector pass makes a row float and finds its largest element. Then candidates are
// 64-bit keys with the contract's order, in a list of twice top_k that is halved when it is full.
// Most elements are below the least candidate, which costs one comparison.
#include "simd.hpp"

namespace fk::cpu {
struct TopkRow {
  const void* x;
  int64_t size;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(topk_floats, const TopkRow&, float* row, float* most)

namespace fk::cpu::FK_CPU_LEVEL {

// row[i] = x[i]; `most` is the largest.
void topk_floats(const TopkRow& a, float* row, float* most) {
  with_type(a.type, [&]<class T>() {
    const T* x = static_cast<const T*>(a.x);
    Vf best = splat(-__builtin_inff());
    each_vector(a.size, [&](int64_t i, auto n) {
      Vf v = load(x + i, n);
      store(row + i, v, n);
      for (int64_t lane = lanes(n); lane < kLanes; ++lane) v[lane] = -__builtin_inff();
      best = max(best, v);
    });
    *most = max(best);
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include <bit>
#include <cstring>
#include <functional>
#include <limits>

#include "fk/ops/topk_rows.h"
#include "op.hpp"

namespace fk::cpu {

struct TopkRowsOp {
  using op = fk::topk_rows;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.values, "values: of x's type");
    if (init.top_k > init.size) throw unsupported{"top_k: at most the size of a row"};
    if (max.x->shape[0] > std::numeric_limits<int32_t>::max() / init.size)
      throw unsupported{"x: an element's place exceeds 31 bits"};
    need.scratch = threads_max() * floats_of(init) * 4;
  }
  TopkRowsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int type = type_of(args.x);
    const int64_t count = init_.top_k, bytes = bytes_of(type);
    // Arithmetic dominates: four times the bytes.
    split(threads_, args.x->shape[0], args.x->nbytes * 4,
          [&](int64_t begin, int64_t end, int thread) {
            float* row = static_cast<float*>(ctx.scratch) + thread * floats_of(init_);
            auto* keys = reinterpret_cast<uint64_t*>(row + padded(init_.size));
            for (int64_t t = begin; t < end; ++t) {
              const char* x = data<char>(args.x) + t * init_.size * bytes;
              float most = 0;
              kernel_({x, init_.size, type}, row, &most);
              choose(row, most, keys);
              char* values = static_cast<char*>(args.values->data) + t * count * bytes;
              int32_t* ids = data<int32_t>(args.ids) + t * count;
              int32_t* rows = data<int32_t>(args.rows) + t * count;
              for (int64_t k = 0; k < count; ++k) {
                ids[k] = static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(keys[k]));
                rows[k] = static_cast<int32_t>(t * init_.size + ids[k]);
                std::memcpy(values + k * bytes, x + ids[k] * bytes, static_cast<size_t>(bytes));
              }
            }
          });
  }

 private:
  static int64_t room_of(const op::init& init) { return 2 * init.top_k + 64; }
  static int64_t floats_of(const op::init& init) {
    return padded(init.size) + padded(2 * room_of(init));
  }
  // Larger values have larger keys, and of equal values the lowest index has the largest key.
  static uint64_t key_of(float value, int64_t index) {
    const auto bits = std::bit_cast<uint32_t>(value + 0.f);  // -0 becomes 0
    const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return uint64_t{ordered} << 32 | (0xffffffffu - static_cast<uint32_t>(index));
  }

  // keys[0, top_k) become the row's largest, in descending order.
  void choose(const float* row, float most, uint64_t* keys) const {
    const int64_t wanted = init_.top_k, room = room_of(init_);
    if (wanted == 1) {
      int64_t at = 0;
      while (at + 1 < init_.size && !(row[at] == most)) ++at;
      keys[0] = key_of(row[at], at);
      return;
    }
    int64_t count = 0;
    float floor = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < init_.size; ++i) {
      if (row[i] < floor) continue;
      keys[count++] = key_of(row[i], i);
      if (count < room) continue;
      std::nth_element(keys, keys + wanted - 1, keys + count, std::greater<>());
      count = wanted;
      floor = row[0xffffffffu - static_cast<uint32_t>(keys[wanted - 1])];
    }
    std::partial_sort(keys, keys + wanted, keys + count, std::greater<>());
  }

  const op::init& init_;
  const int threads_;
  decltype(&generic::topk_floats) kernel_ = FK_CPU_PICK(topk_floats);
};
FK_OP(topk_rows, TopkRowsOp);

}  // namespace fk::cpu
#endif
