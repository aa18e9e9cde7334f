// SPDX-License-Identifier: Apache-2.0
// Reads a captured graph with functions of the driver, each looked up in the version that has it.
// Where a function is missing, its facts are missing too.
#include "core/device/cuda/graph_reader.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace fk::cuda {

namespace {

// A driver function in the given version of the interface; null where it is missing.
template <class F>
F* driver(const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  if (cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result) !=
          cudaSuccess ||
      result != cudaDriverEntryPointSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return reinterpret_cast<F*>(found);
}
// Defines `name_`: the driver's function in this version, or null.
#define FK_FROM(version, name) static auto* const name##_ = driver<decltype(name)>(#name, version)

// The signature of version 11.3; newer headers have other signatures under the same name.
using CaptureInfo = CUresult(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                             const CUgraphNode**, size_t*);

GraphNodeKind kind_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return GraphNodeKind::kernel;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return GraphNodeKind::copy;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return GraphNodeKind::fill;
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return GraphNodeKind::empty;
    case CU_GRAPH_NODE_TYPE_HOST:
      return GraphNodeKind::host;
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return GraphNodeKind::graph;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return GraphNodeKind::allocation;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return GraphNodeKind::release;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return GraphNodeKind::event;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return GraphNodeKind::semaphore;
    default:
      return GraphNodeKind::unknown;
  }
}

// From the first to the last byte of a box of rows.
MemoryRange box(uint64_t begin, size_t x, size_t y, size_t z, size_t pitch, size_t rows,
                const CUDA_MEMCPY3D& p) {
  const size_t last = (p.Depth ? p.Depth - 1 : 0) * pitch * rows +
                      (p.Height ? p.Height - 1 : 0) * pitch + p.WidthInBytes;
  return {begin + (z * rows + y) * pitch + x, last};
}

void read_copy(CUgraphNode node, GraphNode& out) {
  FK_FROM(12000, cuGraphMemcpyNodeGetParams);
  CUDA_MEMCPY3D p{};
  if (!cuGraphMemcpyNodeGetParams_ || cuGraphMemcpyNodeGetParams_(node, &p) != CUDA_SUCCESS) {
    out.kind = GraphNodeKind::unknown;
    return;
  }
  const uint64_t from = p.srcMemoryType == CU_MEMORYTYPE_HOST
                            ? reinterpret_cast<uintptr_t>(p.srcHost)
                            : static_cast<uint64_t>(p.srcDevice);
  const uint64_t to = p.dstMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<uintptr_t>(p.dstHost)
                                                            : static_cast<uint64_t>(p.dstDevice);
  out.touches = {box(from, p.srcXInBytes, p.srcY, p.srcZ, p.srcPitch, p.srcHeight, p),
                 box(to, p.dstXInBytes, p.dstY, p.dstZ, p.dstPitch, p.dstHeight, p)};
}

void read_fill(CUgraphNode node, GraphNode& out) {
  FK_FROM(12000, cuGraphMemsetNodeGetParams);
  CUDA_MEMSET_NODE_PARAMS p{};
  if (!cuGraphMemsetNodeGetParams_ || cuGraphMemsetNodeGetParams_(node, &p) != CUDA_SUCCESS) {
    out.kind = GraphNodeKind::unknown;
    return;
  }
  const uint64_t row = uint64_t{p.elementSize} * p.width;
  out.touches = {{p.dst, (p.height ? p.height - 1 : 0) * p.pitch + row}};
}

// Collects words that point into an allocation of this process.
void add_pointers(const void* memory, size_t bytes, std::vector<MemoryRange>& out) {
  FK_FROM(12000, cuPointerGetAttribute);
  for (size_t at = 0; cuPointerGetAttribute_ && at + 8 <= bytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(memory) + at, sizeof word);
    unsigned type = 0;
    constexpr uint64_t kNoAddress = 1 << 16;  // smaller words are numbers
    if (word < kNoAddress ||
        cuPointerGetAttribute_(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word) != CUDA_SUCCESS)
      continue;
    out.push_back({word, 0});
  }
}

