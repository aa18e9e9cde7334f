# SPDX-License-Identifier: Apache-2.0
"""The points of vLLM 0.26.0 at which a package registers, small and on a CPU. Names, signatures and checks are those that
the release has; the layers behind them are made for this test. A GPU with the release itself has the last word."""
import enum
import importlib
import inspect
import sys
import types

import torch
from torch import Tensor, nn


def module(name, **members):
    made = types.ModuleType(name)
    made.__path__ = []
    made.__dict__.update(members)
    sys.modules[name] = made
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules.get(parent) or module(parent), child, made)
    return made


class IrOp:
    """register_impl wants the native schema, and the native names and defaults in supports_args."""

    def __init__(self, native, inplace=False):
        self.native, self.allow_inplace, self.impls = native, inplace, {}
        self.schema = torch.library.infer_schema(native, mutates_args=[])

    def register_impl(self, provider, *, supported=True, supports_args=None, inplace=False):
        def register(function):
            assert provider not in self.impls and provider not in ("native", "unfused")
            assert torch.library.infer_schema(function, mutates_args=[]) == self.schema, "another schema"
            ours, theirs = (inspect.signature(f).parameters for f in (supports_args, self.native))
            assert [(p.name, p.default) for p in ours.values()] == [(p.name, p.default) for p in theirs.values()]
            assert self.allow_inplace or not inplace
            self.impls[provider] = types.SimpleNamespace(call=function, takes=supports_args, inplace=inplace)
            return self.impls[provider]
        return register


def rms_norm(x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None) -> Tensor:
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + epsilon)
    return (y if weight is None else y.to(weight.dtype) * weight).to(x.dtype)


def fused_add_rms_norm(x: Tensor, x_residual: Tensor, weight: Tensor | None, epsilon: float,
                       variance_size: int | None = None) -> tuple[Tensor, Tensor]:
    total = (x.float() + x_residual.float()).to(x.dtype)
    return rms_norm(total, weight, epsilon), total


replaced = {}


class CustomOp(nn.Module):
    """A class is exchanged when it is instantiated, by its name. On a CPU forward_cpu runs."""

    def __new__(cls, *values, **keywords):
        return super().__new__(replaced.get(cls.__name__, cls))

    def forward(self, *values, **keywords):
        return self.forward_cpu(*values, **keywords)

    @classmethod
    def register_oot(cls, made=None, name=None):
        def register(made):
            made.name = name or cls.__name__
            assert made.name not in replaced
            replaced[made.name] = made
            return made
        return register if made is None else register(made)


class SiluAndMul(CustomOp):
    name = "silu_and_mul"

    def forward_cuda(self, x):
        half = x.shape[-1] // 2
        return nn.functional.silu(x[..., :half]) * x[..., half:]

    forward_cpu = forward_cuda


class RotaryEmbedding(CustomOp):
    name = "rotary_embedding"

    def __init__(self, head_size, rotary_dim, max_position_embeddings, base, is_neox_style, dtype, init_cache=True):
        super().__init__()
        self.head_size, self.rotary_dim, self.is_neox_style = head_size, rotary_dim, is_neox_style
        self.positions, self.base = max_position_embeddings, base
        self.register_buffer("cos_sin_cache", self._compute_cos_sin_cache().to(dtype), persistent=False)

    def _compute_cos_sin_cache(self):
        inverse = 1.0 / self.base ** (torch.arange(0, self.rotary_dim, 2, dtype=torch.float) / self.rotary_dim)
        angles = torch.outer(torch.arange(self.positions, dtype=torch.float), inverse)
        return torch.cat((angles.cos(), angles.sin()), -1)

    def forward_cuda(self, positions, query, key=None):
        cos, sin = self.cos_sin_cache[positions].float().chunk(2, -1)

        def turned(x):
            heads = x.view(len(positions), -1, self.head_size).float()
            a, b = heads[..., :self.rotary_dim].chunk(2, -1)
            c, s = cos[:, None], sin[:, None]
            return torch.cat((a * c - b * s, b * c + a * s, heads[..., self.rotary_dim:]), -1).to(x.dtype).view(x.shape)
        return turned(query), None if key is None else turned(key)

    forward_cpu = forward_cuda


