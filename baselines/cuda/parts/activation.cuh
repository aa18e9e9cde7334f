// SPDX-License-Identifier: Apache-2.0
// Activations as functions of one number, for kernels which apply one of them.
#pragma once
#include <cstdint>

#include "math.cuh"

namespace fkc {

struct Same {
  __device__ float operator()(float v) const { return v; }
};
// A NaN stays a NaN.
struct Relu {
  __device__ float operator()(float v) const { return v < 0 ? 0.F : v; }
};
struct Relu2 {
  __device__ float operator()(float v) const { return v < 0 ? 0.F : v * v; }
};
struct Silu {
  __device__ float operator()(float v) const { return silu(v); }
};
struct QuickGelu {
  __device__ float operator()(float v) const { return v / (1.F + __expf(-1.702F * v)); }
};
struct Sigmoid {
  __device__ float operator()(float v) const { return 1.F / (1.F + __expf(-v)); }
};
// -log(1 + e^-v), with a small relative error on both sides of 0.
struct LogSigmoid {
  __device__ float operator()(float v) const { return fminf(v, 0.F) - log1pf(__expf(-fabsf(v))); }
};
struct Tanh {
  __device__ float operator()(float v) const { return tanhf(v); }
};
// Far below 0 the result has an absolute error of 1e-7.
struct Gelu {
  __device__ float operator()(float v) const {
    return v * (0.5F + 0.5F * erff(v * 0.70710678119F));
  }
};
// The same with a small relative error, for results which are multiplied; slower.
struct GeluOfProduct {
  __device__ float operator()(float v) const { return v * (0.5F * erfcf(v * -0.70710678119F)); }
};
struct GeluTanh {
  // (1 + tanh(u)) / 2 is the logistic function of 2 u.
  __device__ float operator()(float v) const {
    return v * (1.F / (1.F + __expf(-1.5957691216F * (v + 0.044715F * v * v * v))));
  }
};
// v * tanh(log(1 + e^v)). From 20 on the second factor is 1.
struct Mish {
  __device__ float operator()(float v) const {
    const float e = __expf(fminf(v, 20.F)), n = e * (e + 2.F);
    return v * (n / (n + 2.F));
  }
};

// f(activation) for the enum of ops which end with one: none, relu, silu, gelu, mish.
template <class F>
void with_activation(int64_t kind, F f) {
  if (kind == 1)
    f(Relu{});
  else if (kind == 2)
    f(Silu{});
  else if (kind == 3)
    f(Gelu{});
  else if (kind == 4)
    f(Mish{});
  else
    f(Same{});
}

// The same for kernels in which the choice costs little.
__device__ inline float activate(int kind, float v) {
  if (kind == 1) return Relu{}(v);
  if (kind == 2) return Silu{}(v);
  if (kind == 3) return Gelu{}(v);
  return kind == 4 ? Mish{}(v) : v;
}

}  // namespace fkc