void add_parameters(CUfunction function, const CUDA_KERNEL_NODE_PARAMS& p,
                    std::vector<MemoryRange>& out) {
  FK_FROM(12040, cuFuncGetParamInfo);
  size_t offset = 0, bytes = 0;
  for (size_t i = 0; p.kernelParams && cuFuncGetParamInfo_ &&
                     cuFuncGetParamInfo_(function, i, &offset, &bytes) == CUDA_SUCCESS;
       ++i)
    add_pointers(p.kernelParams[i], bytes, out);
  // Alternatively all parameters are in one buffer.
  const void* memory = nullptr;
  size_t whole = 0;
  for (void** at = p.extra; at && *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) memory = at[1];
    if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE) whole = *static_cast<const size_t*>(at[1]);
  }
  if (memory) add_pointers(memory, whole, out);
}

int64_t attribute(CUfunction function, CUfunction_attribute which) {
  FK_FROM(12000, cuFuncGetAttribute);
  int value = 0;
  return cuFuncGetAttribute_ && cuFuncGetAttribute_(&value, which, function) == CUDA_SUCCESS ? value
                                                                                             : 0;
}

double occupancy(CUfunction function, int threads, size_t shared) {
  FK_FROM(12000, cuOccupancyMaxActiveBlocksPerMultiprocessor);
  int blocks = 0, device = 0, most = 0;
  if (!cuOccupancyMaxActiveBlocksPerMultiprocessor_ ||
      cuOccupancyMaxActiveBlocksPerMultiprocessor_(&blocks, function, threads, shared) !=
          CUDA_SUCCESS ||
      cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxThreadsPerMultiProcessor, device) !=
          cudaSuccess ||
      most <= 0)
    return 0;
  constexpr int kWarp = 32;
  return static_cast<double>(blocks * ((threads + kWarp - 1) / kWarp * kWarp)) / most;
}

// The nodes that a node waits for. The signature of version 12.3 has edge data, for kernels that
// start before their predecessors end; older drivers lack such edges.
std::vector<CUgraphNode> dependencies(CUgraphNode node) {
  using WithEdges = CUresult(CUgraphNode, CUgraphNode*, CUgraphEdgeData*, size_t*);
  using Plain = CUresult(CUgraphNode, CUgraphNode*, size_t*);
  static auto* const edges = driver<WithEdges>("cuGraphNodeGetDependencies", 12030);
  static auto* const plain = edges ? nullptr : driver<Plain>("cuGraphNodeGetDependencies", 10000);
  size_t count = 0;
  std::vector<CUgraphNode> out;
  std::vector<CUgraphEdgeData> data;
  const auto ask = [&](CUgraphNode* to, CUgraphEdgeData* with) {
    if (edges) return edges(node, to, with, &count) == CUDA_SUCCESS;
    return plain && plain(node, to, &count) == CUDA_SUCCESS;
  };
  if (!ask(nullptr, nullptr) || count == 0) return {};
  out.resize(count);
  data.resize(count);
  if (!ask(out.data(), data.data())) return {};
  return out;
}

}  // namespace

