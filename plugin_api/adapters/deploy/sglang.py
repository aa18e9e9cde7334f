# SPDX-License-Identifier: Apache-2.0
"""Puts the ops of this package into SGLang 0.5.23. SGLang calls register() in each of its processes, through the entry
point group sglang.srt.plugins. FK_SGLANG_OPS (comma separated) limits it to some of the ops."""
import os

from . import about, ops

VERSION = "0.5.23"  # names and signatures below are those of this release
done = []


def rows_of(x):
    return x.reshape(-1, x.shape[-1]).contiguous()


def norm(hooks, replace):
    from sglang.srt.layers.layernorm import RMSNorm

    class FkRMSNorm(RMSNorm):
        def forward_cuda(self, x, residual=None, post_residual_addition=None, quant_linear=None):
            # SGLang keeps the calls that the contract lacks: parts of the axis, another rounding, quantised outputs.
            other = (self.variance_size_override is not None or self.cast_x_before_out_mul or self._quant_linear
                     or quant_linear or post_residual_addition is not None
                     or (residual is not None and not residual.is_contiguous()))
            if other or x.numel() == 0:
                return super().forward_cuda(x, residual, post_residual_addition, quant_linear)
            weight, eps = self.weight.data, self.variance_epsilon
            if residual is None:
                return ops.rms_norm(rows_of(x), weight, eps=eps).view(x.shape)
            flat = residual.view(-1, residual.shape[-1])
            return ops.rms_norm.update(rows_of(x), flat, weight, eps=eps).view(x.shape), residual

    hooks.register("sglang.srt.layers.layernorm.RMSNorm", FkRMSNorm, replace)


def activation(hooks, replace):
    from sglang.srt.layers.activation import SiluAndMul

    class FkSiluAndMul(SiluAndMul):
        def forward_cuda(self, x):
            return ops.silu_and_mul(rows_of(x)).view(*x.shape[:-1], x.shape[-1] // 2)

    hooks.register("sglang.srt.layers.activation.SiluAndMul", FkSiluAndMul, replace)


def rotary(hooks, replace):
    """SGLang may cast its table to the model's dtype, the contract's is float32: a second table is kept."""
    from sglang.srt.layers.rotary_embedding.base import RotaryEmbedding

    class FkRotaryEmbedding(RotaryEmbedding):
        def __init__(self, *values, **keywords):
            super().__init__(*values, **keywords)
            self._supports_bf16_rope_store = False
            self.register_buffer("fk_table", self._compute_cos_sin_cache().float().contiguous(), persistent=False)

        def forward_cuda(self, positions, query, key, offsets=None, fused_set_kv_buffer_arg=None):
            if offsets is not None or fused_set_kv_buffer_arg is not None:
                return super().forward_cuda(positions, query, key, offsets, fused_set_kv_buffer_arg)
            tokens = positions.numel()
            ops.rotary_embedding(positions.flatten().long(), query.view(tokens, -1, self.head_size),
                                 key.view(tokens, -1, self.head_size), self.fk_table, rotary_dim=self.rotary_dim,
                                 interleaved=not self.is_neox_style)
            return query, key

    hooks.register("sglang.srt.layers.rotary_embedding.base.RotaryEmbedding", FkRotaryEmbedding, replace)


def linear(hooks, replace):
    def apply(self, layer, x, bias=None):
        rows = x.reshape(-1, x.shape[-1])
        return ops.linear(rows, layer.weight, bias).view(*x.shape[:-1], layer.weight.shape[0])

    hooks.register("sglang.srt.layers.quantization.unquant.UnquantizedLinearMethod.apply", apply, replace)


PARTS = {"rms_norm": norm, "silu_and_mul": activation, "rotary_embedding": rotary, "linear": linear}


def register():
    import sglang
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    if sglang.__version__.split("+")[0] != VERSION:
        raise RuntimeError(f"{about['name']} is made for SGLang {VERSION}; this is {sglang.__version__}")
    if done:
        return
    known = [name for name in PARTS if name in about["ops"]]
    wanted = [name for name in os.environ.get("FK_SGLANG_OPS", "").split(",") if name] or known
    for name in wanted:
        if name not in known:
            raise RuntimeError(f"FK_SGLANG_OPS: {about['name']} has no `{name}` for SGLang; it has {', '.join(known)}")
    for name in wanted:
        PARTS[name](HookRegistry, HookType.REPLACE)
        done.append(name)
