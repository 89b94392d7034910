"""The process in which a submission runs. It holds no oracle, no expected value and no verdict.

`zygote` is the warm parent (torch and Triton imported), `warden` the small process between it and a worker,
`serve` the worker's loop, `memory` the guarded tensors it hands out, `evidence` what it notes while the submission runs.
"""
