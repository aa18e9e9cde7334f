// SPDX-License-Identifier: Apache-2.0
// silu_and_mul that launches its kernel KNOWN_LAUNCHES times. The first launch uses the call's
// tensors. The others use equally large ones of its own, which nobody else touches, so all are
// cold. Twice the launches take twice the time if all tensors are alike. So the own ones hold
// values like the call's. They are in the call's kind of memory (cuMemCreate) if they are small
// beside it, as a baseline may take it. A candidate's are the host's.
#include "known.cuh"

#include <cuda.h>

#include <stdexcept>
#include <string>

#include "fk/ops/silu_and_mul.h"

namespace {

constexpr int32_t kSm[] = {90};
constexpr int kLaunches = KNOWN_LAUNCHES;

constexpr bool kVirtual = kLaunches > 1 && kLaunches < 20;
constexpr int64_t kPage = int64_t{2} << 20;

// Small tensors lie as close to each other as the calls' do, so a launch finds equally few pages
// unknown to the TLB. Large ones have the same place within a page.
int64_t unit(int64_t bytes) { return bytes < 16 * kPage ? 4096 : kPage; }
int64_t room(int64_t bytes) { return (bytes + unit(bytes) - 1) / unit(bytes) * unit(bytes) + unit(bytes); }
// The same place within a unit as the call's tensor has.
template <class Tensor> char* like(const Tensor& tensor, char* at) {
  const int64_t of = unit(tensor.nbytes), wanted = reinterpret_cast<int64_t>(tensor.data) % of, is = reinterpret_cast<int64_t>(at) % of;
  return at + (wanted - is + of) % of;
}

template <class F, class... Arguments>
void driver(const char* name, Arguments... arguments) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  if (cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result) != cudaSuccess || reinterpret_cast<F*>(found)(arguments...) != CUDA_SUCCESS)
    throw std::runtime_error(std::string(name) + " failed");
}
#define DRIVER(name, ...) driver<decltype(name)>(#name, __VA_ARGS__)

struct Virtual {
  CUdeviceptr at = 0;
  size_t bytes = 0;
  void make(size_t size) {
    CUmemAllocationProp kind{};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle handle = 0;
    bytes = size = (size + kPage - 1) / kPage * kPage;
    DRIVER(cuMemCreate, &handle, size, &kind, 0ull);
    DRIVER(cuMemAddressReserve, &at, size, size_t(0), CUdeviceptr(0), 0ull);
    DRIVER(cuMemMap, at, size, size_t(0), handle, 0ull);
    DRIVER(cuMemRelease, handle);
    const CUmemAccessDesc who{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DRIVER(cuMemSetAccess, at, size, &who, size_t(1));
  }
  ~Virtual() {
    if (!at) return;
    cudaDeviceSynchronize();
    DRIVER(cuMemUnmap, at, bytes);
    DRIVER(cuMemAddressFree, at, bytes);
  }
};

struct Known {
  using op = fk::silu_and_mul;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 1, kSm};
  const int64_t width;
  char* own = nullptr;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    if (FK_DTYPE(max.x) != FK_BF16 || init.size % 8) throw fk::unsupported{"bfloat16 and multiples of 8 only"};
    if (max.x->shape[0] > 65535) throw fk::unsupported{"at most 65535 rows"};
    if (!kVirtual) need.persistent = (kLaunches - 1) * (room(max.x->nbytes) + room(max.out->nbytes));
  }
  Known(const fk_host&, const op::init& init, const op::weights&) : width(init.size) {}
  Virtual memory_;
  void prepare(const op::forward& max, const fk_memory& memory) {
    if (kLaunches == 1) return;
    const int64_t bytes = (kLaunches - 1) * (room(max.x->nbytes) + room(max.out->nbytes));
    if (kVirtual) memory_.make(size_t(bytes));
    own = kVirtual ? reinterpret_cast<char*>(memory_.at) : static_cast<char*>(memory.persistent);
    known::values<<<1024, 256>>>(reinterpret_cast<__nv_bfloat16*>(own), bytes / 2);
    if (const cudaError_t status = cudaDeviceSynchronize(); status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t rows = args.x->shape[0];
    if (!rows) return;
    const auto on = static_cast<cudaStream_t>(ctx.stream);
    char* const outs = own + (kLaunches - 1) * room(args.x->nbytes);
    for (int k = 0; k < kLaunches; ++k) {
      const void* from = k ? like(*args.x, own + (k - 1) * room(args.x->nbytes)) : args.x->data;
      void* to = k ? like(*args.out, outs + (k - 1) * room(args.out->nbytes)) : args.out->data;
      known::silu<false><<<known::grid(rows, width), known::kThreads, 0, on>>>(static_cast<const uint4*>(from), static_cast<uint4*>(to), int(width));
    }
    if (const cudaError_t status = cudaPeekAtLastError(); status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  }
};
FK_OP(silu_and_mul, Known);

#define TEXT_OF(x) #x
#define NAME_OF(launches) "known_" TEXT_OF(launches)

}  // namespace
FK_PLUGIN(NAME_OF(KNOWN_LAUNCHES), "0");
