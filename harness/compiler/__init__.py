"""Kernels compiled for GPUs that are not there, and what the compiler made of them.

`offline` compiles what a host function launches, `standin` answers host code that asks about the GPU,
`resources` reads registers, widths and tensor-core instructions out of SASS, PTX or AMDGCN text, and
`report` shows them. Importing this package imports neither torch nor Triton.
"""
