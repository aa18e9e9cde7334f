#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""provider.py FK_HOST SOURCE_DIR: a source of the provider `fla` becomes a plugin with cubins inside, which tells its op and capabilities, takes the
cases of its tables with one launch each, and refuses others with a sentence. The CUDA runtime is that of toolkit/: no GPU is needed.
"""
import ctypes
import subprocess
import sys
import tarfile

from environment import env, host, python, runtime, source, toolkit, work

packed = sorted((source / "external").glob("fla-core-*.tar.xz"))
if not packed or subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
    print(f"skipped: {'there is no external/fla-core-*.tar.xz' if not packed else f'{python} has no PyTorch'}")
    sys.exit(77)
tarfile.open(packed[-1]).extractall(work / "package", filter="data")
op, headers = "dplr_recurrence_update", work / "include/fk/ops"
headers.mkdir(parents=True)
(headers / f"{op}.h").write_text(subprocess.run([host, "show", op, "--header"], capture_output=True, text=True, check=True).stdout)
adapter, made = source / "plugin_api/adapters/triton", work / "fla.cpp"
subprocess.run([python, adapter / "build.py", source / f"baselines/fla/{op}.py", "--header", headers / f"{op}.h", "--arch", "90", "--out", made],
               env=env | {"PYTHONPATH": str(work / "package")}, check=True)
subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden", *[f"-I{place}" for place in (
    headers.parent.parent, source / "plugin_api", adapter, toolkit / "include")], made, source / "baselines/fla/plugin.cpp", f"-L{toolkit / 'lib64'}",
    "-lcudart", "-o", work / "fla.so"], check=True)
sys.path.insert(0, str(source / "plugin_api/adapters/torch"))
from fk_plugin import Plugin, Refused, View  # noqa: E402

library = ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL)
plugin = Plugin(work / "fla.so")
assert (plugin.name, list(plugin.ops)) == ("fla", [op]), plugin.ops
claims = plugin[op].claims
assert (claims.deterministic, claims.batch_invariant, [claims.sm[at] for at in range(claims.sm_count)]) == (1, 1, [90])


def frames(D, dtype, state="f32"):
    view = lambda shape, kind: View(0x10000, shape, kind)  # noqa: E731
    rows = {name: view((3, 2, D), dtype) for name in "rwkvab"}
    return {"num_heads": 2, "head_dim": D, "v_head_dim": D}, {}, rows | {
        "recurrent_state": view((5, 2, D, D), state), "state_slots": view((3,), "i32"), "out": view((3, 2, D), dtype)}


for D in (64, 128, 5):
    init, weights, forward = frames(D, "bf16")
    with plugin[op].create(init, weights, forward) as it:
        before = ctypes.c_int.in_dll(library, "fk_test_launches").value
        it.forward(forward)
        assert ctypes.c_int.in_dll(library, "fk_test_launches").value == before + 1, "one launch"
for values, expected in ((frames(300, "bf16"), "no entry of VARIANTS"), (frames(64, "f32", "bf16"), "no entry of DTYPES")):
    try:
        plugin[op].create(*values)
    except Refused as reason:
        assert expected in str(reason), reason
    else:
        raise AssertionError(f"taken, but expected: {expected}")
print("provider: right")
