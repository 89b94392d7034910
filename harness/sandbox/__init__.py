"""Shuts a process in, from inside: no exec, so that a fork of a warm parent stays warm.

    warden   enter_namespaces()      own processes, network, IPC, host name, mounts, as far as permitted
    worker   fresh_proc()            a /proc that shows the worker only
             enter(cage)             limits, capabilities, Landlock, system call filter; there is no way back
    examiner Watch(...).breach()     memory, processes and scratch, looked at from outside
             kill_tree(pid)          the end of a process and of all that it started

`probe()` says what the machine can do, and `Probe.remedies()` what would mend it.
"""

from harness.sandbox.cage import close_fds, enter
from harness.sandbox.machine import Probe, probe
from harness.sandbox.model import Cage, Level, Limits, SandboxError
from harness.sandbox.namespaces import enter_namespaces, fresh_proc
from harness.sandbox.paths import default_executable, default_readable, without
from harness.sandbox.watch import Watch, kill_tree

__all__ = [
    "Cage",
    "Level",
    "Limits",
    "Probe",
    "SandboxError",
    "Watch",
    "close_fds",
    "default_executable",
    "default_readable",
    "enter",
    "enter_namespaces",
    "fresh_proc",
    "kill_tree",
    "probe",
    "without",
]
