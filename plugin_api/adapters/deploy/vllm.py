# SPDX-License-Identifier: Apache-2.0
"""Puts the ops of this package into vLLM 0.26.0. vLLM calls register() in each of its processes, through the entry point
group vllm.general_plugins. FK_VLLM_OPS (comma separated) limits it to some of the ops."""
import os

import torch
from torch import Tensor

from . import about, ops

VERSION = "0.26.0"  # names and signatures below are those of this release
done = []
kept = []


def rows_of(x):
    return x if x.dim() == 2 and x.is_contiguous() else x.reshape(-1, x.shape[-1]).contiguous()


def norms():
    """vLLM IR: chosen by --ir-op-priority. The sum with the residual is a second op of vLLM and one call here."""
    from vllm import ir

    norm, norm_of_sum = ops.rms_norm.default, ops.rms_norm.update  # a chosen overload costs a call less time

    def takes(x, weight, epsilon, variance_size=None):
        return variance_size is None

    @ir.ops.rms_norm.register_impl(about["name"], supports_args=takes)
    def rms_norm(x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None) -> Tensor:
        return norm(rows_of(x), weight, eps=epsilon).view(x.shape)

    def takes_sum(x, x_residual, weight, epsilon, variance_size=None):
        return variance_size is None and x_residual.is_contiguous()

    @ir.ops.fused_add_rms_norm.register_impl(about["name"], supports_args=takes_sum, inplace=True)
    def fused_add_rms_norm(x: Tensor, x_residual: Tensor, weight: Tensor | None, epsilon: float,
                           variance_size: int | None = None) -> tuple[Tensor, Tensor]:
        residual = x_residual.view(-1, x_residual.shape[-1])
        return norm_of_sum(rows_of(x), residual, weight, eps=epsilon).view(x.shape), x_residual


def replace(original, **members):
    """A subclass in place of a CustomOp of vLLM. register_oot renames it, but users enable the original's name."""
    made = type("Fk" + original.__name__, (original,), {**members, "forward_cpu": members["forward_cuda"]})
    original.register_oot(made)
    made.name = original.name


