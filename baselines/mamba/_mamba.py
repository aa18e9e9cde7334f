# SPDX-License-Identifier: Apache-2.0
"""Kernels of Mamba (Apache License 2.0) out of vLLM's package. Those of the package mamba_ssm take one initial state for all requests of a step.

The kernels' modules import other parts of vLLM for their launchers. These parts are placeholders here.
"""
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
import unittest.mock

import triton
import triton.language.extra.libdevice as libdevice

OPS = "vllm.model_executor.layers.mamba.ops"


class _Placeholders(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """All modules of vLLM besides the kernels' folders."""

    def find_spec(self, name, path, target=None):
        if not name.startswith("vllm.") or name.startswith(OPS + "."):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = _value
        return module

    def exec_module(self, module):
        pass


def _value(name):
    if name.startswith("__"):
        raise AttributeError(name)
    made = unittest.mock.MagicMock(name=name)
    made.is_xpu.return_value = False
    return made


def _package():
    if "vllm" in sys.modules:
        return
    found = importlib.util.find_spec("vllm")
    if found is None:
        raise ImportError("the sources of vLLM are missing: scripts/fetch_external.sh --vllm fetches them")
    sys.meta_path.insert(0, _Placeholders())
    for name in ("vllm", OPS):
        module = types.ModuleType(name)
        module.__path__ = [f"{place}/{name.replace('.', '/')[5:]}" for place in found.submodule_search_locations]
        sys.modules[name] = module
    utils = sys.modules["vllm.triton_utils"] = types.ModuleType("vllm.triton_utils")  # vLLM's own finds no Triton where no GPU is
    utils.HAS_TRITON, utils.triton, utils.tl, utils.tldevice = True, triton, triton.language, libdevice


def kernel(module, name):
    """A function with @triton.jit, without its tuning: the tables of the op's file choose its configuration."""
    _package()
    fn = getattr(importlib.import_module(f"{OPS}.{module}"), name)
    while type(fn).__name__ not in ("JITFunction", "InterpretedFunction"):
        fn = fn.fn
    return fn
