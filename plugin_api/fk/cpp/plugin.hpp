// SPDX-License-Identifier: Apache-2.0
// The C++ form of a plugin: one class per op. FK_OP makes the rest of it: noexcept functions, the
// op table, the note and the registration.
//
//   struct Norm {
//     using op = fk::rms_norm;
//     static constexpr fk_claims claims = fk::cpu_claims;
//     static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&);
//     Norm(const fk_host&, const op::init&, const op::weights&);
//     void prepare(const op::forward& max, const fk_memory&);
//     void forward(const op::forward& args, const fk_ctx&);
//   };
//   FK_OP(rms_norm, Norm);
//
// The constructor is create(), the destructor is destroy(). fk/op.h has the rules of threads,
// streams and lifetimes. Two functions are optional:
//   int64_t plan(const op::plan& step, void* blob, int64_t room);  // returns bytes written
//   void reset();                                                  // after an aborted run
//
// supports() refuses a case with `throw fk::unsupported{"x: float32 only"}`. Any other exception
// becomes FK_FAILED with the exception's text. No exception leaves the plugin.
#pragma once
#include <exception>
#include <type_traits>

#include "../plugin.h"

namespace fk {

// Thrown by supports(). `why` is one sentence. It is copied when the exception is caught, so it
// must outlive supports(): use a literal.
struct unsupported {
  const char* why;
};

// Claims of a CPU op that is deterministic and batch invariant, and sums in float32.
inline constexpr fk_claims cpu_claims{
    FK_END(fk_claims, sm),
    FK_CPU,
    FK_GRAPH_ALWAYS,
    /*deterministic=*/1,
    /*batch_invariant=*/1,
    FK_ACCUMULATE_F32,
    /*side_streams=*/0,
    /*sm_count=*/0,
    /*sm=*/nullptr};

// Address of a view's first element; null for an absent optional field. T is not checked against
// the view's dtype. host() is for the host memory of plan(). [any thread]
template <class T> const T* data(const fk_in* view) { return static_cast<const T*>(view->data); }
template <class T> T* data(const fk_out* view) { return static_cast<T*>(view->data); }
template <class T> const T* data(fk_opt_in view) {
  return view.or_null ? data<T>(view.or_null) : nullptr;
}
template <class T> T* data(fk_opt_out view) { return view.or_null ? data<T>(view.or_null) : nullptr; }
template <class T> const T* host(const fk_host_in* view) { return static_cast<const T*>(view->host); }

namespace detail {

// Runs `body` and turns an exception into a status, with the text in `error`.
template <class F> int32_t guard(fk_error* error, F body) noexcept {
  try {
    body();
    return FK_OK;
  } catch (const unsupported& refusal) {
    return fk_fail(error, FK_UNSUPPORTED, refusal.why);
  } catch (const std::exception& failure) {
    return fk_fail(error, FK_FAILED, failure.what());
  } catch (...) {
    return fk_fail(error, FK_FAILED, "an exception that is not a std::exception");
  }
}

template <class I, class = void> struct planner {
  static constexpr int32_t (*call)(void*, const void*, void*, int64_t*, fk_error*) = nullptr;
};
template <class I> struct planner<I, std::void_t<decltype(&I::plan)>> {
  static int32_t call(void* self, const void* step, void* blob, int64_t* bytes, fk_error* error) noexcept {
    return guard(error, [&] {
      *bytes = static_cast<I*>(self)->plan(*static_cast<const typename I::op::plan*>(step), blob, *bytes);
    });
  }
};
template <class I, class = void> struct resetter {
  static constexpr int32_t (*call)(void*, fk_error*) = nullptr;
};
template <class I> struct resetter<I, std::void_t<decltype(&I::reset)>> {
  static int32_t call(void* self, fk_error* error) noexcept {
    return guard(error, [&] { static_cast<I*>(self)->reset(); });
  }
};

template <class I> struct table {
  using Init = typename I::op::init;
  using Weights = typename I::op::weights;
  using Forward = typename I::op::forward;
  static int32_t supports(const void* init, const void* weights, const void* max, fk_need* need,
                          fk_error* why) noexcept {
    return guard(why, [&] {
      I::supports(*static_cast<const Init*>(init), *static_cast<const Weights*>(weights),
                  *static_cast<const Forward*>(max), *need);
    });
  }
  static int32_t create(const fk_host* host, const void* init, const void* weights, void** self,
                        fk_error* error) noexcept {
    return guard(error, [&] {
      *self = new I(*host, *static_cast<const Init*>(init), *static_cast<const Weights*>(weights));
    });
  }
  static int32_t prepare(void* self, const void* max, const fk_memory* memory, fk_error* error) noexcept {
    return guard(error,
                 [&] { static_cast<I*>(self)->prepare(*static_cast<const Forward*>(max), *memory); });
  }
  static int32_t forward(void* self, const void* args, const fk_ctx* ctx) noexcept {
    return guard(ctx->error,
                 [&] { static_cast<I*>(self)->forward(*static_cast<const Forward*>(args), *ctx); });
  }
  static void destroy(void* self) noexcept { delete static_cast<I*>(self); }
};

}  // namespace detail

template <class I>
inline constexpr fk_op op_table{FK_END(fk_op, reset_or_null), /*reserved=*/0, I::op::contract(), &I::claims,
                                detail::table<I>::supports, detail::table<I>::create,
                                detail::table<I>::prepare, detail::planner<I>::call,
                                detail::table<I>::forward, detail::table<I>::destroy,
                                detail::resetter<I>::call};

}  // namespace fk

// Registers class CLASS, a plain identifier, as this plugin's implementation of op OP.
#define FK_OP(OP, CLASS)                                                      \
  static constexpr fk_note_op CLASS##_note FK_NOTE_SECTION = FK_NOTE_##OP;    \
  FK_REGISTER(CLASS, &fk::op_table<CLASS>)
