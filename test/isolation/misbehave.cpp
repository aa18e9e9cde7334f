// SPDX-License-Identifier: Apache-2.0
// An rms_norm candidate that is right, but for what MODE makes of it.
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "fk/ops/rms_norm.h"

#define FK_TEXT_(x) #x
#define FK_TEXT(x) FK_TEXT_(x)

namespace {

enum Mode {
  right,
  wrong,
  zero_later,
  zero_first,
  zero_one,
  zero_second,
  burns,
  works_on,
  segfault,
  hang,
  exits,
  fails,
  raises,
  eats,
  noisy,
  aborts,
  hang_in_create,
  segfault_at_end
};
constexpr Mode mode = MODE;
constexpr const char* kBurner = "fk_burns";  // a thread's name
// The width of the tiny Llama and of no smoke case: what misbehaves only there passes the check of
// the ops before a run.
constexpr int64_t kModelChannels = 128;
#ifdef EAGER
constexpr bool eager = true;
#else
constexpr bool eager = false;
#endif

// Rows of such calls tell where a run of `smoke` is; which requests are decoded together does not,
// that is another thing under load. The first are the correctness set's, then come two timed rounds
// beside every candidate.
constexpr int kChecked = 625, kRound = 465;

// Not inlined, so that a backtrace has a frame in this file.
__attribute__((noinline)) void misbehave() {
  static int* volatile nowhere = nullptr;
  if (mode == segfault || mode == segfault_at_end) *nowhere = 1;
  if (mode == hang)
    for (;;) ::usleep(1000);
  if (mode == exits) std::exit(0);
  if (mode == aborts) {
    std::fputs("out of handles\n", stderr);
    std::abort();
  }
  if (mode == fails) throw std::runtime_error("out of tune");
  while (mode == eats) {
    constexpr size_t kBytes = size_t{64} << 20;
    std::memset(new char[kBytes], 1, kBytes);
  }
  if (mode == burns) {
    static const bool begun = [] {
      std::thread([] {
        ::pthread_setname_np(::pthread_self(), kBurner);
        for (volatile bool on = true; on;) continue;
      }).detach();
      return true;
    }();
    (void)begun;
  }
  if (mode == works_on) {  // on a device of shadow.cpp, until the process ends
    static const int fd = ::open(std::getenv("FK_SHADOW_WORK"), O_RDWR | O_CLOEXEC);
    ::flock(fd, LOCK_EX | LOCK_NB);
  }
  if (mode == noisy)
    for (int i = 0; i < 2000; ++i) std::printf("line %d of much that nobody asked for\n", i);
}

struct Norm {
  using op = fk::rms_norm;
  static constexpr fk_claims claims = fk::cpu_claims;
  op::init init;
  op::weights weights;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    const bool f32 = max.x->dtype.code == 2 && max.x->dtype.bits == 32;
    if (!f32 || !weights.weight.or_null || max.x->strides[1] != 1)
      throw fk::unsupported{"x: float32 rows with a weight only"};
  }
  Norm(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {
    if (mode == hang_in_create && i.hidden_size == kModelChannels)
      for (;;) ::usleep(1000);
  }
  ~Norm() {
    if (mode == segfault_at_end && init.hidden_size == kModelChannels) misbehave();
  }
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t channels = init.hidden_size, rows = args.x->shape[0];
    const bool now = eager || channels == kModelChannels;
    if (now && mode != segfault_at_end) misbehave();
    const float* weight = fk::data<float>(weights.weight);
    for (int64_t t = 0; t < rows; ++t) {
      const float* x = fk::data<float>(args.x) + t * args.x->strides[0];
      float* out = fk::data<float>(args.out) + t * args.out->strides[0];
      float* residual = fk::data<float>(args.residual);
      if (residual) residual += t * args.residual.or_null->strides[0];
      double sum = 0;
      for (int64_t c = 0; c < channels; ++c) {
        out[c] = x[c] + (residual ? residual[c] : 0.0F);
        if (residual) residual[c] = out[c];
        sum += double(out[c]) * double(out[c]);
      }
      const double gain = 1 / std::sqrt(sum / double(channels) + init.eps);
      static int before = 0;
      const int row = before;
      before += now;
      const bool lazy =
          now && ((mode == zero_later && row >= kChecked) ||
                  (mode == zero_first && row >= kChecked && row < kChecked + kRound) ||
                  (mode == zero_second && row >= kChecked + 2 * kRound));
      // One request of the 32 that other workloads decode at a time.
      const bool one = now && mode == zero_one && rows == 32 && t == 31;
      for (int64_t c = 0; c < channels; ++c) {
        out[c] = lazy || one ? 0.0F : float(out[c] * gain * double(weight[c]));
        if (mode == wrong && now && c == 3) out[c] *= 1.02F;
      }
    }
  }
};
FK_OP(rms_norm, Norm);

}  // namespace

FK_PLUGIN(FK_TEXT(MODE), "1.0");
