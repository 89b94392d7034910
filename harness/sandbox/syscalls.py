"""System calls that Python's library does not offer, by number, for x86_64 and aarch64."""

import ctypes
import os
import platform
import signal
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

MACHINE: Final = platform.machine()

# Name: (x86_64, aarch64); None where the architecture never had the call. From the kernel's syscall_64.tbl
# and include/uapi/asm-generic/unistd.h; calls numbered 424 and above are the same everywhere.
NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "accept": (43, 202), "accept4": (288, 242), "acct": (163, 89), "add_key": (248, 217),
    "adjtimex": (159, 171), "bind": (49, 200), "bpf": (321, 280), "capset": (126, 91), "chmod": (90, None),
    "chown": (92, None), "chroot": (161, 51), "clock_adjtime": (305, 266), "clock_settime": (227, 112),
    "clone": (56, 220), "clone3": (435, 435), "connect": (42, 203), "delete_module": (176, 106),
    "execve": (59, 221), "execveat": (322, 281), "fanotify_init": (300, 262), "fchmod": (91, 52),
    "fchmodat": (268, 53), "fchmodat2": (452, 452), "fchown": (93, 55), "fchownat": (260, 54),
    "fcntl": (72, 25), "file_setattr": (469, 469), "finit_module": (313, 273), "fremovexattr": (199, 16),
    "fsconfig": (431, 431), "fsetxattr": (190, 7), "fsmount": (432, 432), "fsopen": (430, 430),
    "fspick": (433, 433), "futimesat": (261, None), "init_module": (175, 105), "inotify_add_watch": (254, 27),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "io_uring_setup": (425, 425),
    "ioctl": (16, 29), "ioperm": (173, None), "iopl": (172, None), "ioprio_set": (251, 30),
    "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219),
    "kill": (62, 129), "landlock_add_rule": (445, 445), "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446), "lchown": (94, None), "listen": (50, 201),
    "lookup_dcookie": (212, 18), "lremovexattr": (198, 15), "lsetxattr": (189, 6), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "migrate_pages": (256, 238), "modify_ldt": (154, None), "mount": (165, 40),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239), "mq_open": (240, 180),
    "msgget": (68, 186), "name_to_handle_at": (303, 264), "open": (2, None), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "openat": (257, 56), "openat2": (437, 437),
    "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pivot_root": (155, 41), "prctl": (157, 167),
    "prlimit64": (302, 261), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142), "removexattr": (197, 14),
    "removexattrat": (466, 466), "request_key": (249, 218), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "seccomp": (317, 277),
    "semget": (64, 190), "setdomainname": (171, 162), "setfsgid": (123, 152), "setfsuid": (122, 151),
    "setgid": (106, 144), "setgroups": (116, 159), "sethostname": (170, 161), "setns": (308, 268),
    "setpgid": (109, 154), "setpriority": (141, 140), "setregid": (114, 143), "setresgid": (119, 149),
    "setresuid": (117, 147), "setreuid": (113, 145), "setsid": (112, 157), "settimeofday": (164, 170),
    "setuid": (105, 146), "setxattr": (188, 5), "setxattrat": (463, 463), "shmat": (30, 196),
    "shmget": (29, 194), "socket": (41, 198), "socketpair": (53, 199), "swapoff": (168, 225),
    "swapon": (167, 224), "syslog": (103, 116), "tgkill": (234, 131), "tkill": (200, 130),
    "truncate": (76, 45), "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282),
    "utime": (132, None), "utimensat": (280, 88), "utimes": (235, None), "vhangup": (153, 58),
}  # fmt: skip


def number(name: str, machine: str = MACHINE) -> int | None:
    """The number of a call on an architecture; None where it has no such call."""
    if machine not in ("x86_64", "aarch64"):
        return None
    return NUMBERS[name][machine == "aarch64"]


def call(name: str, *arguments: int | bytes | None) -> int:
    """Makes a system call; raises OSError as the os module does (ENOSYS where the number is not known)."""
    nr = number(name)
    if nr is None:
        raise OSError(38, f"{name} has no known number on {MACHINE}")
    # Pointers are passed as bytes; a bare Python int would be cut to 32 bits.
    passed = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments]
    ctypes.set_errno(0)
    result = int(_libc.syscall(ctypes.c_long(nr), *passed))
    if result == -1:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno), name)
    return result


def prctl(option: int, *arguments: int) -> int:
    """prctl(2), the arguments that are left out being 0."""
    return call("prctl", option, *arguments, *(0 for _ in range(4 - len(arguments))))


def die_with_parent(parent: int = 0) -> None:
    """Have this process killed when the one that forked it ends. `parent`: its number, where it can be seen from here;
    it may have ended before it could be tied to."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:
        os._exit(1)


PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_GET_SECCOMP: Final = 21
PR_SET_SECCOMP: Final = 22
PR_CAPBSET_READ: Final = 23
PR_CAPBSET_DROP: Final = 24
PR_SET_SECUREBITS: Final = 28
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_MM: Final = 35
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_SET_PTRACER: Final = 0x59616D61
