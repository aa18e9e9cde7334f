# SPDX-License-Identifier: Apache-2.0
"""Reads and writes a reference case as test/golden/README.md describes it: numpy only, one function per file format."""
import json
import pathlib
import struct

import numpy as np


def save(path, tensors):
    """A safetensors file: a header's length, the header in JSON, the tensors' bytes. Floats become float32, unsigned numbers bytes."""
    header, blobs, at = {}, [], 0
    for name in sorted(tensors):
        value = np.asarray(tensors[name])
        kind = {"f": "F32", "b": "BOOL", "u": "U8"}.get(value.dtype.kind, "I64")
        blob = value.astype({"F32": "<f4", "BOOL": "?", "U8": "u1", "I64": "<i8"}[kind]).tobytes()
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [at, at + len(blob)]}
        at += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def load(path):
    """The tensors of a safetensors file of floats, whole numbers and bytes, by name."""
    data = pathlib.Path(path).read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    kinds = {"F32": "<f4", "BOOL": "?", "U8": "u1", "I64": "<i8"}
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[start:][slice(*t["data_offsets"])], kinds[t["dtype"]]).reshape(t["shape"])
            for name, t in header.items()}


def write_case(folder, config, weights, tensors, seed, note):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    save(folder / "model.safetensors", weights)
    save(folder / "golden.safetensors", tensors)
    case = {"arch": config["model_type"], "seed": seed, "note": note, "numpy": np.__version__,
            "tensors": {name: list(np.shape(value)) for name, value in tensors.items()}}
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
