#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""yolov10.py OUT [NAME...]: reference cases of YOLOv10 in torch, float64, from the paper (arXiv 2405.14458), in the names of its public checkpoints.

As in timm_nets.py, the weights are bfloat16 numbers, and statistics of norms are random too. Images are channels first, and boxes are computed for every pixel before
the best are chosen; the file shares no code with the C++ sources. mid.hidden.i is the result of layer i. Needs torch and safetensors.
"""
import json, math, zlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from cases import command_line, fill_statistics

BASE = dict(model_type="yolov10", architectures=["YOLOv10"], nc=7, imgsz=64, width_multiple=1 / 32, depth_multiple=0.33, max_channels=1024, reg_max=16, max_det=20,
            bn_eps=1e-3, cib_layers=[22], large_kernel=True)
CASES = {
    "yolov10": BASE,
    # Two and four blocks in a stage, inverted blocks with narrow kernels, three heads, other bins, fewer pixels than detections, and a limit of channels.
    "yolov10_wide": BASE | dict(nc=3, imgsz=32, width_multiple=1 / 16, depth_multiple=0.67, max_channels=768, head_channels=8, reg_max=6, max_det=30, cib_layers=[8, 19, 22], large_kernel=False, bn_eps=0.01),
}


class Conv(nn.Module):
    def __init__(self, c, i, o, k=1, s=1, g=1, act=True):
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o, eps=c["bn_eps"]), act

    def forward(self, x):
        y = self.bn(self.conv(x))
        return F.silu(y) if self.act else y


class Bottleneck(nn.Module):
    def __init__(self, c, w, add):
        super().__init__()
        self.cv1, self.cv2, self.add = Conv(c, w, w, 3), Conv(c, w, w, 3), add

    def forward(self, x):
        y = self.cv2(self.cv1(x))
        return x + y if self.add else y


class TwoKernels(nn.Module):
    def __init__(self, c, w):
        super().__init__()
        self.conv, self.conv1 = Conv(c, w, w, 7, g=w, act=False), Conv(c, w, w, 3, g=w, act=False)

    def forward(self, x):
        return F.silu(self.conv(x) + self.conv1(x))


class Inverted(nn.Module):
    def __init__(self, c, w):
        super().__init__()
        middle = TwoKernels(c, 2 * w) if c["large_kernel"] else Conv(c, 2 * w, 2 * w, 3, g=2 * w)
        self.cv1 = nn.Sequential(Conv(c, w, w, 3, g=w), Conv(c, w, 2 * w), middle, Conv(c, 2 * w, w), Conv(c, w, w, 3, g=w))

    def forward(self, x):
        return x + self.cv1(x)


class Stage(nn.Module):
    def __init__(self, c, i, o, count, add, inverted):
        super().__init__()
        w = o // 2
        self.cv1, self.cv2 = Conv(c, i, 2 * w), Conv(c, (2 + count) * w, o)
        self.m = nn.ModuleList(Inverted(c, w) if inverted else Bottleneck(c, w, add) for _ in range(count))

    def forward(self, x):
        parts = list(self.cv1(x).chunk(2, 1))
        for block in self.m:
            parts.append(block(parts[-1]))
        return self.cv2(torch.cat(parts, 1))


class Halve(nn.Module):
    def __init__(self, c, i, o):
        super().__init__()
        self.cv1, self.cv2 = Conv(c, i, o), Conv(c, o, o, 3, 2, g=o, act=False)

    def forward(self, x):
        return self.cv2(self.cv1(x))


class PyramidPool(nn.Module):
    def __init__(self, c, w):
        super().__init__()
        self.cv1, self.cv2 = Conv(c, w, w // 2), Conv(c, w * 2, w)

    def forward(self, x):
        # Windows of 5, 9 and 13 pixels are one, two and three of 5.
        y = self.cv1(x)
        return self.cv2(torch.cat([y] + [F.max_pool2d(y, k, 1, k // 2) for k in (5, 9, 13)], 1))


class Attention(nn.Module):
    def __init__(self, c, w):
        super().__init__()
        self.heads = max(1, w // c.get("head_channels", 64))
        self.wide = w // self.heads
        self.qkv, self.proj, self.pe = Conv(c, w, 2 * w, act=False), Conv(c, w, w, act=False), Conv(c, w, w, 3, g=w, act=False)

    def forward(self, x):
        b, w, high, wide = x.shape
        narrow = self.wide // 2
        q, k, v = self.qkv(x).view(b, self.heads, 2 * self.wide, high * wide).split([narrow, narrow, self.wide], 2)
        p = torch.einsum("bhdm,bhdn->bhmn", q, k).div(math.sqrt(narrow)).softmax(-1)
        return self.proj(torch.einsum("bhmn,bhdn->bhdm", p, v).reshape(b, w, high, wide) + self.pe(v.reshape(b, w, high, wide)))


class PartialAttention(nn.Module):
    def __init__(self, c, w):
        super().__init__()
        self.cv1, self.cv2, self.attn = Conv(c, w, w), Conv(c, w, w), Attention(c, w // 2)
        self.ffn = nn.Sequential(Conv(c, w // 2, w), Conv(c, w, w // 2, act=False))

    def forward(self, x):
        a, b = self.cv1(x).chunk(2, 1)
        b = b + self.attn(b)
        return self.cv2(torch.cat([a, b + self.ffn(b)], 1))


class Head(nn.Module):
    def __init__(self, c, widths):
        super().__init__()
        self.c = c
        box, label = max(16, widths[0] // 4, 4 * c["reg_max"]), max(widths[0], min(c["nc"], 100))
        self.one2one_cv2 = nn.ModuleList(nn.Sequential(Conv(c, w, box, 3), Conv(c, box, box, 3), nn.Conv2d(box, 4 * c["reg_max"], 1)) for w in widths)
        self.one2one_cv3 = nn.ModuleList(nn.Sequential(nn.Sequential(Conv(c, w, w, 3, g=w), Conv(c, w, label)), nn.Sequential(Conv(c, label, label, 3, g=label), Conv(c, label, label)),
                                                       nn.Conv2d(label, c["nc"], 1)) for w in widths)

    def forward(self, maps):
        logits, boxes = [], []
        for x, to_box, to_class in zip(maps, self.one2one_cv2, self.one2one_cv3):
            b, _, high, wide = x.shape
            bins = self.c["reg_max"]
            far = (to_box(x).view(b, 4, bins, high, wide).softmax(2) * torch.arange(bins, dtype=x.dtype).view(1, 1, bins, 1, 1)).sum(2)
            y, x0 = torch.meshgrid(torch.arange(high) + 0.5, torch.arange(wide) + 0.5, indexing="ij")
            left, top, right, bottom = x0 - far[:, 0], y - far[:, 1], x0 + far[:, 2], y + far[:, 3]
            # Shares of the image, which has `wide` pixels of this map on each side.
            boxes.append(torch.stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], 1).flatten(2) / wide)
            logits.append(to_class(x).flatten(2))
        logits, boxes = torch.cat(logits, 2).mT, torch.cat(boxes, 2).mT
        best = logits.max(2).values.sort(stable=True, dim=1, descending=True).indices[:, : self.c["max_det"], None]
        return logits.gather(1, best.expand(-1, -1, logits.shape[2])), boxes.gather(1, best.expand(-1, -1, 4))


class Network(nn.Module):
    def __init__(self, c):
        super().__init__()
        w = [math.ceil(min(base, c["max_channels"]) * c["width_multiple"] / 8) * 8 for base in (64, 128, 256, 512, 1024)]
        stage = lambda layer, i, o, count, add: Stage(c, i, o, max(1, round(count * c["depth_multiple"])), add, layer in c["cib_layers"])
        none = nn.Identity
        self.model = nn.ModuleList([
            Conv(c, 3, w[0], 3, 2), Conv(c, w[0], w[1], 3, 2), stage(2, w[1], w[1], 3, True), Conv(c, w[1], w[2], 3, 2), stage(4, w[2], w[2], 6, True), Halve(c, w[2], w[3]),
            stage(6, w[3], w[3], 6, True), Halve(c, w[3], w[4]), stage(8, w[4], w[4], 3, True), PyramidPool(c, w[4]), PartialAttention(c, w[4]), none(), none(),
            stage(13, w[4] + w[3], w[3], 3, False), none(), none(), stage(16, w[3] + w[2], w[2], 3, False), Conv(c, w[2], w[2], 3, 2), none(), stage(19, w[2] + w[3], w[3], 3, False),
            Halve(c, w[3], w[3]), none(), stage(22, w[3] + w[4], w[4], 3, False), Head(c, [w[2], w[3], w[4]])])

    def forward(self, x):
        seen = {}
        # Layers whose results, doubled in size if the number is negative, are put before those of another.
        joined = {13: (-10, 6), 16: (-13, 4), 19: (17, 13), 22: (20, 10)}
        before = {17: 16, 20: 19}
        for i, layer in enumerate(self.model[:23]):
            if isinstance(layer, nn.Identity):
                continue
            if i in joined:
                a, b = joined[i]
                x = torch.cat([seen[a] if a > 0 else F.interpolate(seen[-a], scale_factor=2, mode="nearest"), seen[b]], 1)
            elif i in before:
                x = seen[before[i]]
            seen[i] = x = layer(x)
        return seen, *self.model[23]([seen[16], seen[19], seen[22]])


@torch.no_grad()
def write(folder, name, config, rows=2):
    seed = zlib.crc32(name.encode())
    model = Network(config).eval().double()
    fill_statistics(model, seed)
    pixels = torch.randn(rows, 3, config["imgsz"], config["imgsz"], generator=torch.Generator().manual_seed(seed + 1))
    hidden, logits, boxes = model(pixels.double())
    golden = {"in.pixel_values": pixels, "out.logits": logits.float(), "out.pred_boxes": boxes.float()}
    golden |= {f"mid.hidden.{i}": x.float() for i, x in hidden.items()}
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"model." + key: value.bfloat16().contiguous() for key, value in model.state_dict().items() if value.is_floating_point()}, folder / "model.safetensors")
    save_file({key: value.contiguous().clone() for key, value in golden.items()}, folder / "golden.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "case.json").write_text(json.dumps(dict(arch="yolov10", made_by="test/golden/make/yolov10.py", seed=seed, torch=torch.__version__.split("+")[0]), indent=1) + "\n")
    best = logits.max(2).values
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, smallest gap of chosen scores {(best[:, :-1] - best[:, 1:]).min():.1e}")


def main():
    arguments = command_line(__doc__, CASES).parse_args()
    for name in arguments.names:
        write(arguments.out, name, CASES[name])


if __name__ == "__main__":
    main()
