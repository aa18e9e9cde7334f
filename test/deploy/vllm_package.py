#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vllm_package.py FK_HOST: packages the reference for vLLM, loads the wheel as vLLM does, and calls each place at which it
registers. vLLM is the stand-in vllm_stand_in.py. Exit 77: torch is missing."""
import configparser, importlib, os, pathlib, shutil, subprocess, sys, tempfile, types, zipfile

try:
    import torch
except ImportError as missing:
    print(f"skipped: Python has no {missing.name}")
    sys.exit(77)

import vllm_stand_in as stand_in
F = torch.nn.functional
ADAPTERS = pathlib.Path(__file__).resolve().parents[2] / "plugin_api/adapters/deploy"


def close(ours, theirs, what, tolerance=1e-5):
    assert ours.shape == theirs.shape, f"{what}: {ours.shape}, not {theirs.shape}"
    error = (ours.float() - theirs.float()).abs().max().item()
    assert error < tolerance, f"{what}: off by {error}"


def refused(call, text):
    try:
        call()
    except (RuntimeError, NotImplementedError) as error:
        assert text in str(error), f"`{error}` does not say `{text}`"
    else:
        raise AssertionError(f"nothing was refused with `{text}`")


def norms(vllm, name):
    x, weight, residual = torch.randn(2, 3, 64), torch.randn(64), torch.randn(2, 3, 64)
    norm, added = vllm.ir.ops.rms_norm.impls[name], vllm.ir.ops.fused_add_rms_norm.impls[name]
    assert not norm.takes(x, weight, 1e-5, 32) and norm.takes(x, weight, 1e-5)
    for w in (weight, None):
        close(norm.call(x, w, 1e-5), stand_in.rms_norm(x, w, 1e-5), "rms_norm")
    expected = stand_in.fused_add_rms_norm(x, residual, weight, 1e-5)
    out = added.call(x, residual, weight, 1e-5)
    assert added.inplace and out[1] is residual, "vLLM is not told that the residual is written"
    for ours, theirs in zip(out, expected):
        close(ours, theirs, "fused_add_rms_norm")
    # vLLM traces the function with fake tensors.
    close(torch.compile(norm.call, fullgraph=True)(x, weight, 1e-5), expected[0] * 0 + stand_in.rms_norm(x, weight, 1e-5),
          "rms_norm compiled")


def layers(package):
    x = torch.randn(2, 3, 24)
    made = stand_in.SiluAndMul()
    assert type(made).__name__ == "FkSiluAndMul" and made.name == "silu_and_mul", "vLLM would not enable it"
    close(made(x), F.silu(x[..., :12]) * x[..., 12:], "silu_and_mul")
    rope = stand_in.RotaryEmbedding(32, 16, 100, 1e4, True, torch.bfloat16)
    assert type(rope).__name__ == "FkRotaryEmbedding" and rope.fk_table.dtype == torch.float32
    positions, qkv = torch.tensor([0, 7, 99]), torch.randn(3, 32 * 6)
    query, key = qkv[:, :128], qkv[:, 128:160]  # slices, as vLLM passes them
    rope.cos_sin_cache = rope.fk_table  # the expected values are exact
    expected = stand_in.RotaryEmbedding.forward_cuda(rope, positions, query.clone(), key.clone())
    out = rope(positions, query, key)
    assert out[0] is query and out[1] is key
    for ours, theirs in zip(out, expected):
        close(ours, theirs, "rotary_embedding")
    close(rope(positions, query.clone(), None)[0], stand_in.RotaryEmbedding.forward_cuda(rope, positions, query)[0],
          "rotary_embedding without keys")
    linear = sys.modules["vllm.model_executor.layers.linear"]
    weight, bias = torch.randn(10, 24), torch.randn(10)
    product = linear.dispatch_unquantized_gemm()
    close(product(None, x, weight, bias), F.linear(x, weight, bias), "linear")
    close(torch.compile(lambda a: product(None, a, weight, bias), fullgraph=True)(x), F.linear(x, weight, bias), "linear compiled")
    many_rows(package, product)


def many_rows(package, product):
    """A plugin that takes up to 4 rows: vLLM starts with as many as a batch may have, and its own product takes these."""
    part, rows = sys.modules[f"{package}.vllm"], []

    def few(x, weight, bias):
        rows.append(len(x))
        if len(x) > 4:
            raise RuntimeError("fk::linear: the plugin refuses the call: up to 4 rows of x only")
        return F.linear(x, weight, bias)

    def broken(x, weight, bias):
        raise RuntimeError("fk::linear: x: it is f64")

    plain, weight = part.ops, torch.randn(7, 5)
    try:
        part.ops = types.SimpleNamespace(linear=few)
        for count in (9, 3, 9):
            x = torch.randn(count, 5)
            close(product(None, x, weight), F.linear(x, weight), f"linear of {count} rows")
        assert rows == [9, 3], f"the plugin was asked for {rows} rows, not once for 9"
        part.ops = types.SimpleNamespace(linear=broken)
        refused(lambda: product(None, torch.randn(2, 5), weight), "it is f64")
    finally:
        part.ops = plain


def experts():
    method = stand_in.UnquantizedFusedMoEMethod(stand_in.UnquantizedMoeBackend.TRITON)
    refused(lambda: stand_in.UnquantizedFusedMoEMethod(stand_in.UnquantizedMoeBackend.FLASHINFER_CUTLASS),
            "start it with --moe-backend triton")
    kernel, x = method.experts_cls(), torch.randn(5, 16)
    w13, w2, out = torch.randn(4, 16, 16), torch.randn(4, 16, 8), torch.empty(5, 16)
    weights, ids = torch.rand(5, 2), torch.stack([torch.randperm(4)[:2] for _ in range(5)])
    call = lambda activation, expert_map=None: kernel.apply(
        out, x, w13, w2, weights, ids, activation, 4, expert_map, None, None, None, None, None, False)
    call(stand_in.MoEActivation.SILU)
    gate, up = torch.einsum("tc,tkfc->tkf", x, w13[ids]).chunk(2, -1)
    expected = (torch.einsum("tkf,tkcf->tkc", F.silu(gate) * up, w2[ids]) * weights[..., None]).sum(1)
    close(out, expected, "fused_moe", 1e-3)
    refused(lambda: call(stand_in.MoEActivation.GELU), "does not take this layer's activation")
    refused(lambda: call(stand_in.MoEActivation.SILU, torch.arange(4)), "does not take this layer's expert_map")


def attention(name):
    backend = importlib.import_module(f"{name}.vllm_attention")
    heads, kv, width, page, pages = 4, 2, 16, 16, 9
    common = types.SimpleNamespace(
        num_actual_tokens=6, max_query_len=4, max_seq_len=40, query_start_loc=torch.tensor([0, 4, 6], dtype=torch.int32),
        seq_lens=torch.tensor([40, 9], dtype=torch.int32), slot_mapping=torch.arange(6),
        block_table_tensor=torch.tensor([[3, 1, 8], [5, 2, 0]], dtype=torch.int32))
    common.query_start_loc_cpu, common.seq_lens_cpu_upper_bound = common.query_start_loc, common.seq_lens
    metadata = backend.FkAttentionBackend.get_builder_cls()().build(0, common)
    cache = torch.randn(pages, page, kv, 2 * width).transpose(1, 2)  # what vLLM's layout NHD gives
    make = lambda **more: backend.FkAttentionBackend.get_impl_cls()(
        heads, width, 0.25, kv, more.get("alibi"), more.get("window"), "auto")
    refused(lambda: make(alibi=[1.0]), "no ALiBi slopes")
    query = torch.randn(8, heads, width)  # two rows of padding
    for window in (None, 5):
        output = torch.full((8, heads, width), 7.0)
        make(window=window).forward(None, query, None, None, cache, metadata, output)
        assert (output[6:] == 7).all(), "padding was written"
        for r, (begin, end) in enumerate([(0, 4), (4, 6)]):
            length = int(common.seq_lens[r])
            rows = cache.transpose(1, 2)[common.block_table_tensor[r].long()].flatten(0, 1)[:length]
            keys, values = (t.repeat_interleave(heads // kv, 1) for t in rows.split(width, -1))
            scores = torch.einsum("qhd,khd->hqk", query[begin:end], keys) * 0.25
            at = torch.arange(length - (end - begin), length)[:, None] - torch.arange(length)[None]
            scores.masked_fill_((at < 0) | (at >= (window or length)), float("-inf"))
            close(output[begin:end], torch.einsum("hqk,khd->qhd", scores.softmax(-1), values), f"attention, window {window}")
    keys, values, slots = torch.randn(6, kv, width), torch.randn(6, kv, width), torch.tensor([5, -1, 17, 30, 2, 140])
    before = cache.clone()
    make().do_kv_cache_update(None, keys, values, cache, slots)
    for t, slot in enumerate(slots.tolist()):
        if slot >= 0:
            before[slot // page, :, slot % page] = torch.cat((keys[t], values[t]), -1)
    assert torch.equal(cache, before), "kv_cache_append wrote other slots"


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        done = subprocess.run([sys.argv[1], "package", "reference", "--for", "vllm", "--out", folder / "out"],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "paged_attention: vLLM's attention on a CPU has another cache layout" in done.stdout, done.stdout
        assert ": vLLM 0.26.0 has no place for it" in done.stdout
        (wheel,) = (folder / "out").glob("*.whl")
        zipfile.ZipFile(wheel).extractall(folder / "site")
        sys.path.insert(0, str(folder / "site"))
        points = configparser.ConfigParser()
        points.read(next((folder / "site").glob("*.dist-info/entry_points.txt")))
        ((name, value),) = points["vllm.general_plugins"].items()
        metadata = next((folder / "site").glob("*.dist-info/METADATA")).read_text()
        assert "Requires-Dist: vllm==0.26.0" in metadata
        where, function = value.split(":")
        vllm = stand_in.install()
        register = getattr(importlib.import_module(where), function)
        vllm.__version__ = "0.27.1"
        refused(register, "is made for vLLM 0.26.0; this is 0.27.1")
        vllm.__version__ = "0.26.0+cu130"
        os.environ["FK_VLLM_OPS"] = "rms_norm,gelu"
        refused(register, "has no `gelu` for vLLM; it has rms_norm, silu_and_mul")
        os.environ["FK_VLLM_OPS"] = ""
        register()
        register()  # vLLM calls it in each process, and may call it twice
        norms(vllm, name)
        layers(name)
        experts()
        # The verb refuses attention on a CPU. Its code is the same on a GPU, so it runs here on the reference.
        package = importlib.import_module(name)
        package.about["ops"].append("kv_cache_append")
        shutil.copy(ADAPTERS / "vllm_attention.py", folder / f"site/{name}")
        attention(name)
    print("norms, silu_and_mul, rotary_embedding, linear, fused_moe, attention: right in the stand-in of vLLM 0.26.0")


if __name__ == "__main__":
    main()
