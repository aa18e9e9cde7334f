// SPDX-License-Identifier: Apache-2.0
// The C++ form of a device backend: a class for the device, with a nested Watch. FK_BACKEND_OF
// makes the table of fk/device.h from it.
//
//   struct Metal {
//     static constexpr fk::backend_traits traits{"metal", "1.0", /*device_type=*/8, "Metal
//     devices"}; static int32_t count(fk_error& why_none); static void describe(int32_t index,
//     fk_device_info& info); explicit Metal(int32_t index); void* allocate(int64_t bytes);
//     ...
//     struct Watch { explicit Watch(Metal&); void flush(int32_t all); void start(); ... };
//   };
//   FK_BACKEND_OF(Metal, "metal", "1.0");
//
// Methods have the names of the table's members, without `_or_null`, and the members' arguments. A
// method that returns a value has no argument for it: `void* allocate(int64_t)`, `void* stream()`,
// `bool lost()`. A method that is absent gives a null member; the compiler names a required one.
// left_behind() returns a std::string, empty for no change. Watch and Sense have the names behind
// `watch_` and `sense_`; Sense(int32_t index) is optional.
//
// A method throws a std::exception for FK_FAILED, and fk::unsupported{"a sentence"} for
// FK_UNSUPPORTED.
#pragma once
#include <string>

#include "../device.h"
#include "plugin.hpp"

namespace fk {

struct backend_traits {
  const char *kind, *version;
  int32_t device_type;
  const char* type_words;
  const char* peaks = nullptr;
  const fk_needs* needs = nullptr;
};

namespace detail {

// The function of the table for a method: its handle first, the returned value and the error last.
template <class H, auto M, class T, class R, class... A>
struct backend_thunk {
  static int32_t call(H* self, A... args, R* out, fk_error* error) noexcept {
    return guard(error, [&] { *out = (reinterpret_cast<T*>(self)->*M)(args...); });
  }
};
template <class H, auto M, class T, class... A>
struct backend_thunk<H, M, T, void, A...> {
  static int32_t call(H* self, A... args, fk_error* error) noexcept {
    return guard(error, [&] { (reinterpret_cast<T*>(self)->*M)(args...); });
  }
};
template <class H, auto M, class T, class R, class... A>
backend_thunk<H, M, T, R, A...> backend_thunk_of(R (T::*)(A...));
template <class H, auto M>
using backend_call = decltype(backend_thunk_of<H, M>(M));

// backend_NAME<T>::call: that function, or null where T has no such method.
#define FK_BACKEND_METHOD(NAME)                     \
  template <class H, class T, class = void>         \
  struct backend_##NAME {                           \
    static constexpr std::nullptr_t call = nullptr; \
  };                                                \
  template <class H, class T>                       \
  struct backend_##NAME<H, T, std::void_t<decltype(&T::NAME)>> : backend_call<H, &T::NAME> {}
FK_BACKEND_METHOD(allocate_parts);
FK_BACKEND_METHOD(free_bytes);
FK_BACKEND_METHOD(copy_rows);
FK_BACKEND_METHOD(copy_tokens);
FK_BACKEND_METHOD(fill_random);
FK_BACKEND_METHOD(fill_normal);
FK_BACKEND_METHOD(checksums);
FK_BACKEND_METHOD(gather);
FK_BACKEND_METHOD(share);
FK_BACKEND_METHOD(open_shared);
FK_BACKEND_METHOD(close_shared);
FK_BACKEND_METHOD(accept_mapping);
FK_BACKEND_METHOD(drop_mapping);
FK_BACKEND_METHOD(profile);
FK_BACKEND_METHOD(share_cores);
FK_BACKEND_METHOD(hold);
FK_BACKEND_METHOD(let_go);
FK_BACKEND_METHOD(peek);
FK_BACKEND_METHOD(begin_capture);
FK_BACKEND_METHOD(capture_is_whole);
FK_BACKEND_METHOD(mark_capture);
FK_BACKEND_METHOD(separate_calls);
FK_BACKEND_METHOD(end_capture);
FK_BACKEND_METHOD(launch);
FK_BACKEND_METHOD(passes);
FK_BACKEND_METHOD(evict);
#undef FK_BACKEND_METHOD

template <class T, class = void>
struct backend_lost {
  static constexpr std::nullptr_t call = nullptr;
};
template <class T>
struct backend_lost<T, std::void_t<decltype(&T::lost)>> {
  static int32_t call(fk_device* self) noexcept { return reinterpret_cast<T*>(self)->lost(); }
};
template <class T, class = void>
struct backend_left_behind {
  static constexpr std::nullptr_t call = nullptr;
};
template <class T>
struct backend_left_behind<T, std::void_t<decltype(&T::left_behind)>> {
  static int32_t call(fk_device* self, fk_error* error) noexcept {
    std::string changes;
    const int32_t status =
        guard(error, [&] { changes = reinterpret_cast<T*>(self)->left_behind(); });
    return status || changes.empty() ? status : fk_fail(error, FK_FAILED, changes.c_str());
  }
};
template <class T, class = void>
struct backend_free_graph {
  static constexpr std::nullptr_t call = nullptr;
};
template <class T>
struct backend_free_graph<T, std::void_t<decltype(&T::free_graph)>> {
  static void call(fk_device* self, fk_graph* graph) noexcept {
    reinterpret_cast<T*>(self)->free_graph(graph);
  }
};
template <class T, class = void>
struct backend_sense {
  static constexpr std::nullptr_t open = nullptr, close = nullptr, look = nullptr;
};
template <class T>
struct backend_sense<T, std::void_t<typename T::Sense>> {
  using S = typename T::Sense;
  static int32_t open(int32_t index, fk_sense** sense, fk_error* error) noexcept {
    return guard(error, [&] { *sense = reinterpret_cast<fk_sense*>(new S(index)); });
  }
  static void close(fk_sense* sense) noexcept { delete reinterpret_cast<S*>(sense); }
  static int32_t look(fk_sense* sense, fk_state* state, fk_error* error) noexcept {
    return guard(error, [&] { reinterpret_cast<S*>(sense)->look(*state); });
  }
};

template <class T>
struct backend {
  using W = typename T::Watch;
  static int32_t count(int32_t* count, fk_error* error) noexcept {
    return guard(error, [&] { *count = T::count(*error); });
  }
  static int32_t describe(int32_t index, fk_device_info* info, fk_error* error) noexcept {
    return guard(error, [&] { T::describe(index, *info); });
  }
  static int32_t open(int32_t index, fk_device** device, fk_error* error) noexcept {
    return guard(error, [&] { *device = reinterpret_cast<fk_device*>(new T(index)); });
  }
  static void close(fk_device* device) noexcept { delete reinterpret_cast<T*>(device); }
  static int32_t watch_open(fk_device* device, fk_watch** watch, fk_error* error) noexcept {
    return guard(
        error, [&] { *watch = reinterpret_cast<fk_watch*>(new W(*reinterpret_cast<T*>(device))); });
  }
  static void watch_close(fk_watch* watch) noexcept { delete reinterpret_cast<W*>(watch); }
  template <auto M>
  static constexpr auto on = &backend_call<fk_device, M>::call;
  template <auto M>
  static constexpr auto timed = &backend_call<fk_watch, M>::call;

