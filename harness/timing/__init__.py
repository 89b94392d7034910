"""The clock: how a submission's speed becomes a verdict that a sceptic would accept.

    verdict      pairs of times in, an interval on their ratio and a decision out (no device, no randomness)
    conditions   what NVML says of the device while it is timed
    roofline     what the device could do at best
    clock        one timed call, in whichever process
    lock         timing has a GPU alone
"""
