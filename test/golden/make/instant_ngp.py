#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""instant_ngp.py OUT [NAME...]: reference cases of instant neural graphics primitives in numpy, float64, from the paper (arXiv 2201.05989).

A pixel follows its ray step by step and keeps the samples in occupied cells. Rays, steps and places are rounded to float32, as the contract of ray_march
says. mid.hidden.0 are the directions of rays, and mid.hidden.1 their harmonics (from Legendre's functions).
"""
import argparse, json, math, pathlib, zlib

import numpy as np

from safetensors_file import save

NETWORK = dict(otype="FullyFusedMLP", activation="ReLU", output_activation="None", n_neurons=24, n_hidden_layers=1)
BASE = dict(architectures=["InstantNGP"], model_type="instant_ngp", width=23, height=17, max_samples=9000, num_cascades=2, grid_size=12, max_steps=400, near_plane=0.05,
            far_plane=50.0, step_size=0.02, max_step=0.1, cone_angle=0.01, density_threshold=0.8, min_transmittance=1e-4,
            encoding=dict(otype="HashGrid", n_levels=5, n_features_per_level=2, log2_hashmap_size=9, base_resolution=4, per_level_scale=1.6),
            network=NETWORK | dict(n_output_dims=16), dir_encoding=dict(otype="SphericalHarmonics", degree=4), rgb_network=NETWORK | dict(n_hidden_layers=2))
WIDE = NETWORK | dict(n_neurons=40)
CASES = {
    "instant_ngp": (BASE, 3),
    # One cube, steps of one size, four features, harmonics of degree 3, another width of the networks.
    "instant_ngp_wide": (BASE | dict(width=14, height=31, max_samples=20000, num_cascades=1, grid_size=9, step_size=0.013, max_step=0.013, cone_angle=0.0, density_threshold=0.1,
                                     min_transmittance=0.01, encoding=dict(otype="HashGrid", n_levels=3, n_features_per_level=4, log2_hashmap_size=12, base_resolution=5, per_level_scale=2.3),
                                     network=WIDE | dict(n_output_dims=8), dir_encoding=dict(otype="SphericalHarmonics", degree=3), rgb_network=WIDE | dict(n_hidden_layers=2)), 2),
}
f32 = np.float32


def levels_of(e):
    out, first = [], 0
    for l in range(e["n_levels"]):
        scale = e["base_resolution"] * e["per_level_scale"]**l - 1
        edge = math.ceil(scale) + 1
        rows = min(2**e["log2_hashmap_size"], -(-edge**3 // 8) * 8)
        out.append((scale, edge, first, rows))
        first += rows
    return out, first


def encode(e, table, p):
    out = []
    for scale, edge, first, rows in levels_of(e)[0]:
        at = np.clip(p, 0, 1) * scale + 0.5
        low = np.floor(at)
        part, total = at - low, np.zeros((len(p), table.shape[1]))
        for corner in range(8):
            bits = np.array([corner & 1, corner >> 1 & 1, corner >> 2 & 1])
            x, y, z = ((low + bits).astype(np.int64)).T
            key = x + y * edge + z * edge * edge if edge**3 <= rows else (x ^ (y * 2654435761 & 0xffffffff) ^ (z * 805459861 & 0xffffffff))
            share = np.where(bits, part, 1 - part).prod(-1)
            total += share[:, None] * table[first + key % rows]
        out.append(total)
    return np.concatenate(out, -1)


def harmonics(d, degree):
    """Real spherical harmonics of unit vectors, from Legendre's functions."""
    x, y, z = d.T
    across, around = np.sqrt(np.maximum(x * x + y * y, 1e-300)), np.arctan2(y, x)
    out = []
    for l in range(degree):
        for m in range(-l, l + 1):
            k = abs(m)
            p = np.ones_like(z)
            for i in range(k):
                p = p * -(2 * i + 1) * across
            before = np.zeros_like(p)
            for n in range(k + 1, l + 1):
                before, p = p, ((2 * n - 1) * z * p - (n + k - 1) * before) / (n - k)
            scale = math.sqrt((2 * l + 1) / (4 * math.pi) * math.factorial(l - k) / math.factorial(l + k))
            out.append(scale * p * (1 if m == 0 else math.sqrt(2) * (np.cos(k * around) if m > 0 else np.sin(k * around))))
    return np.stack(out, -1)


def march(c, grid, origin, direction):
    """(place in the largest cube, step) of each sample of a ray."""
    t, found = f32(c["near_plane"]), []
    for _ in range(c["max_steps"]):
        if float(t) >= c["far_plane"]:
            break
        step = f32(min(max(float(t) * c["cone_angle"], c["step_size"]), c["max_step"]))
        p = origin.astype(np.float64) + float(t) * direction.astype(np.float64)
        cube = next((k for k in range(c["num_cascades"]) if np.abs(p).max() < 2**k / 2), None)
        if cube is not None:
            x, y, z = np.minimum(np.floor((p / 2**cube + 0.5) * c["grid_size"]).astype(int), c["grid_size"] - 1)
            if grid[cube, z, y, x] > c["density_threshold"]:
                found.append((f32(p / 2**(c["num_cascades"] - 1) + 0.5), step))
        t = f32(float(t) + float(step))
    return found


def render(c, w, view, lens):
    turn, move = view[:3, :3].astype(np.float64), view[:3, 3].astype(np.float64)
    y, x = np.meshgrid(np.arange(c["height"]) + 0.5, np.arange(c["width"]) + 0.5, indexing="ij")
    seen = np.stack([(x - lens[0, 2]) / lens[0, 0], (y - lens[1, 2]) / lens[1, 1], np.ones_like(x)], -1).reshape(-1, 3)
    d = seen @ turn
    d = f32(d / np.linalg.norm(d, axis=-1, keepdims=True))
    origin = f32(-turn.T @ move)
    basis = harmonics(d.astype(np.float64), c["dir_encoding"]["degree"])
    image, alphas, count = [], [], 0
    relu = lambda v: np.maximum(v, 0)
    for i in range(len(d)):
        samples = march(c, w["density_grid"], origin, d[i])
        count += len(samples)
        color, light = np.zeros(3), 1.0
        if samples:
            p = np.array([s[0] for s in samples], np.float64)
            features = relu(encode(c["encoding"], w["encoding.table"], p) @ w["density.0.weight"].T) @ w["density.1.weight"].T
            h = np.concatenate([features, np.tile(basis[i], (len(p), 1))], -1)
            h = relu(relu(h @ w["color.0.weight"].T) @ w["color.1.weight"].T) @ w["color.2.weight"].T
            rgb = 1 / (1 + np.exp(-h))
            for (_, step), feature, shade in zip(samples, features, rgb):
                alpha = 1 - math.exp(-math.exp(feature[0]) * float(step))
                color += light * alpha * shade
                light *= 1 - alpha
                if light < c["min_transmittance"]:
                    break
        image.append(color)
        alphas.append(1 - light)
    shape = (c["height"], c["width"])
    return np.array(image).reshape(*shape, 3), np.array(alphas).reshape(shape), d.flatten(), basis.flatten(), count


def camera(c, rng):
    """A camera at a distance of about 0.8, which looks at the middle."""
    at = rng.standard_normal(3)
    front = -at / np.linalg.norm(at)
    right = np.cross([0.0, 1.0, 0.1], front)
    right /= np.linalg.norm(right)
    view = np.eye(4)
    view[:3, :3], view[:3, 3] = np.stack([right, np.cross(front, right), front]), [0.03, -0.02, 0.8]
    lens = np.array([[0.9 * c["width"], 0, c["width"] / 2], [0, 0.95 * c["width"], 0.45 * c["height"]], [0, 0, 1]])
    return f32(view), f32(lens)


def make(name, out):
    c, rows = CASES[name]
    seed = zlib.crc32(name.encode())
    rng = np.random.default_rng(seed)
    e, hidden, geometry = c["encoding"], c["network"]["n_neurons"], c["network"]["n_output_dims"]
    normal = lambda *shape, scale=1.0: f32(rng.standard_normal(shape) * scale)
    matrix = lambda n, k: normal(n, k, scale=1.4 / math.sqrt(k))
    w = {"density_grid": normal(c["num_cascades"], *[c["grid_size"]] * 3), "encoding.table": normal(levels_of(e)[1], e["n_features_per_level"]),
         "density.0.weight": matrix(hidden, e["n_levels"] * e["n_features_per_level"]), "density.1.weight": matrix(geometry, hidden),
         "color.0.weight": matrix(hidden, geometry + c["dir_encoding"]["degree"]**2), "color.1.weight": matrix(hidden, hidden), "color.2.weight": matrix(3, hidden)}
    w["density.1.weight"][0] *= 2  # some samples are dense
    exact = {key: value.astype(np.float64) for key, value in w.items()}
    views = [camera(c, rng) for _ in range(rows)]
    seen = [render(c, exact, view, lens) for view, lens in views]
    golden = {"in.viewmat": [v for v, _ in views], "in.K": [k for _, k in views], "out.image": [s[0] for s in seen], "out.alpha": [s[1] for s in seen],
              "mid.hidden.0": [s[2] for s in seen], "mid.hidden.1": [s[3] for s in seen]}
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    save(folder / "model.safetensors", w)
    save(folder / "golden.safetensors", {key: np.stack(value) for key, value in golden.items()})
    case = dict(arch="instant_ngp", made_by="test/golden/make/instant_ngp.py", seed=seed, numpy=np.__version__)
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, alpha {np.mean(golden['out.alpha']):.2f}, samples of each image {[s[4] for s in seen]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of CASES")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        make(name, arguments.out)


if __name__ == "__main__":
    main()
