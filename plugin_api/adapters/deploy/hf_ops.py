# SPDX-License-Identifier: Apache-2.0
"""The ops of this kernel, and the name that an op has in torch."""
from .ops import ABOUT
from . import ops


def add_op_namespace_prefix(op_name):
    return f"{ABOUT['namespace']}::{op_name}"
