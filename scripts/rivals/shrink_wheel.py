#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shrink_wheel.py FOLDER [--sm 90] [--fa3 hdim128_bf16]: zeroes kernels of vLLM's libraries below FOLDER that one GPU never
loads. A file keeps its size and its addresses, and compresses to a small part. fetch_wheels.sh calls it.

A CUDA library holds containers, one for each source file, with an entry of code (kind 2) or PTX (kind 1) for each target.
Code for --sm stays. PTX stays where a container has no such code. In FlashAttention 3, containers of the named heads and
dtype stay, without softcap. A call of a removed kernel is an error of the driver."""
import argparse, pathlib, re, struct

MAGIC = b"\x50\xed\x55\xba"
LIBRARIES = "_C_stable_libtorch.abi3.so", "_moe_C_stable_libtorch.abi3.so", "vllm_flash_attn/_vllm_fa3_C.abi3.so"
LARGE_PTX = 60000  # bytes, compressed: kernels of quantised weights, which have PTX alone


def containers(data):
    """Entries (kind, target, offset, bytes) of each container."""
    at = 0
    while (at := data.find(MAGIC, at)) >= 0:
        _, version, header, size = struct.unpack_from("<IHHQ", data, at)
        if version != 1 or header != 16:
            at += 4
            continue
        entries, place, end = [], at + header, at + header + size
        while place < end:
            kind, _, header_bytes, payload = struct.unpack_from("<HHIQ", data, place)
            (target,) = struct.unpack_from("<I", data, place + 28)
            entries.append((kind, target, place + header_bytes, payload))
            place += header_bytes + payload
        yield entries
        at = end


def stays(entry, entries, sm):
    kind, target, _, size = entry
    if kind == 2:
        return target == sm
    exact = any(k == 2 and t == sm for k, t, _, _ in entries)
    best = max((t for k, t, _, _ in entries if k == 1 and t <= sm), default=0)
    return kind == 1 and not exact and target == best and size <= LARGE_PTX


def wanted_source(body, wanted):
    """False for a source of FlashAttention 3 with other heads, another dtype, or softcap."""
    names = set(re.findall(rb"flash_fwd_(hdim\d+_\w*?)_sm90_cu", body))
    return not names or any(n.decode().startswith(wanted) and b"softcap" not in n for n in names)


def shrink(path, sm, wanted):
    data, kept, removed = bytearray(path.read_bytes()), 0, 0
    for entries in containers(data):
        first, last = entries[0][2], entries[-1][2] + entries[-1][3]
        source = "fa3" not in path.name or wanted_source(bytes(data[first:last]), wanted)
        for entry in entries:
            if source and stays(entry, entries, sm):
                kept += entry[3]
            else:
                data[entry[2]:entry[2] + entry[3]] = bytes(entry[3])
                removed += entry[3]
    path.write_bytes(data)
    print(f"{path.name}: {kept / 1e6:.1f} MB of kernels stay, {removed / 1e6:.1f} MB are zeros")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--sm", type=int, default=90)
    p.add_argument("--fa3", default="hdim128_bf16", help="kernels of attention which stay, separated by commas")
    a = p.parse_args()
    for name in LIBRARIES:
        if not (a.folder / "vllm" / name).is_file():
            raise SystemExit(f"{a.folder}: no vllm/{name}; it is no unpacked wheel of vLLM 0.26.0")
        shrink(a.folder / "vllm" / name, a.sm, tuple(a.fa3.split(",")))


if __name__ == "__main__":
    main()