CUresult separate(CUstream stream) {
  static auto* const info = driver<CaptureInfo>("cuStreamGetCaptureInfo", 11030);
  static auto* const update = driver<CUresult(CUstream, CUgraphNode*, size_t, unsigned)>(
      "cuStreamUpdateCaptureDependencies", 11030);
  FK_FROM(12000, cuGraphAddEmptyNode);
  if (!info || !update || !cuGraphAddEmptyNode_) return CUDA_ERROR_NOT_FOUND;
  CUstreamCaptureStatus status{};
  CUgraph graph = nullptr;
  const CUgraphNode* last = nullptr;
  size_t count = 0;
  CUresult result = info(stream, &status, nullptr, &graph, &last, &count);
  if (result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_ACTIVE || count == 0)
    return result;
  CUgraphNode node = nullptr;
  result = cuGraphAddEmptyNode_(&node, graph, last, count);
  if (result != CUDA_SUCCESS) return result;
  return update(stream, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

void GraphReader::begin() {
  nodes_.clear();
  marks_.clear();
  facts_.reset();
  threads_ = 0;
}

// A driver promises no order of nodes, but nodes that are new at a mark were captured before it.
void GraphReader::take_new(CUgraph graph) {
  FK_FROM(12000, cuGraphGetNodes);
  size_t count = 0;
  if (!cuGraphGetNodes_ || cuGraphGetNodes_(graph, nullptr, &count) != CUDA_SUCCESS) return;
  std::vector<CUgraphNode> all(count);
  if (count && cuGraphGetNodes_(graph, all.data(), &count) != CUDA_SUCCESS) return;
  const std::unordered_set<CUgraphNode> known(nodes_.begin(), nodes_.end());
  for (CUgraphNode node : all)
    if (!known.count(node)) nodes_.push_back(node);
}

void GraphReader::mark(CUstream stream, GraphMark mark) {
  static auto* const info = driver<CaptureInfo>("cuStreamGetCaptureInfo", 11030);
  CUstreamCaptureStatus status{};
  CUgraph graph = nullptr;
  if (info && info(stream, &status, nullptr, &graph, nullptr, nullptr) == CUDA_SUCCESS &&
      status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
    take_new(graph);
  mark.first = nodes_.size();
  marks_.push_back(std::move(mark));
}

GraphNode GraphReader::read(CUgraphNode node) {
  FK_FROM(12000, cuGraphNodeGetType);
  GraphNode out;
  CUgraphNodeType type{};
  if (!cuGraphNodeGetType_ || cuGraphNodeGetType_(node, &type) != CUDA_SUCCESS) return out;
  out.kind = kind_of(type);
  if (out.kind == GraphNodeKind::kernel) read_kernel(node, out);
  if (out.kind == GraphNodeKind::copy) read_copy(node, out);
  if (out.kind == GraphNodeKind::fill) read_fill(node, out);
  return out;
}

void GraphReader::read_kernel(CUgraphNode node, GraphNode& out) {
  FK_FROM(12000, cuGraphKernelNodeGetParams);
  FK_FROM(12000, cuKernelGetFunction);
  FK_FROM(12030, cuFuncGetName);
  CUDA_KERNEL_NODE_PARAMS p{};
  if (!cuGraphKernelNodeGetParams_ || cuGraphKernelNodeGetParams_(node, &p) != CUDA_SUCCESS) {
    out.kind = GraphNodeKind::unknown;
    return;
  }
  CUfunction function = p.func;
  if (!function && p.kern && cuKernelGetFunction_) (void)cuKernelGetFunction_(&function, p.kern);
  if (!function) return;
  const char* name = nullptr;
  if (cuFuncGetName_ && cuFuncGetName_(&name, function) == CUDA_SUCCESS && name) out.name = name;
  add_parameters(function, p, out.touches);
  if (!facts_) facts_.emplace();
  if (facts_->of_library.empty() && !kernel_of_library(out.name).empty())
    facts_->of_library = out.name;
  const uint64_t block = uint64_t{p.blockDimX} * p.blockDimY * p.blockDimZ;
  const uint64_t threads = block * p.gridDimX * p.gridDimY * p.gridDimZ;
  if (threads <= threads_) return;
  threads_ = threads;
  LaunchFacts& facts = *facts_;
  facts.kernel = out.name;
  facts.registers = attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS);
  facts.local_bytes = attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  facts.shared_bytes =
      attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) + int64_t{p.sharedMemBytes};
  facts.occupancy = occupancy(function, static_cast<int>(block), p.sharedMemBytes);
}

std::string GraphReader::audit(CUgraph graph, const std::vector<MemoryRange>& known) {
  take_new(graph);
  facts_.reset();
  threads_ = 0;
  std::vector<GraphNode> nodes;
  std::unordered_map<CUgraphNode, size_t> places;
  for (size_t i = 0; i < nodes_.size(); ++i) places[nodes_[i]] = i;
  int64_t launches = 0;
  for (CUgraphNode node : nodes_) {
    nodes.push_back(read(node));
    for (CUgraphNode before : dependencies(node))
      if (const auto at = places.find(before); at != places.end())
        nodes.back().after.push_back(at->second);
    launches += nodes.back().kind != GraphNodeKind::empty;
  }
  if (launches) facts_.emplace(facts_.value_or(LaunchFacts{})).launches = launches;
  return audit_graph(nodes, marks_, known);
}

}  // namespace fk::cuda
