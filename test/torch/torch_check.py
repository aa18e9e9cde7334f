#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_check.py PLUGINS [--device cpu|cuda] [--json FILE]: a small torch model, a decoder with a mixture of experts over a
paged cache, whose rms_norm with residual, linear, paged_attention and fused_moe are plugins in the folder PLUGINS, against the
same model in plain torch. On CUDA its decode steps run captured in a graph, too, and must equal the eager ones bit for bit.
The error in bfloat16 against torch in float32 may be at most 1.1 times that of torch in bfloat16. Exit 77: torch is missing."""
import argparse, json, pathlib, sys

try:
    import torch
    import yaml  # of the contracts that say what is mirrored
except ImportError as missing:
    print(f"skipped: Python has no {missing.name}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plugin_api/adapters/torch"))
import fk_plugin
from fk_torch import Mirror, Op
F = torch.nn.functional
HIDDEN, HEADS, KV, DIM, PAGE, WIDTH, EXPERTS, TOP, INNER, LAYERS = 256, 4, 2, 64, 16, 8, 8, 2, 128, 2
# The CPU has only parts of fused_moe beside the oracle.
PROVIDERS = {"cpu": {"rms_norm": "cpu", "linear": "cpu", "paged_attention": "cpu", "fused_moe": "reference"},
             "cuda": {"rms_norm": "cuda", "linear": "cublas", "paged_attention": "cuda", "fused_moe": "cuda"}}


class Plain:
    """The four ops in torch."""

    def norm(self, weight):
        def call(x, residual):
            residual += x
            y = residual.float()
            return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight
        return call

    def linear(self, weight):
        return lambda x: F.linear(x, weight)

    def attention(self):
        def call(q, k, v, tables, starts, lengths, max_query):
            out = torch.empty_like(q)
            for b, length in enumerate(lengths.tolist()):
                rows = slice(*starts[b:b + 2].tolist())
                count = rows.stop - rows.start
                keys, values = (c[tables[b].long()].flatten(0, 1)[:length] for c in (k, v))
                mask = torch.ones(count, length, dtype=torch.bool, device=q.device).tril(length - count)
                out[rows] = F.scaled_dot_product_attention(
                    q[rows].transpose(0, 1)[None], keys.transpose(0, 1)[None], values.transpose(0, 1)[None],
                    mask, scale=DIM ** -0.5, enable_gqa=True)[0].transpose(0, 1)
            return out
        return call

    def moe(self, w13, w2):
        def call(x, weights, ids):
            gate, up = torch.einsum("tc,tkfc->tkf", x, w13[ids.long()]).chunk(2, -1)
            each = torch.einsum("tkf,tkcf->tkc", F.silu(gate) * up, w2[ids.long()])
            return (each * weights[..., None].to(x.dtype)).sum(1)
        return call


class Plugins:
    """The same as plugins, under the names of production."""

    def __init__(self, folder, names):
        loaded = {name: fk_plugin.Plugin(folder / f"{name}.so") for name in set(names.values())}
        self.ops, self.planned = {op: loaded[name][op] for op, name in names.items()}, []

    def norm(self, weight):
        norm = Mirror(self.ops["rms_norm"], "RMSNorm", {"weight": weight}, hidden_size=HIDDEN, eps=1e-5)
        return lambda x, residual: norm(x, residual)

    def linear(self, weight):
        return Mirror(self.ops["linear"], "ReplicatedLinear", {"weight": weight}, input_size=weight.shape[1],
                      output_size=weight.shape[0])

    def attention(self):
        op = Mirror(self.ops["paged_attention"], "flash_attn_varlen_func", num_heads=HEADS, num_kv_heads=KV, head_dim=DIM,
                    page_size=PAGE, softmax_scale=DIM ** -0.5)

        def fields(q, k, v, tables, starts, lengths, max_query):
            return dict(q=q, k=k, v=v, block_table=tables, cu_seqlens_q=starts, seqused_k=lengths,
                        max_seqlen_q=max_query, max_seqlen_k=WIDTH * PAGE)
        self.planned.append(lambda *a: op.plan(**fields(*a)))
        return lambda *a: op(**fields(*a))

    def moe(self, w13, w2):
        op = Op(self.ops["fused_moe"], {"w13": w13, "w2": w2}, hidden_size=HIDDEN, intermediate_size=INNER,
                num_experts=EXPERTS, top_k=TOP)
        return lambda x, weights, ids: op(x=x, topk_weights=weights, topk_ids=ids)


class Model(torch.nn.Module):
    def __init__(self, ops, dtype, device, batch):
        super().__init__()
        random = torch.Generator().manual_seed(3)
        self.kind = dict(dtype=dtype, device=device)
        # Rounded to bfloat16 in every dtype, so that all models have the same weights.
        made = lambda *shape: (torch.randn(shape, generator=random) * shape[-1] ** -0.5).bfloat16().to(**self.kind)
        self.embed = (torch.randn(64, HIDDEN, generator=random)).bfloat16().to(**self.kind)
        qkv = (HEADS + 2 * KV) * DIM
        self.layers = [dict(norm=ops.norm(1 + made(HIDDEN)), qkv=ops.linear(made(qkv, HIDDEN)), attention=ops.attention(),
                            o=ops.linear(made(HIDDEN, HEADS * DIM)), post=ops.norm(1 + made(HIDDEN)),
                            gate=made(EXPERTS, HIDDEN).float(), moe=ops.moe(made(EXPERTS, 2 * INNER, HIDDEN), made(EXPERTS, HIDDEN, INNER)))
                       for _ in range(LAYERS)]
        self.norm, self.head = ops.norm(1 + made(HIDDEN)), ops.linear(made(64, HIDDEN))
        self.caches = [[torch.zeros(batch * WIDTH, PAGE, KV, DIM, **self.kind) for _ in range(2)] for _ in range(LAYERS)]
        self.tables = torch.randperm(batch * WIDTH, generator=random).view(batch, WIDTH).int().to(device)

    def forward(self, ids, slots, starts, lengths, max_query, routes):
        """ids, slots [T]; routes [LAYERS, T, TOP]: the experts, equal in all models. Logits [T, 64]."""
        x = self.embed[ids]
        residual = torch.zeros_like(x)
        for layer, (k_cache, v_cache), chosen in zip(self.layers, self.caches, routes):
            q, k, v = layer["qkv"](layer["norm"](x, residual)).view(len(ids), -1, DIM).split([HEADS, KV, KV], 1)
            k_cache.flatten(0, 1).index_copy_(0, slots, k)
            v_cache.flatten(0, 1).index_copy_(0, slots, v)
            x = layer["attention"](q.contiguous(), k_cache, v_cache, self.tables, starts, lengths, max_query)
            x = layer["post"](layer["o"](x.flatten(1)), residual)
            weights = F.linear(x.float(), layer["gate"]).gather(1, chosen.long()).softmax(-1)
            x = layer["moe"](x, weights.contiguous(), chosen)
        return self.head(self.norm(x, residual))


def steps_of(model, batch, prompt, count):
    """The inputs of a prefill of `prompt` tokens each and of `count` decode steps."""
    random, device = torch.Generator().manual_seed(7), model.kind["device"]
    for first, n in [(0, prompt)] + [(prompt + i, 1) for i in range(count)]:
        at = torch.arange(first, first + n).repeat(batch, 1)
        slots = model.tables.cpu().long().gather(1, at // PAGE) * PAGE + at % PAGE
        routes = torch.rand(LAYERS, batch * n, EXPERTS, generator=random).argsort(-1)[..., :TOP].int()
        yield [t.contiguous().to(device) for t in (
            torch.randint(0, 64, (batch * n,), generator=random), slots.flatten(), torch.arange(batch + 1).int() * n,
            torch.full((batch,), first + n).int())] + [n, routes.to(device)]


@torch.no_grad()
def answers(model, batch, prompt=21, count=12):
    return torch.cat([model(*step).float() for step in steps_of(model, batch, prompt, count)])


@torch.no_grad()
def captured(model, ops, batch, prompt=21, count=12):
    """The same with the decode steps as replays of one graph, other work in between."""
    steps = list(steps_of(model, batch, prompt, count))
    rows = [model(*steps[0]).float()]
    still = [t.clone() if isinstance(t, torch.Tensor) else t for t in steps[1]]
    model(*still)  # instances are made outside of the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(*still)
    for step in steps[1:]:
        for mine, value in zip(still, step):
            if isinstance(mine, torch.Tensor):
                mine.copy_(value)
        for plan, (k, v) in zip(ops.planned, model.caches):
            plan(torch.empty(batch, HEADS, DIM, **model.kind), k, v, model.tables, still[2], still[3], 1)
        torch.randn(512, 512, device="cuda") @ torch.randn(512, 512, device="cuda")
        graph.replay()
        rows.append(out.float().clone())
    return torch.cat(rows)


def check(folder, device, batch):
    results, names = [], PROVIDERS[device]
    want = answers(Model(Plain(), torch.float32, device, batch), batch)
    error = lambda got: ((got - want).square().mean().sqrt() / want.std()).item()
    types = [torch.float32, torch.bfloat16] if device == "cpu" else [torch.bfloat16]  # no fast float32 attention there
    for dtype in types:
        ops = Plugins(folder, names)
        got = answers(Model(ops, dtype, device, batch), batch)
        rms = error(got)
        limit = 1e-5 if dtype == torch.float32 else 1.1 * error(answers(Model(Plain(), dtype, device, batch), batch))
        row = {"batch": batch, "dtype": str(dtype).split(".")[1], "rms": rms, "limit": limit, "ok": rms <= limit}
        if device == "cuda":
            ops = Plugins(folder, names)
            row["graph_equals_eager"] = bool(torch.equal(captured(Model(ops, dtype, device, batch), ops, batch), got))
            row["ok"] = row["ok"] and row["graph_equals_eager"]
        results.append(row)
        print(f"{device} batch {batch:2d} {row['dtype']:8s} rms {rms:.2e} limit {limit:.2e}"
              f"{' graph equals eager: ' + str(row['graph_equals_eager']) if device == 'cuda' else ''} {'ok' if row['ok'] else 'WRONG'}", flush=True)
    return results


def refusals(folder, device):
    """What is wrong is said in the plugin's or the contract's words."""
    ops = Plugins(folder, PROVIDERS[device])
    weight = torch.ones(HIDDEN, device=device)
    said = []
    for kind, call in (
            (TypeError, lambda: Mirror(ops.ops["rms_norm"], "RMSNorm", hidden_size=HIDDEN, var_hidden_size=3)),
            (fk_plugin.Refused, lambda: ops.norm(weight)(torch.ones(2, HIDDEN, device=device, dtype=torch.int32), None)),
            (fk_plugin.Failed, lambda: Op(ops.ops["rms_norm"], hidden_size=HIDDEN)(y=torch.ones(2, HIDDEN, device=device)))):
        try:
            call()
        except kind as error:
            said.append(str(error))
    print("\n".join("refused: " + text for text in said))
    return len(said) == 3 and all(said)


def weights_of_all_kinds(folder):
    """Lists of weights, and a weight named as a method of torch's; both are in the state of the module."""
    oracle = fk_plugin.Plugin(folder / "reference.so")
    word, place, kind, scale, bias = (torch.randn(*shape) for shape in ((50, 16), (20, 16), (2, 16), (16,), (16,)))
    embed = Op(oracle["bert_embedding"], {"word": word, "position": place, "type": kind, "norm_weight": scale, "norm_bias": bias},
               vocab_size=50, hidden_size=16, max_position=20, type_vocab_size=2)
    ids, places, kinds = (torch.randint(n, (7,)) for n in (50, 20, 2))
    got = embed(ids=ids, positions=places, types=kinds)
    ok = torch.allclose(got, F.layer_norm(word[ids] + place[places] + kind[kinds], (16,), scale, bias, 1e-12), atol=1e-5)
    v, w, b = ([torch.randn(*shape) / 4 for _ in range(3)] for shape in ((4, 8), (8, 4), (8,)))
    cross = Op(oracle["low_rank_cross"], {"v": v, "w": w, "bias": b}, num_layers=3, size=8, low_rank=4)
    first = x = torch.randn(5, 8)
    for v_, w_, b_ in zip(v, w, b):
        x = first * F.linear(F.linear(x, v_), w_, b_) + x
    ok &= torch.allclose(cross(x=first), x, atol=1e-4)
    return ok and len(cross.state_dict()) == 9 and len(embed.state_dict()) == 5


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plugins", type=pathlib.Path)
    parser.add_argument("--device", choices=sorted(PROVIDERS), default="cpu")
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = [row for batch in (1, 5) for row in check(args.plugins, args.device, batch)]
    ok = refusals(args.plugins, args.device) and weights_of_all_kinds(args.plugins) and all(row["ok"] for row in rows)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"schema": "fk-host.torch_check/1", "device": args.device,
                                                       "torch": torch.__version__, "providers": PROVIDERS[args.device],
                                                       "passed": ok, "rows": rows}, indent=1))
    print("the torch model: " + ("all passed" if ok else "FAILED"))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
