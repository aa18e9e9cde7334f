#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pointtransformerv3.py OUT [NAME...]: reference cases of Point Transformer V3 in numpy, float64, from the paper (arXiv 2312.10035), in Pointcept's names.

Clouds are computed one by one. Cells are keys of a dictionary, and a convolution looks its neighbours up. Hilbert's curve is
Skilling's (2004), with arrays of bits. Orders are not shuffled. A cell has the mean of its points' features.
"""
import argparse, json, math, pathlib, zlib

import numpy as np

from safetensors_file import save

BASE = dict(architectures=["PointTransformerV3"], model_type="pointtransformerv3", in_channels=6, num_classes=5, num_points=90, grid_size=0.12, serialization_depth=5,
            max_voxels=[90, 90, 60], order=["z", "z-trans", "hilbert", "hilbert-trans"], stride=[2, 2], enc_depths=[1, 2, 4], enc_channels=[16, 24, 32], enc_num_head=[2, 3, 4],
            enc_patch_size=[16, 16, 16], dec_depths=[1, 2], dec_channels=[20, 24], dec_num_head=[2, 3], dec_patch_size=[16, 16], mlp_ratio=4, qkv_bias=True, pre_norm=True,
            shuffle_orders=False, enable_rpe=False, cls_mode=False)
CASES = {
    "pointtransformerv3": (BASE, 3),
    # Two stages, other orders and patches, no bias of qkv, a wider MLP, coarse cells with several points.
    "pointtransformerv3_wide": (BASE | dict(in_channels=4, num_classes=7, num_points=130, grid_size=0.3, serialization_depth=4, max_voxels=[130, 100], order=["hilbert-trans", "z"],
                                            stride=[2], enc_depths=[3, 1], enc_channels=[18, 40], enc_num_head=[3, 5], enc_patch_size=[24, 7], dec_depths=[2], dec_channels=[30],
                                            dec_num_head=[5], dec_patch_size=[9], mlp_ratio=3, qkv_bias=False), 2),
}


def z_code(cell, depth):
    code = 0
    for bit in reversed(range(depth)):
        for c in cell:
            code = code << 1 | (c >> bit & 1)
    return code


def hilbert_code(cell, depth):
    """Bits of all axes; each octant's lower bits are reflected or exchanged with the first axis; then a Gray code becomes a number."""
    bits = np.array([[c >> b & 1 for b in reversed(range(depth))] for c in cell])
    for level in range(depth):
        for axis in range(3):
            if bits[axis, level]:
                bits[0, level + 1:] ^= 1
            else:
                bits[[0, axis], level + 1:] = bits[[axis, 0], level + 1:]
    flat = np.cumsum(bits.T.reshape(-1)) % 2
    return int("".join(map(str, flat)), 2)


def place(cell, order, depth):
    if order.endswith("trans"):
        cell = (cell[1], cell[0], cell[2])
    return (z_code if order.startswith("z") else hilbert_code)(cell, depth)


def layer_norm(x, w, name):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w[name + ".weight"] + w[name + ".bias"]


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def batch_norm_gelu(x, w, name):
    return gelu((x - w[name + ".running_mean"]) / np.sqrt(w[name + ".running_var"] + 1e-3) * w[name + ".weight"] + w[name + ".bias"])


def linear(x, w, name):
    y = x @ w[name + ".weight"].T
    return y + w[name + ".bias"] if name + ".bias" in w else y


def sparse_conv(x, cells, w, name):
    kernel = w[name + ".weight"]
    half, where = kernel.shape[1] // 2, {cell: i for i, cell in enumerate(cells)}
    out = np.zeros((len(cells), len(kernel))) + w.get(name + ".bias", 0)
    for i, cell in enumerate(cells):
        for k in np.ndindex(*kernel.shape[1:4]):
            j = where.get(tuple(c + d - half for c, d in zip(cell, k)))
            if j is not None:
                out[i] += kernel[(slice(None), *k)] @ x[j]
    return out


