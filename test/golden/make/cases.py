# SPDX-License-Identifier: Apache-2.0
"""The shared parts of scripts with several cases: their command line, and weights of networks with norms over a batch."""
import argparse, pathlib

import torch


def command_line(doc, cases):
    """The parser of `SCRIPT OUT [NAME...]`, described by the first paragraph of the script's text."""
    parser = argparse.ArgumentParser(description=doc.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(cases), help="default: all of CASES")
    return parser


def fill_statistics(model, seed):
    """Random weights of unit gain, and statistics near those of such weights. All are bfloat16 numbers."""
    g = torch.Generator().manual_seed(seed)
    for name, p in list(model.named_parameters()) + list(model.named_buffers()):
        if not p.is_floating_point():
            continue
        noise = torch.randn(p.shape, generator=g)
        if p.dim() > 1:
            value = noise * 1.5 / p[0].numel() ** 0.5
        elif name.endswith("running_var"):
            value = 1 + 0.2 * noise.abs()
        elif name.endswith("weight"):
            value = 1 + 0.2 * noise
        else:
            value = 0.1 * noise
        p.data.copy_(value.bfloat16())
