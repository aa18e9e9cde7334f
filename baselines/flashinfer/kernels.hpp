// SPDX-License-Identifier: Apache-2.0
// The interface between this provider's ops and FlashInfer's attention templates. FA2 and FA3
// declare the same names and have translation units of their own, so they share only these plain
// types. Strides are in elements.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace fkf {

struct Cache {
  const void* data;
  int64_t page, slot, head;  // strides
};

// Keys and values are pages, which `tables` [requests, width] lists. Without tables they are the
// rows of one matrix, in which request r starts at k_starts[r].
struct Attention {
  const void* q;
  void* out;
  int64_t q_token, q_head;  // strides; out is dense
  Cache k, v;
  int64_t tokens, pages, key_tokens;  // limits of q, of the cache, of the matrix
  const int32_t *tables, *q_starts, *k_starts, *lengths;
  int requests, width, page_size, heads, kv_heads, window;
  float scale, softcap;
  cudaStream_t stream;
  // Mask::tree: the number of a request's last positions which are nodes; the visible nodes of each
  // query token; and the numbers of a token's mask.
  const int32_t *tree_lengths, *tree_mask;
  int tree_width;
};
enum class Mask { none, causal, tree };

// FA2: a block is 16 or 64 rows of one request (query token, head of the group) times a part of its
// keys.
struct Blocks {
  int count;  // blocks of the grid; some may be invalid
  const int32_t *request, *tile, *part,
      *first_part;  // by block; by request: where its parts are in `partial`
  const uint8_t* valid;
  const int32_t* part_keys;  // one number: keys of a part
  const int32_t* merge;      // by query token: its first part; null: one part each, written to out
  const uint32_t* tokens;    // one number: query tokens with work
  const int32_t* page_starts;  // by request: requests before it times width
  void* partial;
  float* partial_lse;
};
using split_attention = void (*)(const Attention&, const Blocks&);

// FA3: persistent blocks; block b does tiles[bounds[b]] to tiles[bounds[b + 1]].
struct Tile {
  int32_t request;
  int32_t where;  // query tile << 8 | head
};
struct Tiles {
  int blocks;
  const int32_t* bounds;
  const Tile* tiles;
};
using dense_attention = void (*)(const Attention&, const Tiles&);
constexpr int dense_rows(int64_t head_dim) {
  return head_dim == 64 ? 192 : 128;
}  // query tokens of a tile
constexpr int kPiece = 16;  // rows of a page which FA3 loads at once; smaller pages must have 8

template <class T, int D, int Rows, Mask M>
void split(const Attention&, const Blocks&);
template <class T, int D, bool Causal, bool Window>
void dense(const Attention&, const Tiles&);

// Latent attention (MLA): all heads see the same keys, so the rows of a tile are heads of query
// tokens. Row = token of the request * heads + head.
constexpr int kLatent = 512, kRotary = 64, kLatentRows = 64;  // rows of one block
struct LatentAttention {
  const void *q_latent, *q_pe, *cache;
  void* out;
  int64_t q_latent_token, q_latent_head, q_pe_token, q_pe_head, page,
      slot;  // strides; out is dense
  const int32_t* tables;
  int width, page_size, heads;
  float scale;
  cudaStream_t stream;
};
// Teams of one or two persistent blocks. Each block has its rows of the team's tile. Team t does
// items bounds[t] to bounds[t + 1].
struct LatentWork {
  int per_tile, teams;
  const int32_t* bounds;
  // By item: the request, its first query token, its numbers of query tokens and keys. Also the
  // tile's first row, the keys of this part, and the first row in `partial`. An item with
  // partial_row -1 has all keys and writes to out.
  const int32_t *request, *q_first, *queries, *keys, *row, *key_first, *key_end, *partial_row;
  // By block: rows of out (token * heads + head) to merge. Their parts have a first, an end, and a
  // distance between the parts of a row.
  const int32_t *merge_row, *merge_end, *parts_row, *parts_end, *parts_stride;
  void* partial;
  float* partial_lse;
};

template <class T>
void latent_attention(const LatentAttention&, const LatentWork&);

}  // namespace fkf
