// SPDX-License-Identifier: Apache-2.0
// All kernels of the provider: plain, with sums in double. A kernel has one work item for each
// element or row, and a last argument with their number, because launches are whole groups.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

// Strides in elements, and the dtype as FK_DTYPE() packs it.
typedef struct {
  long stride[6];
  long dtype;
} Ref;
#define VIEW(name) __global char *name, Ref name##_is
#define LOAD(name, at) load(name, name##_is.dtype, at)
#define STORE(name, at, v) store(name, name##_is.dtype, at, v)
#define F32 0x2002
#define F16 0x1002
#define BF16 0x1004

double load(__global const char *data, long dtype, long at) {
  switch (dtype) {
    case F32: return ((__global const float *)data)[at];
    case F16: return vload_half(at, (__global const half *)data);
    case BF16: return as_float((uint)((__global const ushort *)data)[at] << 16);
    default: return ((__global const double *)data)[at];
  }
}
// Rounds once, from double to the type itself.
void store(__global char *data, long dtype, long at, double v) {
  if (dtype == F32) {
    ((__global float *)data)[at] = (float)v;
  } else if (dtype == F16) {
    vstore_half_rte(v, at, (__global half *)data);
  } else if (dtype == BF16) {
    const float near = convert_float_rtz(v);
    uint bits = as_uint(near);
    if (isnan(v)) {
      bits |= 0x400000;
    } else {
      if ((double)near != v) bits |= 1;  // to the odd neighbour: the next rounding is the only one
      bits += 0x7fff + (bits >> 16 & 1);
    }
    ((__global ushort *)data)[at] = (ushort)(bits >> 16);
  } else {
    ((__global double *)data)[at] = v;
  }
}
#define LOAD_OR(name, at, otherwise) (name ? LOAD(name, at) : (otherwise))
#define ITEM                      \
  const long i = get_global_id(0); \
  if (i >= count) return

// Larger values first, then lower indices: a key has this order (the total order of a selection).
ulong key_of(double value, long index) {
  const uint bits = as_uint(value == 0 ? 0.0f : (float)value);
  const uint ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (ulong)ordered << 32 | (0xffffffffu - (uint)index);
}
long index_of(ulong key) { return 0xffffffffu - (uint)key; }
// The largest key of a row below `before`.
ulong next_key(__global const char *x, long dtype, long base, long width, ulong before) {
  ulong best = 0;
  for (long c = 0; c < width; ++c) {
    const ulong key = key_of(load(x, dtype, base + c), c);
    if (key < before && key > best) best = key;
  }
  return best;
}

__kernel void copy_rows(VIEW(out), VIEW(x), __global const long *long_rows, __global const int *rows, long width,
                        long count) {
  ITEM;
  const long row = rows ? rows[i / width] : long_rows[i / width];
  STORE(out, i, LOAD(x, row * width + i % width));
}

__kernel void rms_norm(VIEW(out), VIEW(x), VIEW(residual), VIEW(weight), long width, double eps, long count) {
  ITEM;
  const long row = i * width;
  double squares = 0;
  for (long c = 0; c < width; ++c) {
    double v = LOAD(x, row + c);
    if (residual) {
      STORE(residual, row + c, v + LOAD(residual, row + c));
      v = LOAD(residual, row + c);  // the norm sees the rounded sum, as the next layer does
    }
    squares += v * v;
  }
  const double scale = 1 / sqrt(squares / (double)width + eps);
  for (long c = 0; c < width; ++c) {
    const double v = residual ? LOAD(residual, row + c) : LOAD(x, row + c);
    STORE(out, row + c, v * scale * LOAD_OR(weight, c, 1.0));
  }
}

__kernel void silu_and_mul(VIEW(out), VIEW(x), long width, long count) {
  ITEM;
  const long row = i / width * 2 * width, c = i % width;
  const double gate = LOAD(x, row + c), up = LOAD(x, row + width + c);
  STORE(out, i, gate / (1 + exp(-gate)) * up);
}

__kernel void linear(VIEW(out), VIEW(x), VIEW(weight), VIEW(bias), long in, long features, long count) {
  ITEM;
  const long row = i / features, n = i % features;
  double sum = LOAD_OR(bias, n, 0.0);
  for (long k = 0; k < in; ++k) sum += LOAD(x, row * x_is.stride[0] + k) * LOAD(weight, n * in + k);
  STORE(out, i, sum);
}