def activation():
    from vllm.model_executor.layers.activation import SiluAndMul

    gate = ops.silu_and_mul.default

    def forward_cuda(self, x):
        return gate(rows_of(x)).view(*x.shape[:-1], x.shape[-1] // 2)

    replace(SiluAndMul, forward_cuda=forward_cuda)


def rotary():
    """vLLM's table of cosines has the model's dtype, the contract's is float32: a second table is kept."""
    from vllm.model_executor.layers import rotary_embedding as layers

    rotate = ops.rotary_embedding.default

    def init(self, *values, **keywords):
        super(type(self), self).__init__(*values, **keywords)
        self.register_buffer("fk_table", self._compute_cos_sin_cache().float().contiguous(), persistent=False)

    def forward_cuda(self, positions, query, key=None):
        if key is None:  # a layer that shares the keys of another one
            return super(type(self), self).forward_cuda(positions, query, key)
        tokens = positions.numel()
        rotate(positions.flatten(), query.view(tokens, -1, self.head_size), key.view(tokens, -1, self.head_size),
               self.fk_table, rotary_dim=self.rotary_dim, interleaved=not self.is_neox_style)
        return query, key

    for name in ("RotaryEmbedding", "Llama3RotaryEmbedding", "YaRNScalingRotaryEmbedding"):
        if hasattr(layers, name):
            replace(getattr(layers, name), __init__=init, forward_cuda=forward_cuda)


def linear():
    """The layers look this function up in their modules in each call. A plugin may refuse many rows: vLLM's own product
    takes these calls. The choice is made inside an op, because torch.compile traces without a number of rows."""
    from vllm.model_executor.layers import linear as layers
    from vllm.model_executor.layers import vocab_parallel_embedding as heads

    refused = {}  # by shape of the weight: the fewest rows that the plugin refused
    library = torch.library.Library(f"{about['name']}_vllm", "FRAGMENT")
    kept.append(library)  # its ops end with it
    library.define("linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor")

    def choose(x, weight, bias):
        most = refused.get(weight.shape)
        if most is None or x.shape[0] < most:
            try:
                return ops.linear(x, weight, bias)
            except RuntimeError as error:
                if "the plugin refuses the call" not in str(error):
                    raise
                refused[weight.shape] = x.shape[0]
        return torch.nn.functional.linear(x, weight, bias)

    for key in ("CUDA", "CPU"):
        library.impl("linear", choose, key)
    torch.library.register_fake(f"{about['name']}_vllm::linear",
                                lambda x, weight, bias=None: x.new_empty(x.shape[0], weight.shape[0]), lib=library)
    chosen = getattr(torch.ops, f"{about['name']}_vllm").linear

    def product(layer, x, weight, bias=None):
        rows = rows_of(x)
        return chosen(rows, weight, bias).view(*x.shape[:-1], weight.shape[0])

    for module in (layers, heads):
        module.dispatch_unquantized_gemm = lambda: product


def attention():
    """--attention-backend CUSTOM chooses it."""
    if about["device"] == "cpu":
        raise RuntimeError(f"{about['name']}: vLLM's attention on a CPU has another cache layout; leave "
                           "paged_attention out of FK_VLLM_OPS")
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    register_backend(AttentionBackendEnum.CUSTOM, f"{__package__}.vllm_attention.FkAttentionBackend")


def experts():
    """The modular experts of unquantized layers. Weights have to be as the checkpoint has them, which the Triton backend
    leaves them."""
    from vllm.model_executor.layers.fused_moe.activation import MoEActivation
    from vllm.model_executor.layers.fused_moe.experts.triton_moe import TritonExperts
    from vllm.model_executor.layers.fused_moe.oracle.unquantized import UnquantizedMoeBackend
    from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod

    class FkExperts(TritonExperts):
        def apply(self, output, hidden_states, w1, w2, topk_weights, topk_ids, activation, global_num_experts,
                  expert_map, a1q_scale, a2_scale, workspace13, workspace2, expert_tokens_meta,
                  apply_router_weight_on_input):
            known = {"expert_map": expert_map is None, "activation": activation == MoEActivation.SILU,
                     "apply_router_weight_on_input": not apply_router_weight_on_input,
                     "a1q_scale": a1q_scale is None,
                     "bias": getattr(self, "w1_bias", None) is None and getattr(self, "w2_bias", None) is None,
                     "gemm1_clamp_limit": getattr(self.quant_config, "gemm1_clamp_limit", None) is None}
            unknown = [name for name, fits in known.items() if not fits]
            if unknown:
                raise RuntimeError(f"{about['name']}: fused_moe does not take this layer's {', '.join(unknown)}; leave "
                                   "fused_moe out of FK_VLLM_OPS")
            ops.fused_moe.out(hidden_states, topk_weights.float(), topk_ids.to(torch.int32), w1, w2, output)

    class FkUnquantizedFusedMoEMethod(UnquantizedFusedMoEMethod):
        def __init__(self, moe):
            super().__init__(moe)
            if self.unquantized_backend != UnquantizedMoeBackend.TRITON:
                raise RuntimeError(f"{about['name']}: vLLM repacks the experts' weights for "
                                   f"{self.unquantized_backend.value}; start it with --moe-backend triton")
            self.experts_cls = FkExperts

    UnquantizedFusedMoEMethod.register_oot(FkUnquantizedFusedMoEMethod)
    FkUnquantizedFusedMoEMethod.name = UnquantizedFusedMoEMethod.name


PARTS = {"rms_norm": norms, "silu_and_mul": activation, "rotary_embedding": rotary, "linear": linear,
         "paged_attention": attention, "fused_moe": experts}


def register():
    import vllm

    if vllm.__version__.split("+")[0] != VERSION:
        raise RuntimeError(f"{about['name']} is made for vLLM {VERSION}; this is {vllm.__version__}")
    if done:  # vLLM may call again
        return
    known = [name for name in PARTS if name in about["ops"]]
    wanted = [name for name in os.environ.get("FK_VLLM_OPS", "").split(",") if name] or known
    for name in wanted:
        if name not in known:
            raise RuntimeError(f"FK_VLLM_OPS: {about['name']} has no `{name}` for vLLM; it has {', '.join(known)}")
    for name in wanted:
        PARTS[name]()
        done.append(name)
