#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As ../tvm_ffi/build.py, for a source in CUDA. `--arch "90a 100a"` has its compute capabilities; CUDA_HOME names the toolkit."""
import pathlib
import runpy
import sys

sys.dont_write_bytecode = True
sys.exit(runpy.run_path(str(pathlib.Path(__file__).resolve().parent.parent / "tvm_ffi/build.py"))["main"]("cuda"))
