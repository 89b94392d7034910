"""Where a submission's time goes: its kernels, its place on the roofline, the hardware's counters.

    position   kernels and times from the profiler's trace, against what the device could do
    counters   what Nsight Compute reads of them
    target     the program that Nsight Compute runs
"""
