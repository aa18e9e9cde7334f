#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sglang_package.py FK_HOST: what a package registers in SGLang 0.5.23, on a CPU. The stand-in below has the names and
signatures of that release's hooks and layers. The package is the one for torch, because SGLang runs on a GPU alone. Exit
77: torch is missing."""
import enum, importlib, pathlib, shutil, subprocess, sys, tempfile, zipfile

try:
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: Python has no {missing.name}")
    sys.exit(77)

from vllm_stand_in import module
ADAPTERS = pathlib.Path(__file__).resolve().parents[2] / "plugin_api/adapters/deploy"
hooks = {}


class HookType(enum.Enum):
    REPLACE = "replace"


class HookRegistry:
    @classmethod
    def register(cls, target, hook, hook_type=None, *, source=None):
        assert hook_type is HookType.REPLACE and target not in hooks
        hooks[target] = hook


class RMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6, var_hidden_size=None):
        super().__init__()
        self.weight, self.variance_epsilon, self.cast_x_before_out_mul = nn.Parameter(torch.randn(hidden_size)), eps, False
        self.variance_size_override, self._quant_linear = var_hidden_size, None

    def forward_cuda(self, x, residual=None, post_residual_addition=None, quant_linear=None):
        return "SGLang's own"


class SiluAndMul(nn.Module):
    pass


class RotaryEmbedding(nn.Module):
    def __init__(self, head_size, rotary_dim, max_position_embeddings, base, is_neox_style, dtype):
        super().__init__()
        self.head_size, self.rotary_dim, self.is_neox_style, self.base = head_size, rotary_dim, is_neox_style, base
        self.positions = max_position_embeddings

    def _compute_cos_sin_cache(self):
        inverse = 1.0 / self.base ** (torch.arange(0, self.rotary_dim, 2, dtype=torch.float) / self.rotary_dim)
        angles = torch.outer(torch.arange(self.positions, dtype=torch.float), inverse)
        return torch.cat((angles.cos(), angles.sin()), -1)

    def forward_cuda(self, positions, query, key, offsets=None, fused_set_kv_buffer_arg=None):
        return "SGLang's own"


def close(ours, theirs, what):
    error = (ours - theirs).abs().max().item()
    assert ours.shape == theirs.shape and error < 1e-5, f"{what}: {ours.shape}, off by {error}"


def try_layers():
    x, residual = torch.randn(2, 3, 64), torch.randn(2, 3, 64)
    norm = hooks["sglang.srt.layers.layernorm.RMSNorm"](64, 1e-5)
    expect = lambda y: nn.functional.rms_norm(y, (64,), norm.weight, 1e-5)
    close(norm.forward_cuda(x), expect(x), "rms_norm")
    total = x + residual
    out = norm.forward_cuda(x, residual)
    close(out[0], expect(total), "rms_norm with a residual")
    close(out[1], total, "the residual")
    assert norm.forward_cuda(x, residual, post_residual_addition=x) == "SGLang's own"
    silu = hooks["sglang.srt.layers.activation.SiluAndMul"]()
    close(silu.forward_cuda(x), nn.functional.silu(x[..., :32]) * x[..., 32:], "silu_and_mul")
    rope = hooks["sglang.srt.layers.rotary_embedding.base.RotaryEmbedding"](16, 16, 50, 1e4, True, torch.bfloat16)
    positions, query, key = torch.tensor([0, 9, 49]), torch.randn(3, 32), torch.randn(3, 16)
    cos, sin = rope.fk_table[positions].chunk(2, -1)
    a, b = key.clone().chunk(2, -1)
    assert rope.forward_cuda(positions, query, key)[1] is key
    close(key, torch.cat((a * cos - b * sin, b * cos + a * sin), -1), "rotary_embedding")
    assert rope.forward_cuda(positions, query, key, offsets=positions) == "SGLang's own"
    layer = nn.Linear(64, 5)
    apply = hooks["sglang.srt.layers.quantization.unquant.UnquantizedLinearMethod.apply"]
    close(apply(None, layer, x, layer.bias), layer(x), "linear")


def main():
    sglang = module("sglang", __version__="0.5.22")
    for name in ("srt", "srt.plugins", "srt.layers", "srt.layers.rotary_embedding"):
        module(f"sglang.{name}")
    module("sglang.srt.plugins.hook_registry", HookRegistry=HookRegistry, HookType=HookType)
    module("sglang.srt.layers.layernorm", RMSNorm=RMSNorm)
    module("sglang.srt.layers.activation", SiluAndMul=SiluAndMul)
    module("sglang.srt.layers.rotary_embedding.base", RotaryEmbedding=RotaryEmbedding)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run([sys.argv[1], "package", "reference", "--for", "torch", "--out", folder / "out"], check=True,
                       stdout=subprocess.DEVNULL)
        (wheel,) = (folder / "out").glob("*.whl")
        zipfile.ZipFile(wheel).extractall(folder)
        shutil.copy(ADAPTERS / "sglang.py", folder / "fk_reference")
        sys.path.insert(0, str(folder))
        package = importlib.import_module("fk_reference.sglang")
        try:
            package.register()
            raise AssertionError("another version was accepted")
        except RuntimeError as error:
            assert "is made for SGLang 0.5.23; this is 0.5.22" in str(error), error
        sglang.__version__ = package.VERSION
        package.register()
        package.register()
        with torch.no_grad():
            try_layers()
    print("rms_norm, silu_and_mul, rotary_embedding, linear: right in the stand-in of SGLang 0.5.23")


if __name__ == "__main__":
    main()
