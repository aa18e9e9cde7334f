# SPDX-License-Identifier: Apache-2.0
"""For releases of `kernels` that import a folder of the kernel's name: the same module as the folder above."""
import importlib.util
import pathlib
import sys

_file = pathlib.Path(__file__).parent.parent / "__init__.py"
_module = sys.modules.get("@NAMES@")
if _module is None:
    _spec = importlib.util.spec_from_file_location("@NAMES@", _file)
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["@NAMES@"] = _module
    _spec.loader.exec_module(_module)
globals().update({name: getattr(_module, name) for name in _module.__all__})
