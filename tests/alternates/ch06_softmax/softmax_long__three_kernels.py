"""softmax_long in another style: not online. A maximum, then a sum, then the quotient, each by many programs.

Differs from the reference: three readings; the maximum is found first, so that nothing is ever rescaled; the last
kernel subtracts the logarithm of the sum instead of dividing by the sum; the copy of a strided matrix is the host's.
"""

import torch
import triton
import triton.language as tl

CHUNK = 2048


@triton.jit
def chunk_maximum(x_ptr, part_ptr, N, chunks, CHUNK: tl.constexpr):
    pid = tl.program_id(0)
    cols = (pid % chunks) * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(x_ptr + (pid // chunks).to(tl.int64) * N + cols, mask=cols < N, other=float("-inf"))
    tl.store(part_ptr + pid, tl.max(x.to(tl.float32), axis=0))


@triton.jit
def chunk_sum(x_ptr, top_ptr, part_ptr, N, chunks, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    pid = tl.program_id(0)
    row = (pid // chunks).to(tl.int64)
    cols = (pid % chunks) * CHUNK + tl.arange(0, CHUNK)
    every = tl.arange(0, CHUNKS)
    top = tl.max(tl.load(top_ptr + row * chunks + every, mask=every < chunks, other=float("-inf")), axis=0)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
    tl.store(part_ptr + pid, tl.sum(tl.exp(x - top), axis=0))


@triton.jit
def quotient(x_ptr, y_ptr, top_ptr, sum_ptr, N, chunks, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    pid = tl.program_id(0)
    row = (pid // chunks).to(tl.int64)
    cols = (pid % chunks) * CHUNK + tl.arange(0, CHUNK)
    every = tl.arange(0, CHUNKS)
    top = tl.max(tl.load(top_ptr + row * chunks + every, mask=every < chunks, other=float("-inf")), axis=0)
    total = tl.sum(tl.load(sum_ptr + row * chunks + every, mask=every < chunks, other=0.0), axis=0)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
    y = tl.exp((x - top) - tl.log(total))
    tl.store(y_ptr + row * N + cols, y.to(y_ptr.dtype.element_ty), mask=cols < N)


def softmax_long(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    chunks = triton.cdiv(N, CHUNK)
    tops, sums = (torch.empty((M, chunks), dtype=torch.float32, device=x.device) for _ in range(2))
    shape = {"CHUNK": CHUNK, "CHUNKS": triton.next_power_of_2(chunks)}
    chunk_maximum[(M * chunks,)](x, tops, N, chunks, CHUNK=CHUNK)
    chunk_sum[(M * chunks,)](x, tops, sums, N, chunks, **shape)
    quotient[(M * chunks,)](x, y, tops, sums, N, chunks, **shape)
    return y
