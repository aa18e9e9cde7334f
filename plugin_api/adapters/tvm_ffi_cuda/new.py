#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As ../tvm_ffi/new.py: the first source has no kernel, and its text is the same in CUDA."""
import pathlib
import runpy

runpy.run_path(str(pathlib.Path(__file__).resolve().parent.parent / "tvm_ffi/new.py"), run_name="__main__")