// One work item for each sorted assignment and feature.
__kernel void moe_grouped_gemm(VIEW(out), VIEW(x), VIEW(weight), VIEW(bias), __global const int *row_ids,
                               __global const int *offsets, long in, long features, long experts, long top_k,
                               long count) {
  ITEM;
  const long j = i / features, n = i % features;
  long expert = 0;
  while (expert + 1 < experts && offsets[expert + 1] <= j) ++expert;
  const long assignment = row_ids[j], row = assignment / top_k;
  double sum = LOAD_OR(bias, expert * features + n, 0.0);
  for (long k = 0; k < in; ++k) sum += LOAD(x, row * in + k) * LOAD(weight, (expert * features + n) * in + k);
  STORE(out, assignment * features + n, sum);
}

__kernel void rotary_embedding(VIEW(x), VIEW(table), __global const long *positions, long heads, long rotary,
                     long interleaved, long count) {
  ITEM;
  const long half_width = rotary / 2, pair = i % half_width, head = i / half_width % heads,
             t = i / half_width / heads;
  const double cosine = LOAD(table, positions[t] * rotary + pair),
               sine = LOAD(table, positions[t] * rotary + half_width + pair);
  const long base = t * x_is.stride[0] + head * x_is.stride[1];
  const long first = base + (interleaved ? 2 * pair : pair),
             second = base + (interleaved ? 2 * pair + 1 : pair + half_width);
  const double u = LOAD(x, first), v = LOAD(x, second);
  STORE(x, first, u * cosine - v * sine);
  STORE(x, second, v * cosine + u * sine);
}

__kernel void kv_cache_append(VIEW(cache), VIEW(x), __global const long *slots, long heads, long width, long page,
                              long count) {
  ITEM;
  const long d = i % width, head = i / width % heads, t = i / width / heads, slot = slots[t];
  if (slot < 0) return;
  STORE(cache, slot / page * cache_is.stride[0] + slot % page * cache_is.stride[1] + head * cache_is.stride[2] + d,
        LOAD(x, t * x_is.stride[0] + head * x_is.stride[1] + d));
}

// One work item for each query and head. `sums` has a row of doubles for each.
__kernel void paged_attention(VIEW(out), VIEW(q), VIEW(k_cache), VIEW(v_cache), VIEW(sinks), VIEW(slopes),
                              __global const int *tables, __global const int *starts, __global const int *lengths,
                              __global double *sums, long columns, long requests, long heads, long group, long width,
                              long page, double scale, double softcap, long window, long causal, long count) {
  ITEM;
  const long t = i / heads, head = i % heads, kv_head = head / group;
  long b = 0;
  while (b + 1 < requests && starts[b + 1] <= t) ++b;
  const long length = lengths[b], position = length - (starts[b + 1] - t);
  const long last = causal ? position : length - 1;
  const long from = window ? max(position - window + 1, 0L) : 0;
  const long to = window && !causal ? min(position + window - 1, last) : last;
  __global double *row = sums + i * width;
  for (long d = 0; d < width; ++d) row[d] = 0;
  double most = sinks ? LOAD(sinks, head) : -INFINITY, total = sinks ? 1 : 0;
  for (long p = from; p <= to; ++p) {
    const long slot = tables[b * columns + p / page];
    const long k = slot * k_cache_is.stride[0] + p % page * k_cache_is.stride[1] + kv_head * k_cache_is.stride[2];
    double score = 0;
    for (long d = 0; d < width; ++d)
      score += LOAD(q, t * q_is.stride[0] + head * q_is.stride[1] + d) * LOAD(k_cache, k + d);
    score *= scale;
    if (softcap > 0) score = softcap * tanh(score / softcap);
    if (slopes) score += LOAD(slopes, head) * (double)(p - position);
    if (score > most) {
      const double shrink = exp(most - score);
      total *= shrink;
      for (long d = 0; d < width; ++d) row[d] *= shrink;
      most = score;
    }
    const double share = exp(score - most);
    const long v = slot * v_cache_is.stride[0] + p % page * v_cache_is.stride[1] + kv_head * v_cache_is.stride[2];
    total += share;
    for (long d = 0; d < width; ++d) row[d] += share * LOAD(v_cache, v + d);
  }
  for (long d = 0; d < width; ++d) STORE(out, i * width + d, total > 0 ? row[d] / total : 0.0);
}