  static constexpr fk_backend table = {
      FK_END(fk_backend, sense_look_or_null),
      FK_BACKEND_MINOR,
      T::traits.kind,
      T::traits.version,
      T::traits.device_type,
      /*reserved=*/0,
      T::traits.type_words,
      T::traits.peaks,
      T::traits.needs,
      count,
      describe,
      open,
      close,
      on<&T::allocate>,
      on<&T::release>,
      on<&T::allocate_host>,
      on<&T::release_host>,
      backend_allocate_parts<fk_device, T>::call,
      backend_free_bytes<fk_device, T>::call,
      on<&T::upload>,
      on<&T::upload_later>,
      on<&T::uploads_enqueued>,
      on<&T::wait_for_uploads>,
      on<&T::download>,
      on<&T::download_later>,
      on<&T::copy>,
      on<&T::fill>,
      backend_copy_rows<fk_device, T>::call,
      backend_copy_tokens<fk_device, T>::call,
      backend_fill_random<fk_device, T>::call,
      backend_fill_normal<fk_device, T>::call,
      backend_checksums<fk_device, T>::call,
      backend_gather<fk_device, T>::call,
      backend_share<fk_device, T>::call,
      backend_open_shared<fk_device, T>::call,
      backend_close_shared<fk_device, T>::call,
      backend_accept_mapping<fk_device, T>::call,
      backend_drop_mapping<fk_device, T>::call,
      on<&T::stream>,
      on<&T::synchronize>,
      on<&T::synchronize_all>,
      backend_lost<T>::call,
      backend_left_behind<T>::call,
      backend_profile<fk_device, T>::call,
      backend_share_cores<fk_device, T>::call,
      backend_hold<fk_device, T>::call,
      backend_let_go<fk_device, T>::call,
      backend_peek<fk_device, T>::call,
      backend_begin_capture<fk_device, T>::call,
      backend_capture_is_whole<fk_device, T>::call,
      backend_mark_capture<fk_device, T>::call,
      backend_separate_calls<fk_device, T>::call,
      backend_end_capture<fk_device, T>::call,
      backend_launch<fk_device, T>::call,
      backend_free_graph<T>::call,
      watch_open,
      watch_close,
      timed<&W::flush>,
      backend_passes<fk_watch, W>::call,
      backend_evict<fk_watch, W>::call,
      timed<&W::start>,
      timed<&W::stop>,
      timed<&W::seconds>,
      backend_sense<T>::open,
      backend_sense<T>::close,
      backend_sense<T>::look,
  };
};

}  // namespace detail

}  // namespace fk

// Use at file scope, once in a backend. KIND and VERSION are literals, equal to those of T::traits.
#define FK_BACKEND_OF(T, KIND, VERSION) FK_BACKEND(KIND, VERSION, ::fk::detail::backend<T>::table)
