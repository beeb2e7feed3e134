"""Lets the claims' tests run kernels on the CPU, in one process with the others."""

import os

import torch

if not torch.cuda.is_available():
    # Before anything imports Triton: a kernel is made for the interpreter, or
    # not, when it is defined.
    os.environ["TRITON_INTERPRET"] = "1"