__kernel void topk_softmax(VIEW(logits), __global float *weights, __global int *ids, long experts, long top_k,
                           long renormalize, long count) {
  ITEM;
  const long base = i * experts;
  double most = -INFINITY, total = 0, kept = 0;
  for (long e = 0; e < experts; ++e) most = fmax(most, LOAD(logits, base + e));
  for (long e = 0; e < experts; ++e) total += exp(LOAD(logits, base + e) - most);
  ulong key = ~(ulong)0;
  for (long k = i * top_k; k < (i + 1) * top_k; ++k) {
    key = next_key(logits, logits_is.dtype, base, experts, key);
    ids[k] = (int)index_of(key);
    kept += exp(LOAD(logits, base + ids[k]) - most) / total;
  }
  for (long k = i * top_k; k < (i + 1) * top_k; ++k)
    weights[k] = (float)(exp(LOAD(logits, base + ids[k]) - most) / total / (renormalize ? kept : 1));
}

// One work item for each expert, and one for the end of the last.
__kernel void moe_align(__global const int *ids, __global int *rows, __global int *offsets, long assignments,
                        long count) {
  ITEM;
  long start = 0;
  for (long j = 0; j < assignments; ++j) start += ids[j] < i ? 1 : 0;
  offsets[i] = (int)start;
  for (long j = 0; j < assignments; ++j)
    if (ids[j] == i) rows[start++] = (int)j;
}

__kernel void moe_sum(VIEW(out), VIEW(x), __global const float *weights, long width, long chosen, long count) {
  ITEM;
  const long t = i / width, c = i % width;
  double sum = 0;
  for (long k = 0; k < chosen; ++k)
    sum += (double)weights[t * chosen + k] * LOAD(x, (t * chosen + k) * width + c);
  STORE(out, i, sum);
}

// The weights exp((value - most) / temperature) of elements with keys from `key` on; 1 each when
// counting.
double mass(__global const char *x, long dtype, long base, long width, double most, double temperature,
            int counting, ulong key) {
  double sum = 0;
  for (long c = 0; c < width; ++c) {
    const double v = load(x, dtype, base + c);
    if (key_of(v, c) >= key) sum += counting ? 1 : exp((v - most) / temperature);
  }
  return sum;
}
// The largest key at which the mass reaches (or, strictly, exceeds) the target; `last` if no earlier
// key does.
ulong first_key(__global const char *x, long dtype, long base, long width, double most, double temperature,
                int counting, double target, int strictly, ulong last) {
  ulong low = last, high = ~(ulong)0;
  while (low < high) {
    const ulong middle = low + (high - low) / 2 + 1;
    const double m = mass(x, dtype, base, width, most, temperature, counting, middle);
    if (strictly ? m > target : m >= target) low = middle;
    else high = middle - 1;
  }
  return low;
}
__kernel void sample_tokens(VIEW(logits), __global const float *temperature, __global const int *top_k,
                            __global const float *top_p, __global const float *uniform, __global long *tokens,
                            long width, long count) {
  ITEM;
  const long base = i * width, dtype = logits_is.dtype;
  ulong token = next_key(logits, dtype, base, width, ~(ulong)0);
  if (temperature[i] > 0) {
    const double most = LOAD(logits, base + index_of(token)), t = temperature[i];
    ulong last = ~(ulong)0;
    for (long c = 0; c < width; ++c) last = min(last, key_of(LOAD(logits, base + c), c));
    if (top_k[i] > 0 && top_k[i] < width)
      last = first_key(logits, dtype, base, width, most, t, 1, top_k[i], 0, last);
    if (top_p[i] < 1)
      last = first_key(logits, dtype, base, width, most, t, 0,
                       (double)top_p[i] * mass(logits, dtype, base, width, most, t, 0, last), 0, last);
    token = first_key(logits, dtype, base, width, most, t, 0,
                      (double)uniform[i] * mass(logits, dtype, base, width, most, t, 0, last), 1, last);
  }
  tokens[i] = index_of(token);
}
