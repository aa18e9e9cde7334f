// SPDX-License-Identifier: Apache-2.0
// Finds NCCL's functions at run time, and calls them. Loading and joining return the reason in
// `why`, because all ranks must decide together.
#include "core/comm/cuda/nccl.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "core/base/error.hpp"
#include "fk/comm.h"

namespace fk::cuda {

namespace {

// Numbers and signatures of nccl.h, unchanged since version 2.0 (bfloat16: 2.10).
using Comm = void*;
using Result = int;
struct UniqueId {
  std::array<std::byte, 128> bytes;
};
enum DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kInt64 = 4,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9
};

int type_of(int dtype) {
  switch (dtype) {
    case FK_F64:
      return kFloat64;
    case FK_F32:
      return kFloat32;
    case FK_F16:
      return kFloat16;
    case FK_BF16:
      return kBfloat16;
    case FK_I64:
      return kInt64;
    case FK_I32:
      return kInt32;
    case FK_I8:
      return kInt8;
    case FK_U8:
      return kUint8;
    default:
      fail("NCCL", "it does not reduce such elements");
  }
}

int reduction_of(int64_t op) {
  switch (op) {
    case FK_SUM:
      return 0;  // ncclSum
    case FK_MAX:
      return 2;  // ncclMax
    case FK_MIN:
      return 3;  // ncclMin
    default:
      fail("NCCL", "there is no reduction " + std::to_string(op));
  }
}

}  // namespace

// NCCL's functions, with the arguments of nccl.h.
struct Nccl::Functions {
  Result (*version)(int*);
  Result (*make_id)(UniqueId*);
  Result (*join)(Comm*, int, UniqueId, int);
  Result (*leave)(Comm);
  Result (*abort)(Comm);
  const char* (*error)(Result);
  Result (*all_reduce)(const void*, void*, size_t, int, int, Comm, cudaStream_t);
  Result (*all_gather)(const void*, void*, size_t, int, Comm, cudaStream_t);
  Result (*reduce_scatter)(const void*, void*, size_t, int, int, Comm, cudaStream_t);
  Result (*send)(const void*, size_t, int, int, Comm, cudaStream_t);
  Result (*receive)(void*, size_t, int, int, Comm, cudaStream_t);
  Result (*group_start)();
  Result (*group_end)();

  void must(Result result) const {
    if (result != 0) fail("NCCL", error(result));
  }
};

std::unique_ptr<Nccl> Nccl::load(std::string& why) {
  // NVLink multicast is off, unless the user sets it. One stream orders all calls, so captured and
  // other calls need no events between them; the host's graphs must not have events.
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  ::setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 1);
  void* library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* text = ::dlerror();
    why = text ? text : "it cannot be loaded";
    return nullptr;
  }
  std::unique_ptr<Nccl> nccl(new Nccl);
  nccl->call_ = std::make_unique<Functions>();
  Functions& f = *nccl->call_;
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (!function && why.empty()) why = std::string("it has no ") + name;
  };
  find(f.version, "ncclGetVersion");
  find(f.make_id, "ncclGetUniqueId");
  find(f.join, "ncclCommInitRank");
  find(f.leave, "ncclCommDestroy");
  find(f.abort, "ncclCommAbort");
  find(f.error, "ncclGetErrorString");
  find(f.all_reduce, "ncclAllReduce");
  find(f.all_gather, "ncclAllGather");
  find(f.reduce_scatter, "ncclReduceScatter");
  find(f.send, "ncclSend");
  find(f.receive, "ncclRecv");
  find(f.group_start, "ncclGroupStart");
  find(f.group_end, "ncclGroupEnd");
  if (why.empty() && (f.version(&nccl->version_) != 0 || nccl->version_ < 21000))
    why = "it is older than 2.10";
  return why.empty() ? std::move(nccl) : nullptr;
}

bool Nccl::make_id(Id& id, std::string& why) const {
  UniqueId made{};
  const Result result = call_->make_id(&made);
  if (result != 0) why = call_->error(result);
  id = made.bytes;
  return result == 0;
}

bool Nccl::join(const Id& id, int rank, int size, std::string& why) {
  const Result result = call_->join(&comm_, size, UniqueId{id}, rank);
  size_ = size;
  if (result != 0) {
    why = call_->error(result);
    comm_ = nullptr;
  }
  return result == 0;
}

void Nccl::leave() {
  if (comm_) call_->leave(comm_);
  comm_ = nullptr;
}

Nccl::~Nccl() {
  // Does not wait for ranks that have ended.
  if (comm_) call_->abort(comm_);
}

void Nccl::all_reduce(const void* x, void* out, int64_t count, int dtype, int64_t op,
                      cudaStream_t stream) {
  call_->must(call_->all_reduce(x, out, static_cast<size_t>(count), type_of(dtype),
                                reduction_of(op), comm_, stream));
}

void Nccl::all_gather(const void* x, void* out, int64_t bytes, cudaStream_t stream) {
  call_->must(call_->all_gather(x, out, static_cast<size_t>(bytes), kInt8, comm_, stream));
}

void Nccl::reduce_scatter(const void* x, void* out, int64_t count, int dtype, int64_t op,
                          cudaStream_t stream) {
  call_->must(call_->reduce_scatter(x, out, static_cast<size_t>(count), type_of(dtype),
                                    reduction_of(op), comm_, stream));
}

void Nccl::all_to_all(const void* x, void* out, int64_t part_bytes, cudaStream_t stream) {
  const auto bytes = static_cast<size_t>(part_bytes);
  call_->must(call_->group_start());
  Result result = 0;
  for (int r = 0; r < size_ && result == 0; ++r) {
    result = call_->send(static_cast<const std::byte*>(x) + static_cast<size_t>(r) * bytes, bytes,
                         kInt8, r, comm_, stream);
    if (result == 0)
      result = call_->receive(static_cast<std::byte*>(out) + static_cast<size_t>(r) * bytes, bytes,
                              kInt8, r, comm_, stream);
  }
  const Result ended = call_->group_end();
  call_->must(result != 0 ? result : ended);
}

}  // namespace fk::cuda