class MoEActivation(enum.Enum):
    SILU = "silu"
    GELU = "gelu"


class UnquantizedMoeBackend(enum.Enum):
    TRITON = "TRITON"
    FLASHINFER_CUTLASS = "FLASHINFER_CUTLASS"


class TritonExperts:
    def __init__(self):
        self.quant_config = types.SimpleNamespace(gemm1_clamp_limit=None)


class UnquantizedFusedMoEMethod(CustomOp):
    name = "unquantized_fused_moe"

    def __init__(self, moe):
        super().__init__()
        self.unquantized_backend, self.experts_cls = moe, TritonExperts


class AttentionBackendEnum(enum.Enum):
    FLASH_ATTN = "flash"
    CUSTOM = None


class AttentionCGSupport(enum.Enum):
    ALWAYS, UNIFORM_BATCH, UNIFORM_SINGLE_TOKEN_DECODE, NEVER = 3, 2, 1, 0


class AttentionType(str, enum.Enum):
    DECODER = "decoder"
    ENCODER = "encoder"


class FlashAttentionMetadataBuilder:
    def __init__(self, *values):
        self.aot_schedule = True

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        c = common_attn_metadata
        return types.SimpleNamespace(
            num_actual_tokens=c.num_actual_tokens, max_query_len=c.max_query_len, query_start_loc=c.query_start_loc,
            max_seq_len=c.max_seq_len, seq_lens=c.seq_lens, block_table=c.block_table_tensor,
            slot_mapping=c.slot_mapping, causal=True, use_cascade=common_prefix_len > 0)


class FlashAttentionImpl:
    def __init__(self, num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window, kv_cache_dtype,
                 logits_soft_cap=None, attn_type="decoder", kv_sharing_target_layer_name=None, sinks=None):
        self.num_heads, self.head_size, self.scale, self.num_kv_heads = num_heads, head_size, scale, num_kv_heads
        self.alibi_slopes, self.sinks, self.logits_soft_cap = alibi_slopes, sinks, logits_soft_cap or 0
        self.sliding_window = (-1, -1) if sliding_window is None else (sliding_window - 1, 0)


overrides = {}


def register_backend(backend, class_path=None, is_mamba=False):
    overrides[backend] = class_path


def install(version="0.26.0"):
    vllm = module("vllm", __version__=version)
    norm, added = IrOp(rms_norm), IrOp(fused_add_rms_norm, inplace=True)
    vllm.ir = module("vllm.ir", ops=types.SimpleNamespace(rms_norm=norm, fused_add_rms_norm=added))
    layers = "vllm.model_executor.layers"
    module("vllm.model_executor")
    module(layers)
    module(f"{layers}.activation", SiluAndMul=SiluAndMul)
    module(f"{layers}.rotary_embedding", RotaryEmbedding=RotaryEmbedding)
    for name in ("linear", "vocab_parallel_embedding"):
        module(f"{layers}.{name}", dispatch_unquantized_gemm=lambda: lambda layer, x, w, b=None: x @ w.t())
    moe = f"{layers}.fused_moe"
    module(moe)
    module(f"{moe}.activation", MoEActivation=MoEActivation)
    module(f"{moe}.experts")
    module(f"{moe}.experts.triton_moe", TritonExperts=TritonExperts)
    module(f"{moe}.oracle")
    module(f"{moe}.oracle.unquantized", UnquantizedMoeBackend=UnquantizedMoeBackend)
    module(f"{moe}.unquantized_fused_moe_method", UnquantizedFusedMoEMethod=UnquantizedFusedMoEMethod)
    module("vllm.v1")
    module("vllm.v1.attention")
    module("vllm.v1.attention.backend", AttentionCGSupport=AttentionCGSupport, AttentionType=AttentionType)
    module("vllm.v1.attention.backends")
    module("vllm.v1.attention.backends.registry", AttentionBackendEnum=AttentionBackendEnum,
           register_backend=register_backend)
    module("vllm.v1.attention.backends.flash_attn", FlashAttentionImpl=FlashAttentionImpl,
           FlashAttentionBackend=type("FlashAttentionBackend", (), {}),
           FlashAttentionMetadataBuilder=FlashAttentionMetadataBuilder)
    importlib.invalidate_caches()
    return vllm
