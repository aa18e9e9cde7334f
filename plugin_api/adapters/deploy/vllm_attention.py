# SPDX-License-Identifier: Apache-2.0
"""vLLM's attention backend CUSTOM: FlashAttention's cache and metadata, and the attention of this package. vLLM 0.26.0
keeps keys and values of a token side by side, [pages, heads, slots, 2 * width]; both halves are views here."""
import torch
from vllm.v1.attention.backend import AttentionCGSupport, AttentionType
from vllm.v1.attention.backends.flash_attn import (FlashAttentionBackend, FlashAttentionImpl,
                                                   FlashAttentionMetadataBuilder)

from . import about, ops, ops_module

ATTENTION = ops_module.PLUGIN["paged_attention"]
APPENDS = "kv_cache_append" in about["ops"]
# Arguments of captured calls, by tokens and requests: build() plans them again before a replay.
captured = {}


def halves(kv_cache, width):
    return kv_cache.transpose(1, 2).split(width, dim=-1)


def plan(arguments, metadata):
    starts, lengths = metadata.fk_host
    host = {"cu_seqlens": starts.to(torch.int32), "seq_lens": lengths.to(torch.int32)}
    ops.paged_attention_plan(**{**arguments, **host})


class FkAttentionBuilder(FlashAttentionMetadataBuilder):
    # The levels of the claim are vLLM's.
    _cudagraph_support = AttentionCGSupport(ATTENTION.claims.graph)

    def __init__(self, *values, **keywords):
        super().__init__(*values, **keywords)
        self.aot_schedule = False

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        metadata = super().build(0, common_attn_metadata, fast_build)
        if ATTENTION.table.plan:
            requests = metadata.seq_lens.shape[0]
            lengths = common_attn_metadata.seq_lens_cpu_upper_bound
            if lengths is None:
                lengths = metadata.seq_lens.cpu()
            metadata.fk_host = common_attn_metadata.query_start_loc_cpu[:requests + 1], lengths[:requests]
            metadata.fk_planned = set()
            for arguments in captured.get((metadata.num_actual_tokens, requests), {}).values():
                plan(arguments, metadata)
        return metadata

    def use_cascade_attention(self, *values, **keywords):
        return False


class FkAttentionImpl(FlashAttentionImpl):
    def __init__(self, *values, **keywords):
        super().__init__(*values, **keywords)
        if self.alibi_slopes is not None:
            raise NotImplementedError(f"{about['name']}: paged_attention has no ALiBi slopes")
        if self.sinks is not None:
            self.fk_sinks = self.sinks.float()

    def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping):
        if not APPENDS:
            return super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)
        tokens = slot_mapping.shape[0]
        ops.kv_cache_append(key[:tokens], value[:tokens], *halves(kv_cache, self.head_size), slot_mapping)

    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, output_scale=None,
                output_block_scale=None):
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError(f"{about['name']}: paged_attention has no quantised output")
        if attn_metadata is None:  # vLLM measures memory
            return output.fill_(0)
        meta, tokens = attn_metadata, attn_metadata.num_actual_tokens
        k_cache, v_cache = halves(kv_cache, self.head_size)
        window = self.sliding_window[0] + 1
        arguments = {
            "q": query[:tokens], "k_cache": k_cache, "v_cache": v_cache, "block_tables": meta.block_table[:meta.seq_lens.shape[0]],
            "cu_seqlens": meta.query_start_loc, "seq_lens": meta.seq_lens,
            "sinks": self.fk_sinks if self.sinks is not None else None, "scale": self.scale, "window": max(window, 0),
            "softcap": float(self.logits_soft_cap), "causal": bool(meta.causal), "max_query_len": meta.max_query_len,
            "max_seq_len": meta.max_seq_len}
        out = output[:tokens].view(tokens, self.num_heads, self.head_size)
        if not ATTENTION.table.plan:
            ops.paged_attention.out(out=out, **arguments)
            return output
        # Layers that differ in nothing but their cache share a plan.
        same = (window, None if self.sinks is None else self.fk_sinks.data_ptr())
        if torch.cuda.is_current_stream_capturing():
            captured.setdefault((tokens, meta.seq_lens.shape[0]), {})[same] = arguments
        elif same not in meta.fk_planned:
            plan(arguments, meta)
            meta.fk_planned.add(same)
        ops.paged_attention.out(out=out, planned=True, **arguments)
        return output


class FkAttentionBackend(FlashAttentionBackend):
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_name():
        return "CUSTOM"

    @staticmethod
    def get_impl_cls():
        return FkAttentionImpl

    @staticmethod
    def get_builder_cls():
        return FkAttentionBuilder

    @classmethod
    def supports_attn_type(cls, attn_type):
        return attn_type == AttentionType.DECODER

    @classmethod
    def supports_kv_cache_dtype(cls, kv_cache_dtype):
        return kv_cache_dtype in (None, "auto", "float16", "bfloat16")

    @classmethod
    def supports_mm_prefix(cls):
        return False

    @classmethod
    def supports_sink(cls):
        return True

    @classmethod
    def supports_batch_invariance(cls):
        return bool(ATTENTION.claims.batch_invariant)
