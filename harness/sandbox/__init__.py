"""Shuts a process in: bubblewrap round its warm parent, and the rest from inside, so that a fork of it stays warm.

    parent   choose(), bubblewrap        a file system in which there is only what a worker may read, where that works
    warden   enter_namespaces()      own processes, network, IPC, host name, mounts, as far as permitted
    worker   fresh_proc()            a /proc that shows the worker only
             show_only(...)          in bubblewrap: a scratch folder of its own, and no other
             enter(cage)             limits, capabilities, Landlock, system call filter; there is no way back
    examiner Watch(...).breach()     memory, processes and scratch, looked at from outside
             kill_tree(pid)          the end of a process and of all that it started

`probe()` says what the machine can do, and `Probe.remedies()` what would mend it.
"""

from harness.sandbox.cage import close_fds, enter
from harness.sandbox.choice import SETTING, asked, choose
from harness.sandbox.machine import Probe, probe
from harness.sandbox.model import Cage, Level, Limits, SandboxError
from harness.sandbox.namespaces import enter_namespaces, fresh_proc, show_only
from harness.sandbox.paths import default_executable, default_readable, without
from harness.sandbox.watch import Watch, kill_tree

__all__ = [
    "SETTING",
    "Cage",
    "Level",
    "Limits",
    "Probe",
    "SandboxError",
    "Watch",
    "asked",
    "choose",
    "close_fds",
    "default_executable",
    "default_readable",
    "enter",
    "enter_namespaces",
    "fresh_proc",
    "kill_tree",
    "probe",
    "show_only",
    "without",
]
