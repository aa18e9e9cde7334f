# SPDX-License-Identifier: Apache-2.0
"""The ops of the study (docs/study.md) in eager PyTorch: for each its largest `full` case in the contract's dtypes, on `cuda`."""
import torch
import torch.nn.functional as F

BF16, F32, FP8 = torch.bfloat16, torch.float32, torch.float8_e4m3fn
CASES = {}


def rand(*shape, dtype=BF16, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def case(make):
    """Registers the function of an op. It returns slots of the constructor, weights, fields of the call, and PyTorch's function of
    the weights and fields, which returns the outputs in the contract's order or writes in place."""
    CASES[make.__name__] = make
    return make


@case
def rms_norm():
    def eager(w, f):
        f["residual"].add_(f["x"])
        return F.rms_norm(f["residual"], (4096,), w["weight"], 1e-5)
    return {"hidden_size": 4096, "eps": 1e-5}, {"weight": rand(4096)}, {"x": rand(8192, 4096), "residual": rand(8192, 4096)}, eager


@case
def layer_norm():
    return ({"hidden_size": 1024}, {"weight": rand(1024), "bias": rand(1024)}, {"x": rand(4096, 1024), "residual": rand(4096, 1024)},
            lambda w, f: F.layer_norm(f["x"] + f["residual"], (1024,), w["weight"], w["bias"], 1e-5))


@case
def group_norm():
    def eager(w, f):  # the image as PyTorch has it: channels_last
        return F.silu(F.group_norm(f["x"].permute(0, 3, 1, 2), 32, w["weight"], w["bias"], 1e-5)).permute(0, 2, 3, 1)
    return {"num_channels": 320, "num_groups": 32, "activation": 2}, {"weight": rand(320), "bias": rand(320)}, {"x": rand(2, 128, 128, 320)}, eager


@case
def global_response_norm():
    def eager(w, f):  # as timm writes it
        x = f["x"]
        size = x.norm(p=2, dim=(1, 2), keepdim=True)
        size = size / (size.mean(dim=-1, keepdim=True) + 1e-6)
        return x + torch.addcmul(w["bias"].view(1, 1, 1, -1), w["weight"].view(1, 1, 1, -1), x * size)
    return ({"hidden_size": 512}, {"weight": rand(512, dtype=F32), "bias": rand(512, dtype=F32)}, {"x": rand(8, 56, 56, 512, dtype=F32)}, eager)


@case
def qk_rms_norm():
    def eager(w, f):
        for name in "q", "k":
            f[name].copy_(F.rms_norm(f[name], (128,), w[f"{name}_weight"], 1e-6))
    qkv = rand(512, 6144)
    return ({"num_heads": 32, "num_kv_heads": 8, "head_dim": 128}, {"q_weight": rand(128), "k_weight": rand(128)},
            {"q": qkv[:, :4096].unflatten(1, (32, 128)), "k": qkv[:, 4096:5120].unflatten(1, (8, 128))}, eager)


@case
def rms_norm_gated():
    return ({"hidden_size": 5120, "group_size": 5120}, {"weight": rand(5120)}, {"x": rand(512, 5120), "z": rand(512, 10576)[:, :5120]},
            lambda w, f: F.rms_norm(f["x"] * F.silu(f["z"]), (5120,), w["weight"], 1e-5))


@case
def silu_and_mul():
    return {"size": 14336}, {}, {"x": rand(8192, 28672)}, lambda w, f: F.silu(f["x"][:, :14336]) * f["x"][:, 14336:]


@case
def gelu():
    return {"size": 4096}, {}, {"x": rand(2048, 4096)}, lambda w, f: F.gelu(f["x"])


@case
def add():
    return {"size": 1024}, {}, {"a": rand(4096, 1024), "b": rand(4096, 1024)}, lambda w, f: f["a"] + f["b"]


@case
def modulate():
    six = rand(1, 6 * 3072)
    return ({"size": 3072}, {}, {"x": rand(1, 4608, 3072), "scale": six[:, :3072], "shift": six[:, 3072:6144]},
            lambda w, f: f["x"] * (1 + f["scale"][:, None]) + f["shift"][:, None])


@case
def softmax():
    return {"size": 16}, {}, {"x": rand(134400, 16)}, lambda w, f: f["x"].softmax(-1)


@case
def rotary_embedding():
    def eager(w, f):  # as transformers writes it
        cos, sin = (part.repeat(1, 2)[:, None].to(BF16) for part in w["cos_sin_cache"][f["positions"]].chunk(2, -1))
        for name in "q", "k":
            x = f[name]
            half = torch.cat((-x[..., 64:], x[..., :64]), -1)
            x.copy_(x * cos + half * sin)
    angle = torch.outer(torch.arange(8192.0), 1e4 ** (-torch.arange(64) / 64)).cuda()
    qkv = rand(8192, 6144)
    return ({"num_heads": 32, "num_kv_heads": 8, "head_dim": 128, "rotary_dim": 128, "max_position": 8192},
            {"cos_sin_cache": torch.cat((angle.cos(), angle.sin()), 1)}, {"positions": torch.randint(8192, (8192,), device="cuda"),
             "q": qkv[:, :4096].unflatten(1, (32, 128)), "k": qkv[:, 4096:5120].unflatten(1, (8, 128))}, eager)


@case
def embedding():
    return ({"num_embeddings": 32000, "embedding_dim": 4096}, {"table": rand(32000, 4096)}, {"ids": torch.randint(32000, (2048,), device="cuda")},
            lambda w, f: F.embedding(f["ids"], w["table"]))


@case
def topk_softmax():
    def eager(w, f):
        weights, ids = f["logits"].softmax(-1).topk(8, -1)
        weights = weights / weights.sum(-1, keepdim=True) * f["expert_scale"][ids]
        return weights, ids.int()
    return {"num_experts": 128, "top_k": 8}, {}, {"logits": rand(4096, 128, dtype=F32), "expert_scale": rand(128, dtype=F32)}, eager


@case
def moe_sum():
    return ({"size": 4096}, {}, {"topk_weights": torch.rand(512, 2, device="cuda"), "x": rand(1024, 4096)},
            lambda w, f: (f["x"].view(512, 2, 4096) * f["topk_weights"].to(BF16)[..., None]).sum(1))


@case
def mean_pool():
    return {"size": 1024}, {}, {"x": rand(8, 24, 24, 1024)}, lambda w, f: f["x"].mean((1, 2))


def quantized(x, columns, power_of_two=False):
    """Tokens in FP8 with a scale for each group of columns, as production code in PyTorch does it."""
    groups = x.unflatten(-1, (-1, columns)).float()
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448
    if power_of_two:
        scale = torch.exp2(torch.ceil(torch.log2(scale)))
    return (groups / scale).clamp(-448, 448).to(FP8).flatten(-2), scale[..., 0]


@case
def quantize_fp8():
    return ({"size": 7168, "group_rows": 1, "group_columns": 128, "power_of_two": 1}, {}, {"x": rand(512, 7168)}, lambda w, f: quantized(f["x"], 128, True))


@case
def causal_conv1d_update():
    def eager(w, f):
        slots = f["state_slots"].long()
        window = torch.cat((f["conv_state"][slots], f["x"][:, None]), 1)
        f["conv_state"][slots] = window[:, 1:]
        return F.silu((window * w["weight"].T).sum(1) + w["bias"])
    return ({"channels": 5376, "kernel_size": 4}, {"weight": rand(5376, 4), "bias": rand(5376)},
            {"x": rand(64, 10576)[:, :5376], "conv_state": rand(80, 3, 5376), "state_slots": torch.randperm(80, device="cuda")[:64].int()}, eager)


@case
def selective_state_update():
    def eager(w, f):
        slots = f["state_slots"].long()
        dt = F.softplus(f["dt"].float() + w["dt_bias"].float())
        state = f["ssm_state"][slots] * torch.exp(dt * w["a"])[..., None, None]
        state = state + (dt[..., None] * f["x"].float())[..., None] * f["b"].float()[:, :, None]
        f["ssm_state"][slots] = state
        return ((state * f["c"].float()[:, :, None]).sum(-1) + f["x"].float() * w["d"].float()[:, None]).to(BF16)
    row = rand(16, 5376)
    return ({"num_heads": 80, "head_dim": 64, "num_groups": 1, "state_size": 128},
            {"a": -torch.rand(80, device="cuda"), "d": rand(80), "dt_bias": rand(80)},
            {"x": row[:, :5120].unflatten(1, (80, 64)), "dt": rand(16, 80), "b": row[:, 5120:5248].unflatten(1, (1, 128)),
             "c": row[:, 5248:].unflatten(1, (1, 128)), "ssm_state": rand(20, 80, 64, 128, dtype=F32),
             "state_slots": torch.randperm(20, device="cuda")[:16].int()}, eager)


@case
def linear():
    return ({"in_features": 4096, "out_features": 14336}, {"weight": rand(14336, 4096, scale=1 / 64)}, {"x": rand(1, 4096)},
            lambda w, f: F.linear(f["x"], w["weight"]))


@case
def gated_mlp():
    def eager(w, f):
        gate, up = F.linear(f["x"], w["gate_up"]).chunk(2, -1)
        return F.linear(F.silu(gate) * up, w["down"])
    return ({"hidden_size": 4096, "intermediate_size": 3584}, {"gate_up": rand(7168, 4096, scale=1 / 64), "down": rand(4096, 3584, scale=1 / 60)},
            {"x": rand(16, 4096)}, eager)


def two_products(hidden, inner, dtype, gates=1):
    return {"fc1": rand(gates * inner, hidden, dtype=dtype, scale=hidden**-0.5), "fc1_bias": rand(gates * inner, dtype=dtype),
            "fc2": rand(hidden, inner, dtype=dtype, scale=inner**-0.5), "fc2_bias": rand(hidden, dtype=dtype)}


@case
def gelu_mlp():
    return ({"hidden_size": 768, "intermediate_size": 3072}, two_products(768, 3072, F32), {"x": rand(64, 768, dtype=F32)},
            lambda w, f: F.linear(F.gelu(F.linear(f["x"], w["fc1"], w["fc1_bias"])), w["fc2"], w["fc2_bias"]))


@case
def global_response_norm_mlp():
    def eager(w, f):
        x = F.gelu(F.linear(f["x"], w["fc1"], w["fc1_bias"]))
        size = x.norm(p=2, dim=(1, 2), keepdim=True)
        size = size / (size.mean(dim=-1, keepdim=True) + 1e-6)
        x = x + torch.addcmul(w["grn_bias"].view(1, 1, 1, -1), w["grn_weight"].view(1, 1, 1, -1), x * size)
        return F.linear(x, w["fc2"], w["fc2_bias"])
    weights = two_products(512, 2048, F32) | {"grn_weight": rand(2048, dtype=F32), "grn_bias": rand(2048, dtype=F32)}
    return {"hidden_size": 512, "intermediate_size": 2048}, weights, {"x": rand(2, 14, 14, 512, dtype=F32)}, eager


@case
def geglu_mlp():
    def eager(w, f):
        gate, up = F.linear(f["x"], w["fc1"], w["fc1_bias"]).chunk(2, -1)
        return F.linear(F.gelu(gate) * up, w["fc2"], w["fc2_bias"])
    return {"hidden_size": 640, "intermediate_size": 2560}, two_products(640, 2560, BF16, gates=2), {"x": rand(8192, 640)}, eager


@case
def squeeze_excite():
    def eager(w, f):
        x = f["x"].permute(0, 3, 1, 2)
        small = F.silu(F.conv2d(x.mean((2, 3), keepdim=True), w["squeeze"], w["squeeze_bias"]))
        return (x * F.conv2d(small, w["excite"], w["excite_bias"]).sigmoid()).permute(0, 2, 3, 1)
    return ({"hidden_size": 912, "squeezed_size": 38},
            {"squeeze": rand(38, 912, 1, 1, dtype=F32, scale=0.03), "squeeze_bias": rand(38, dtype=F32),
             "excite": rand(912, 38, 1, 1, dtype=F32, scale=0.16), "excite_bias": rand(912, dtype=F32)}, {"x": rand(8, 20, 20, 912, dtype=F32)}, eager)


@case
def conv_norm_act():
    def eager(w, f):
        x = F.conv2d(f["x"].permute(0, 3, 1, 2), w["weight"], stride=2, padding=1)
        x = F.batch_norm(x, w["norm_mean"], w["norm_variance"], w["norm_weight"], w["norm_bias"], eps=1e-5)
        return F.relu(x).permute(0, 2, 3, 1)
    norm = {f"norm_{name}": rand(32, dtype=F32) for name in ("weight", "bias", "mean")} | {"norm_variance": torch.rand(32, device="cuda") + 0.5}
    return ({"in_channels": 3, "out_channels": 32, "kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1]},
            {"weight": rand(32, 3, 3, 3, dtype=F32, scale=0.2), **norm}, {"x": rand(4, 256, 256, 3, dtype=F32)}, eager)


@case
def add_rms_norm_quantize():
    def eager(w, f):
        f["residual"].add_(f["x"])
        return quantized(F.rms_norm(f["residual"], (4096,), w["weight"], 1e-5), 4096)
    return ({"hidden_size": 4096, "eps": 1e-5, "group_rows": 1, "group_columns": 4096}, {"weight": rand(4096)}, {"x": rand(512, 4096), "residual": rand(512, 4096)}, eager)


@case
def silu_and_mul_quantize():
    return ({"size": 14336, "group_rows": 1, "group_columns": 14336}, {}, {"x": rand(512, 28672)},
            lambda w, f: quantized(F.silu(f["x"][:, :14336]) * f["x"][:, 14336:], 14336))


@case
def dot_interaction():
    upper = torch.triu_indices(27, 27, 1, device="cuda")

    def eager(w, f):
        every = torch.cat((f["dense"][:, None], f["sparse"]), 1)
        return torch.cat((f["dense"], torch.bmm(every, every.transpose(1, 2))[:, upper[0], upper[1]]), 1)
    return {"num_sparse_features": 26, "size": 64}, {}, {"dense": rand(2048, 64, dtype=F32), "sparse": rand(2048, 26, 64, dtype=F32)}, eager


@case
def encoder_attention():
    def eager(w, f):  # both texts have the same length, as PyTorch's layers want it
        q, k, v = F.linear(f["x"], w["qkv"], w["qkv_bias"]).view(2, 64, 3, 12, 64).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, scale=0.125)
        return F.linear(out.transpose(1, 2).reshape(128, 768), w["o"], w["o_bias"])
    weights = {"qkv": rand(2304, 768, dtype=F32, scale=0.036), "qkv_bias": rand(2304, dtype=F32), "o": rand(768, 768, dtype=F32, scale=0.036), "o_bias": rand(768, dtype=F32)}
    fields = {"x": rand(128, 768, dtype=F32), "cu_seqlens": torch.tensor([0, 64, 128], dtype=torch.int32, device="cuda"), "max_seqlen": 64}
    return {"hidden_size": 768, "num_heads": 12, "head_dim": 64, "scale": 0.125}, weights, fields, eager


@case
def low_rank_cross():
    def eager(w, f):
        x = f["x"]
        for v, up, bias in zip(w["v"], w["w"], w["bias"]):
            x = f["x"] * F.linear(F.linear(x, v), up, bias) + x
        return x
    many = lambda *shape: [rand(*shape, scale=shape[-1] ** -0.5) for _ in range(3)]
    return {"num_layers": 3, "size": 3456, "low_rank": 512}, {"v": many(512, 3456), "w": many(3456, 512), "bias": many(3456)}, {"x": rand(256, 3456)}, eager


@case
def bert_embedding():
    ids = lambda count: torch.randint(count, (1024,), device="cuda")
    weights = {name: rand(rows, 768, dtype=F32) for name, rows in (("word", 30522), ("position", 512), ("type", 2))}
    return ({"vocab_size": 30522, "hidden_size": 768, "max_position": 512, "type_vocab_size": 2},
            weights | {"norm_weight": rand(768, dtype=F32), "norm_bias": rand(768, dtype=F32)}, {"ids": ids(30522), "positions": ids(512), "types": ids(2)},
            lambda w, f: F.layer_norm(w["word"][f["ids"]] + w["position"][f["positions"]] + w["type"][f["types"]], (768,), w["norm_weight"], w["norm_bias"], 1e-12))
