#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gaussian_splatting.py OUT [NAME...]: reference cases of 3D Gaussian splatting in torch, float64, from the paper (arXiv 2308.04079), in gsplat's names.

A pixel takes all Gaussians of the image, sorted by depth once, with no tiles. mid.hidden.0 are the inverses of the covariances in pixels, and mid.hidden.1
the colours. Cameras lie on a sphere around the scene and look at its middle. With `--gsplat`, projection and colours are compared with gsplat's own
functions in torch. Needs torch and safetensors.
"""
import argparse, json, math, pathlib, zlib

import torch
from safetensors.torch import save_file

BASE = dict(architectures=["GaussianSplatting"], model_type="gaussian_splatting", num_gaussians=300, width=61, height=46, tile_size=16, sh_degree=3, eps2d=0.3, near_plane=0.01,
            far_plane=1e10, max_intersections=12000)
CASES = {
    "gaussian_splatting": (BASE, 3),
    # Other tiles, colours of degree 1, planes which cut through the scene, more blur.
    "gaussian_splatting_wide": (BASE | dict(num_gaussians=170, width=40, height=75, tile_size=8, sh_degree=1, eps2d=1.0, near_plane=3.4, far_plane=4.9), 2),
}


def rotations(q):
    w, x, y, z = (q / q.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x), 2 * (x * z - w * y),
            2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


def harmonics(d, degree):
    """Real spherical harmonics of unit vectors, from Legendre's functions with the phase of the paper's code."""
    x, y, z = d.unbind(-1)
    across, around = torch.sqrt((x * x + y * y).clamp(min=1e-300)), torch.atan2(y, x)
    out = []
    for l in range(degree + 1):
        for m in range(-l, l + 1):
            k = abs(m)
            p = torch.ones_like(z)
            for i in range(k):
                p = p * -(2 * i + 1) * across
            before = torch.zeros_like(p)
            for n in range(k + 1, l + 1):
                before, p = p, ((2 * n - 1) * z * p - (n + k - 1) * before) / (n - k)
            scale = math.sqrt((2 * l + 1) / (4 * math.pi) * math.factorial(l - k) / math.factorial(l + k))
            out.append(scale * p * (1 if m == 0 else math.sqrt(2) * (torch.cos(k * around) if m > 0 else torch.sin(k * around))))
    return torch.stack(out, -1)


def project(c, w, view, lens):
    """Means in pixels, inverses of covariances, depths, colours and opacities of a camera. Culled Gaussians have zeros."""
    turn, move = view[:3, :3], view[:3, 3]
    p = w["means"] @ turn.T + move
    z = p[:, 2]
    seen = (z > c["near_plane"]) & (z < c["far_plane"])
    safe = torch.where(seen, z, torch.ones_like(z))
    fx, fy, cx, cy = lens[0, 0], lens[1, 1], lens[0, 2], lens[1, 2]
    axes = turn @ rotations(w["quats"]) * w["scales"].exp()[:, None]
    edge = lambda v, size, f, middle: torch.minimum(torch.maximum(v, -(middle / f + 0.15 * size / f)), (size - middle) / f + 0.15 * size / f)
    u, v = edge(p[:, 0] / safe, c["width"], fx, cx), edge(p[:, 1] / safe, c["height"], fy, cy)
    slope = torch.stack([torch.stack([fx / safe, 0 * safe, -fx * u / safe], -1), torch.stack([0 * safe, fy / safe, -fy * v / safe], -1)], 1)
    spread = slope @ axes
    inverse = torch.linalg.inv(spread @ spread.mT + c["eps2d"] * torch.eye(2, dtype=torch.float64))
    conics = torch.stack([inverse[:, 0, 0], inverse[:, 0, 1], inverse[:, 1, 1]], -1)
    opacity = w["opacities"].sigmoid()
    seen &= opacity >= 1 / 255
    mean = torch.stack([fx * p[:, 0] / safe + cx, fy * p[:, 1] / safe + cy], -1)
    d = w["means"] + turn.T @ move
    basis = harmonics(d / d.norm(dim=-1, keepdim=True), c["sh_degree"])
    colors = ((basis[:, None] @ w["sh"])[:, 0] + 0.5).clamp(min=0)
    keep = lambda value: torch.where(seen[:, None], value, torch.zeros_like(value))
    return keep(mean), keep(conics), torch.where(seen, z, 0 * z), colors, opacity, seen


def render(c, means, conics, depths, colors, opacity, seen):
    y, x = torch.meshgrid(torch.arange(c["height"], dtype=torch.float64) + 0.5, torch.arange(c["width"], dtype=torch.float64) + 0.5, indexing="ij")
    light, image, live = torch.ones_like(x), torch.zeros(*x.shape, 3, dtype=torch.float64), torch.ones_like(x, dtype=torch.bool)
    for i in sorted(seen.nonzero()[:, 0].tolist(), key=lambda i: depths[i]):
        dx, dy = means[i, 0] - x, means[i, 1] - y
        s = (conics[i, 0] * dx * dx + conics[i, 2] * dy * dy) / 2 + conics[i, 1] * dx * dy
        alpha = (opacity[i] * torch.exp(-s)).clamp(max=0.999)
        drawn = live & (s >= 0) & (alpha >= 1 / 255)
        live = live & ~(drawn & (light * (1 - alpha) <= 1e-4))
        alpha = torch.where(drawn & live, alpha, torch.zeros_like(alpha))
        image += (alpha * light)[..., None] * colors[i]
        light = light * (1 - alpha)
    return image, 1 - light


def camera(c, g):
    """A camera at a distance of about 4, which looks at the middle."""
    at = torch.randn(3, generator=g, dtype=torch.float64)
    front = -at / at.norm()
    right = torch.linalg.cross(torch.tensor([0.0, 1.0, 0.1], dtype=torch.float64), front)
    right /= right.norm()
    turn = torch.stack([right, torch.linalg.cross(front, right), front])
    view = torch.eye(4, dtype=torch.float64)
    view[:3, :3], view[:3, 3] = turn, torch.tensor([0.1, -0.05, 4.0], dtype=torch.float64)
    lens = torch.tensor([[0.9 * c["width"], 0, c["width"] / 2], [0, 0.95 * c["width"], 0.45 * c["height"]], [0, 0, 1]], dtype=torch.float64)
    return view.float().double(), lens.float().double()


def against_gsplat(c, w, view, lens, flat):
    from gsplat.cuda._torch_impl import _fully_fused_projection, _quat_scale_to_covar_preci, _spherical_harmonics
    covars, _ = _quat_scale_to_covar_preci(w["quats"], w["scales"].exp(), True, False)
    _, means, depths, conics, _ = _fully_fused_projection(w["means"], covars, view[None], lens[None], c["width"], c["height"], c["eps2d"], c["near_plane"], c["far_plane"])
    colors = (_spherical_harmonics(c["sh_degree"], w["means"] - torch.linalg.inv(view)[:3, 3], w["sh"]) + 0.5).clamp(min=0)
    seen = flat[5]
    for name, own, other in (("means", flat[0], means[0]), ("conics", flat[1], conics[0]), ("depths", flat[2], depths[0]), ("colors", flat[3], colors)):
        print(f"gsplat {name}: largest difference {(own - other)[seen].abs().max() / other[seen].std():.1e} of the spread")


def make(name, out, gsplat):
    c, rows = CASES[name]
    seed = zlib.crc32(name.encode())
    g = torch.Generator().manual_seed(seed)
    y, terms = c["num_gaussians"], (c["sh_degree"] + 1) ** 2
    w = dict(means=0.8 * torch.randn(y, 3, generator=g), quats=torch.randn(y, 4, generator=g), scales=-2.2 + 0.5 * torch.randn(y, 3, generator=g),
             opacities=1.5 * torch.randn(y, generator=g), sh=0.4 * torch.randn(y, terms, 3, generator=g))
    w["sh"] = w["sh"].bfloat16()
    exact = {key: value.double() for key, value in w.items()}
    views, seen = [camera(c, g) for _ in range(rows)], []
    for view, lens in views:
        flat = project(c, exact, view, lens)
        if gsplat:
            against_gsplat(c, exact, view, lens, flat)
        seen.append((flat, *render(c, *flat)))
    golden = {"in.viewmat": torch.stack([v for v, _ in views]), "in.K": torch.stack([k for _, k in views]), "out.image": torch.stack([s[1] for s in seen]),
              "out.alpha": torch.stack([s[2] for s in seen]), "mid.hidden.0": torch.stack([s[0][1].flatten() for s in seen]), "mid.hidden.1": torch.stack([s[0][3].flatten() for s in seen])}
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    save_file({"splats." + key: value for key, value in w.items()}, folder / "model.safetensors", metadata=dict(format="pt"))
    save_file({key: value.float().contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
    case = dict(arch="gaussian_splatting", made_by="test/golden/make/gaussian_splatting.py", seed=seed, torch=torch.__version__.split("+")[0])
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    kept = [int(s[0][5].sum()) for s in seen]
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, alpha {golden['out.alpha'].mean():.2f}, Gaussians of each image {kept}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of CASES")
    parser.add_argument("--gsplat", action="store_true", help="also print the difference from gsplat")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        make(name, arguments.out, arguments.gsplat)


if __name__ == "__main__":
    main()
