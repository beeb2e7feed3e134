"""Kernels for Hopper (sm_90a) in Gluon, which names the hardware's own parts.

Gluon is Triton's lower level, and experimental: it changes between versions of
Triton. Nothing outside of this folder imports it unguarded (`flashwalk.choice`).
"""
