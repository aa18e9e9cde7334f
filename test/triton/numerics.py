#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""numerics.py FK_HOST SOURCE_DIR [SEED]: templates in Triton give right values: Triton's interpreter runs them on the CPU, and PyTorch is the reference.

Exit code 77 without Triton, NumPy or PyTorch: nothing was tested.
"""
import os
import pathlib
import subprocess
import sys

if os.environ.get("PYTHON") and "TRITON_INTERPRET" not in os.environ:
    os.environ["TRITON_INTERPRET"] = "1"
    os.execvp(os.environ["PYTHON"], [os.environ["PYTHON"], *sys.argv])
os.environ["TRITON_INTERPRET"] = "1"
adapter = pathlib.Path(sys.argv[2]) / "plugin_api/adapters/triton"
sys.path.insert(0, str(adapter))
try:
    import numpy  # noqa: F401
    import torch
    import triton  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
from interpreter import TORCH, call, near
from interpreter import load as load_source


def load(op):
    return load_source(sys.argv[1], adapter / "template" / f"{op}.py")


def rms_norm():
    source = load("rms_norm")
    for T, C, dtype, weighted, summed in ((5, 64, "f32", 1, 1), (3, 48, "f32", 1, 0), (7, 33, "f32", 0, 1), (1, 11, "bf16", 0, 0),
                                          (4, 40, "f16", 1, 1), (0, 16, "f32", 0, 0)):
        x, residual, weight = (torch.randn(*shape).to(TORCH[dtype]) for shape in ((T, C), (T, C), (C,)))
        both = (x.float() + residual.float()).to(TORCH[dtype]) if summed else x
        expected = both.double() / (both.double().square().mean(1, keepdim=True) + 0.05).sqrt()
        expected = expected * weight.double() if weighted else expected

        def want(got, what):
            near(got["out"], expected, what)
            if summed:
                near(got["residual"], both, what + ", residual")

        call(source, {"weight": weight if weighted else None, "x": x, "residual": residual if summed else None, "out": torch.full_like(x, 9)},
             {"T": T, "C": C, "hidden_size": C, "eps": 0.05}, want)


def linear():  # the interpreter's tl.dot is wrong in bfloat16, so float16 stands for it
    source = load("linear")
    for M, K, N, dtype, out, biased, gap in ((5, 64, 48, "f32", "f32", 1, 0), (1, 33, 17, "f32", "f32", 0, 0), (3, 40, 24, "f16", "f32", 0, 8),
                                             (70, 48, 130, "f16", "f16", 1, 3), (0, 16, 16, "f32", "f32", 0, 0), (20, 272, 33, "f16", "f16", 1, 0)):
        x = torch.randn(M, K + gap).to(TORCH[dtype])[:, :K]
        weight, bias = torch.randn(N, K).to(TORCH[dtype]), torch.randn(N).to(TORCH[dtype if M > 50 else "f32"])
        expected = x.double() @ weight.double().T + (bias.double() if biased else 0)
        call(source, {"weight": weight, "bias": bias if biased else None, "x": x, "out": torch.full((M, N), 9, dtype=TORCH[out])},
             {"M": M, "K": K, "N": N, "in_features": K, "out_features": N}, lambda got, what: near(got["out"], expected, what))


def paged_attention():
    source = load("paged_attention")
    cases = (  # query lengths, context lengths, H, G, D, page size, window, softcap, causal, sinks, dtype
        ((4, 0, 5), (9, 3, 16), 4, 2, 8, 4, 0, 0, 1, 0, "f32"), ((1, 1, 0, 1), (7, 10, 4, 1), 4, 1, 16, 2, 3, 4.0, 1, 1, "f32"),
        ((3, 4), (9, 4), 3, 3, 5, 3, 0, 0, 1, 0, "f32"), ((8,), (8,), 2, 1, 8, 4, 5, 0, 1, 0, "f16"),
        ((2, 5), (12, 11), 4, 2, 8, 4, 0, 0, 0, 0, "f32"), ((4, 5), (14, 16), 2, 2, 5, 4, 4, 0, 0, 1, "f32"), ((1, 1), (90, 70), 8, 2, 64, 16, 0, 0, 1, 0, "f16"))
    for queries, contexts, H, G, D, Z, window, softcap, causal, sunk, dtype in cases:
        B, T, W = len(queries), sum(queries), -(-max(contexts) // Z)
        P = B * W + 3
        q = torch.randn(T, H, D + 4).to(TORCH[dtype])[:, :, :D]
        k, v = (torch.randn(P, Z, G, D).to(TORCH[dtype]) for _ in range(2))
        sinks = torch.randn(H) if sunk else None
        tables = torch.randperm(P)[:B * W].reshape(B, W).to(torch.int32)
        starts = torch.tensor([sum(queries[:b]) for b in range(B + 1)], dtype=torch.int32)
        expected = torch.zeros(T, H, D, dtype=torch.float64)
        for b in range(B):
            for i in range(queries[b]):
                place = contexts[b] - queries[b] + i
                high = place if causal else contexts[b] - 1 if not window else min(contexts[b] - 1, place + window - 1)
                seen = range(max(0, place - window + 1) if window else 0, high + 1)
                at = [(tables[b, j // Z].item(), j % Z) for j in seen]
                for h in range(H):
                    keys = torch.stack([k[p, s, h // (H // G)] for p, s in at]).double()
                    values = torch.stack([v[p, s, h // (H // G)] for p, s in at]).double()
                    score = keys @ q[starts[b] + i, h].double() * 0.35
                    score = softcap * torch.tanh(score / softcap) if softcap else score
                    score = torch.cat([score, sinks[h:h + 1].double()]) if sunk else score
                    expected[starts[b] + i, h] = torch.softmax(score, 0)[:len(values)] @ values
        call(source, {"sinks": sinks, "q": q, "k_cache": k, "v_cache": v, "block_tables": tables, "cu_seqlens": starts,
                      "seq_lens": torch.tensor(contexts, dtype=torch.int32), "out": torch.full((T, H, D), 9, dtype=TORCH[dtype])},
             {"T": T, "B": B, "H": H, "G": G, "D": D, "P": P, "Z": Z, "W": W, "num_heads": H, "num_kv_heads": G, "head_dim": D, "page_size": Z,
              "max_query_len": max(queries), "max_seq_len": W * Z, "scale": 0.35, "window": window, "softcap": softcap, "causal": causal},
             lambda got, what: near(got["out"], expected, what))


seed = int(sys.argv[3]) if len(sys.argv) > 3 else int.from_bytes(os.urandom(4), "little")
print(f"seed {seed}")
torch.manual_seed(seed)
tested = {"rms_norm": rms_norm, "linear": linear, "paged_attention": paged_attention}
assert set(tested) == {file.stem for file in (adapter / "template").glob("*.py")}, "each template has its values tested"
for test in tested.values():
    test()
print(f"right: {', '.join(tested)}")
