#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hf_package.py FK_HOST: a package for the Hub, loaded by the library `kernels` from its folder. Exit 77: torch or kernels is
missing."""
import os, pathlib, subprocess, sys, tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import kernels
    import torch
except ImportError as missing:
    print(f"skipped: Python has no {missing.name}")
    sys.exit(77)

with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "out"
    subprocess.run([sys.argv[1], "package", "reference", "--for", "hf", "--out", out], check=True, stdout=subprocess.DEVNULL)
    kernel = kernels.get_local_kernel(out, backend="cpu")
    x = torch.randn(3, 8)
    error = (kernel.ops.silu_and_mul(x) - torch.nn.functional.silu(x[:, :4]) * x[:, 4:]).abs().max().item()
    assert error < 1e-6, error
    assert kernel.about["namespace"] in str(kernel.ops.silu_and_mul.default._schema)
    # Older releases import the folder of the kernel's name: the same ops, defined once.
    (variant,) = (out / "build").iterdir()
    sys.path.insert(0, str(variant))
    import fk_reference
    assert fk_reference.ops is kernel.ops
print(f"kernels {kernels.__version__} loads the package")
