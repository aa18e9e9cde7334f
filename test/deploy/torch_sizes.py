#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_sizes.py FK_HOST [--device cuda|cpu] [--plugin cuda]: a plugin packaged for torch, at the sizes of a layer of
Llama 3.1 8B (on a CPU: small ones). Each op is compared with torch in float32, eagerly, under torch.compile(fullgraph=True), and
on a GPU in a CUDA graph whose inputs change before the replay. On a GPU one layer also runs under
torch.compile(mode="reduce-overhead"), and each line has the microseconds of a call, eagerly and replayed. Exit 77: torch is
missing."""
import argparse, pathlib, subprocess, sys, tempfile, time, zipfile

try:
    import torch
except ImportError as missing:
    print(f"skipped: Python has no {missing.name}")
    sys.exit(77)

F = torch.nn.functional


def attention(q, k_cache, v_cache, tables, starts, lengths, scale):
    out = torch.empty_like(q)
    for r, length in enumerate(lengths.tolist()):
        rows = slice(*starts[r:r + 2].tolist())
        new, group = rows.stop - rows.start, q.shape[1] // k_cache.shape[2]
        keys, values = (c[tables[r].long()].flatten(0, 1)[:length].repeat_interleave(group, 1) for c in (k_cache, v_cache))
        mask = torch.arange(length, device=q.device)[None] > torch.arange(length - new, length, device=q.device)[:, None]
        scores = torch.einsum("qhd,khd->hqk", q[rows], keys) * scale
        out[rows] = torch.einsum("hqk,khd->qhd", scores.masked_fill(mask, float("-inf")).softmax(-1), values)
    return out


def experts(x, weights, ids, w13, w2):
    out = torch.zeros_like(x)
    for k in range(ids.shape[1]):
        for e in ids[:, k].unique().tolist():
            at = ids[:, k] == e
            gate, up = (x[at] @ w13[e].t()).chunk(2, -1)
            out[at] += weights[at, k, None] * ((F.silu(gate) * up) @ w2[e].t())
    return out


def rotated(positions, q, k, table):
    cos, sin = table[positions].chunk(2, -1)
    for x in (q, k):
        a, b = x.clone().chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        x.copy_(torch.cat((a * c - b * s, b * c + a * s), -1))


class Problem:
    """The inputs of a layer for `requests` requests with `new` tokens each."""

    def __init__(self, device, small, requests, new):
        kind = torch.float32 if small else torch.bfloat16
        hidden, heads, kv, width, inner, e, page, length = (64, 4, 2, 16, 96, 4, 4, 40) if small else (4096, 32, 8, 128, 14336, 8, 16, 2048)
        self.t = t = requests * new
        r = lambda *shape: torch.randn(*shape, device=device, dtype=kind)
        pages = -(-length // page)
        self.x, self.residual, self.norm = r(t, hidden), r(t, hidden), r(hidden)
        self.weight, self.gates = r(hidden, hidden) * hidden ** -0.5, r(t, 2 * inner)
        qkv = r(t, (heads + 2 * kv) * width)
        self.q = qkv[:, :heads * width].view(t, heads, width)
        self.k = qkv[:, heads * width:(heads + kv) * width].view(t, kv, width)
        cache = r(requests * pages + 1, page, kv, 2 * width)  # keys beside values, as vLLM 0.26.0 has them
        self.k_cache, self.v_cache = cache.split(width, -1)
        self.tables = torch.randperm(requests * pages, device=device).to(torch.int32).view(requests, pages)
        self.starts = torch.arange(0, t + 1, new, device=device, dtype=torch.int32)
        self.lengths = torch.full((requests,), length, device=device, dtype=torch.int32)
        angles = torch.outer(torch.arange(length, device=device), 1e4 ** (-torch.arange(0, width, 2, device=device) / width))
        self.table, self.positions = torch.cat((angles.cos(), angles.sin()), -1), torch.randint(length, (t,), device=device)
        self.slots = torch.randperm(requests * pages * page, device=device)[:t]
        self.w13, self.w2 = r(e, 2 * inner // 4, hidden) * hidden ** -0.5, r(e, hidden, inner // 4) * inner ** -0.5
        self.scores = torch.rand(t, 2, device=device)
        self.ids = torch.stack([torch.randperm(e)[:2] for _ in range(t)]).to(device, torch.int32)
        self.bounds = {"max_query_len": new, "max_seq_len": length}

    def cases(self, o):
        """name, function of the op, tensors, plain torch in float32, positions of tensors that the op writes."""
        scale, bounds = self.q.shape[-1] ** -0.5, self.bounds
        attend = lambda call: lambda q, k, v, *more: call(q, k, v, *more, scale=scale, **bounds)
        yield "rms_norm", lambda x, w: o.rms_norm(x, w, eps=1e-5), [self.x, self.norm], lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5), ()
        yield ("rms_norm.update", lambda x, r, w: o.rms_norm.update(x, r, w, eps=1e-5), [self.x, self.residual, self.norm],
               lambda x, r, w: F.rms_norm(r.add_(x), x.shape[-1:], w, 1e-5), (1,))
        yield ("silu_and_mul", o.silu_and_mul, [self.gates], lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1], ())
        yield "linear", o.linear, [self.x, self.weight], F.linear, ()
        yield "rotary_embedding", o.rotary_embedding, [self.positions, self.q, self.k, self.table], rotated, (1, 2)
        tensors = [self.q, self.k_cache, self.v_cache, self.tables, self.starts, self.lengths]
        yield "paged_attention", attend(o.paged_attention), tensors, lambda *a: attention(*a, scale), ()
        yield "fused_moe", o.fused_moe, [self.x, self.scores, self.ids, self.w13, self.w2], experts, ()


def copied(tensors):
    return [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device).copy_(t) for t in tensors]


def outcome(out, tensors, written):
    return [*(out if isinstance(out, (tuple, list)) else [] if out is None else [out]), *(tensors[i] for i in written)]


def compare(ours, expected, dtype, what):
    for a, b in zip(ours, expected, strict=True):
        error = ((a.float() - b.float()).square().mean().sqrt() / b.float().square().mean().sqrt()).item()
        assert error < (2e-2 if dtype == torch.bfloat16 else 1e-4), f"{what}: relative error {error}"


def microseconds(call, device, n=200):
    for _ in range(5):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(n):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) / n * 1e6


def try_case(name, call, tensors, plain, written, plan, capturable, device):
    dtype = tensors[0].dtype if tensors[0].is_floating_point() else tensors[1].dtype
    floats = [t.to(torch.float32 if t.is_floating_point() else t.dtype, copy=True) for t in tensors]
    expected = outcome(plain(*floats), floats, written)
    own = copied(tensors)
    try:
        got = call(*own)
    except RuntimeError as error:  # a plugin may refuse sizes, in a sentence
        if "the plugin refuses the call" not in str(error):
            raise
        return print(f"{name:18} refused: {str(error).split('refuses the call: ')[-1]}")
    compare(outcome(got, own, written), expected, dtype, name)
    torch._dynamo.reset()
    own = copied(tensors)
    compare(outcome(torch.compile(lambda *a: call(*a), fullgraph=True)(*own), own, written), expected, dtype, f"{name} compiled")
    line = f"{name:18} eager {microseconds(lambda: call(*own), device):8.1f} us"
    if device == "cuda" and capturable:
        static = copied(tensors)
        call(*static)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = call(*static)
        for target, source in zip(static, tensors):
            target.copy_(source)
        plan(static)
        graph.replay()
        compare(outcome(out, static, written), expected, dtype, f"{name} in a graph")
        line += f", replayed {microseconds(graph.replay, device):8.1f} us"
    print(line, flush=True)


def try_layer(o, p):
    """A norm, a product, a norm with its residual, and an activation, with graphs made by torch.compile."""
    def layer(x, residual, norm, weight, gates):
        y = o.linear(o.rms_norm(x, norm), weight)
        return o.rms_norm.update(y, residual, norm) + o.silu_and_mul(gates)[:, :1]

    tensors = [p.x, p.residual, p.norm, p.weight, p.gates]
    expected = layer(*copied(tensors))
    compiled = torch.compile(layer, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):  # warm-up, capture, replays
        torch.compiler.cudagraph_mark_step_begin()
        out = compiled(*copied(tensors)).clone()
    assert torch.equal(out, expected), "reduce-overhead gives other bits"
    print("a layer under torch.compile(mode='reduce-overhead'): the bits of eager calls")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--plugin", default="cuda")
    a = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        folder = pathlib.Path(folder)
        subprocess.run([a.host, "package", a.plugin, "--for", "torch", "--out", folder / "out"], check=True, stdout=subprocess.DEVNULL)
        zipfile.ZipFile(next((folder / "out").glob("*.whl"))).extractall(folder)
        sys.path.insert(0, str(folder))
        package = __import__(f"fk_{a.plugin}")
        o, kernels, missing = package.ops, package.ops_module.PLUGIN, []
        for requests, new in ((8, 1), (2, 8 if a.device == "cpu" else 512)):
            p = Problem(a.device, a.device == "cpu", requests, new)
            print(f"{requests} requests with {new} new tokens each, {p.x.dtype}, torch {torch.__version__}")
            for name, call, tensors, plain, written in p.cases(o):
                op = name.split(".")[0]
                if op not in kernels.ops:
                    missing += [op] * (op not in missing)
                    continue
                graph = kernels[op].claims.graph
                scale = p.q.shape[-1] ** -0.5
                plan = lambda t: o.paged_attention_plan(*t, scale=scale, **p.bounds) if kernels[op].table.plan else None
                try_case(name, call, tensors, plain, written, plan if op == "paged_attention" else lambda t: None,
                         graph == 3 or (graph > 0 and new == 1), a.device)
            if a.device == "cuda" and new == 1:  # as many rows as every linear takes
                try_layer(o, p)
    print("the plugin has no " + ", ".join(missing) if missing else "all ops are right")


if __name__ == "__main__":
    main()