def attention(x, w, name, order, heads, patch):
    """Each patch attends to itself. The last one is filled up with cells before it, whose results are those of their own patch."""
    n, width = x.shape
    q, k, v = np.split(linear(x, w, name + ".qkv"), 3, -1)
    out = np.zeros_like(x)
    for first in range(0, n, patch):
        own = order[first:first + patch]
        seen = list(own)
        if n > patch and len(own) < patch:
            seen += list(order[first - patch + len(own):first])
        for h in range(heads):
            s = slice(h * width // heads, (h + 1) * width // heads)
            scores = q[own][:, s] @ k[seen][:, s].T / math.sqrt(width // heads)
            p = np.exp(scores - scores.max(-1, keepdims=True))
            out[own, s] = p / p.sum(-1, keepdims=True) @ v[seen][:, s]
    return linear(out, w, name + ".proj")


def blocks(x, cells, w, path, count, heads, patch, orders, depth):
    for i in range(count):
        name = f"{path}.block{i}"
        order = np.array(sorted(range(len(cells)), key=lambda j: place(cells[j], orders[i % len(orders)], depth)))
        x = x + layer_norm(linear(sparse_conv(x, cells, w, name + ".cpe.0"), w, name + ".cpe.1"), w, name + ".cpe.2")
        x = x + attention(layer_norm(x, w, name + ".norm1.0"), w, name + ".attn", order, heads, patch)
        x = x + linear(gelu(linear(layer_norm(x, w, name + ".norm2.0"), w, name + ".mlp.0.fc1")), w, name + ".mlp.0.fc2")
    return x


def pooled(cells, depth, shift):
    """Cells of the next stage by z-order, and the parent of each cell."""
    parents = [tuple(c >> shift for c in cell) for cell in cells]
    new = sorted(set(parents), key=lambda cell: z_code(cell, depth))
    where = {cell: i for i, cell in enumerate(new)}
    return new, np.array([where[p] for p in parents])


def segment(c, w, points, feat):
    depth = c["serialization_depth"]
    grid = np.clip(np.floor((points.astype(np.float64) - points.min(0)) / c["grid_size"]), 0, 2**depth - 1).astype(int)
    cells, own = pooled([tuple(map(int, g)) for g in grid], depth, 0)
    x = np.stack([feat[own == i].mean(0) for i in range(len(cells))])
    stages, stem = [], "backbone.embedding.stem"
    for s in range(len(c["enc_depths"])):
        path = f"backbone.enc.enc{s}"
        if s == 0:
            x, parents = batch_norm_gelu(sparse_conv(x, cells, w, stem + ".conv"), w, stem + ".norm"), own
        else:
            cells, parents = pooled(cells, depth - s, 1)
            wide = linear(x, w, path + ".down.proj")
            x = batch_norm_gelu(np.stack([wide[parents == i].max(0) for i in range(len(cells))]), w, path + ".down.norm.0")
        x = blocks(x, cells, w, path, c["enc_depths"][s], c["enc_num_head"][s], c["enc_patch_size"][s], c["order"], depth - s)
        stages.append((x, cells, parents))
    for s in reversed(range(len(stages) - 1)):
        path = f"backbone.dec.dec{s}"
        coarse = batch_norm_gelu(linear(x, w, path + ".up.proj.0"), w, path + ".up.proj.1")
        skip, cells, _ = stages[s]
        x = batch_norm_gelu(linear(skip, w, path + ".up.proj_skip.0"), w, path + ".up.proj_skip.1") + coarse[stages[s + 1][2]]
        x = blocks(x, cells, w, path, c["dec_depths"][s], c["dec_num_head"][s], c["dec_patch_size"][s], c["order"], depth - s)
    features = x[own]
    return features, linear(features, w, "seg_head"), [len(s[1]) for s in stages]


def weights(c, rng):
    w = {}
    normal = lambda *shape, mean=0.0, scale=1.0: np.float32(mean + scale * rng.standard_normal(shape))

    def matrix(name, n, k, bias=True):
        w[name + ".weight"] = normal(n, k, scale=1.2 / math.sqrt(k))
        if bias:
            w[name + ".bias"] = normal(n, scale=0.1)

    def conv(name, n, k, edge, bias):
        w[name + ".weight"] = normal(n, edge, edge, edge, k, scale=1 / math.sqrt(3 * k))
        if bias:
            w[name + ".bias"] = normal(n, scale=0.1)

    def norm(name, n, stored=False):
        w[name + ".weight"], w[name + ".bias"] = normal(n, mean=1, scale=0.1), normal(n, scale=0.1)
        if stored:
            w[name + ".running_mean"], w[name + ".running_var"] = normal(n, scale=0.2), np.float32(rng.uniform(0.5, 2, n))

    def block(name, n):
        conv(name + ".cpe.0", n, n, 3, True)
        matrix(name + ".cpe.1", n, n)
        matrix(name + ".attn.qkv", 3 * n, n, c["qkv_bias"])
        matrix(name + ".attn.proj", n, n)
        matrix(name + ".mlp.0.fc1", n * c["mlp_ratio"], n)
        matrix(name + ".mlp.0.fc2", n, n * c["mlp_ratio"])
        for part in (".cpe.2", ".norm1.0", ".norm2.0"):
            norm(name + part, n)

    enc, dec = c["enc_channels"], c["dec_channels"]
    conv("backbone.embedding.stem.conv", enc[0], c["in_channels"], 5, False)
    norm("backbone.embedding.stem.norm", enc[0], True)
    for s, n in enumerate(enc):
        if s:
            matrix(f"backbone.enc.enc{s}.down.proj", n, enc[s - 1])
            norm(f"backbone.enc.enc{s}.down.norm.0", n, True)
        for i in range(c["enc_depths"][s]):
            block(f"backbone.enc.enc{s}.block{i}", n)
    for s, n in enumerate(dec):
        for part, k in (("proj", (dec + enc[-1:])[s + 1]), ("proj_skip", enc[s])):
            matrix(f"backbone.dec.dec{s}.up.{part}.0", n, k)
            norm(f"backbone.dec.dec{s}.up.{part}.1", n, True)
        for i in range(c["dec_depths"][s]):
            block(f"backbone.dec.dec{s}.block{i}", n)
    matrix("seg_head", c["num_classes"], dec[0])
    return w


def make(name, out):
    c, clouds = CASES[name]
    seed = zlib.crc32(name.encode())
    rng = np.random.default_rng(seed)
    w = weights(c, rng)
    exact = {key: value.astype(np.float64) for key, value in w.items()}
    points = np.float32(rng.standard_normal((clouds, c["num_points"], 3)) * [0.6, 0.5, 0.3])
    feat = np.float32(rng.standard_normal((clouds, c["num_points"], c["in_channels"])))
    seen = [segment(c, exact, points[b], feat[b].astype(np.float64)) for b in range(clouds)]
    golden = {"in.coord": points, "in.feat": feat, "out.features": np.stack([s[0] for s in seen]), "out.logits": np.stack([s[1] for s in seen])}
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    save(folder / "model.safetensors", w)
    save(folder / "golden.safetensors", golden)
    case = dict(arch="pointtransformerv3", made_by="test/golden/make/pointtransformerv3.py", seed=seed, numpy=np.__version__)
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, cells of stages {[s[2] for s in seen]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of CASES")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        make(name, arguments.out)


if __name__ == "__main__":
    main()
