"""Tricks that reach beyond the worker: other processes, files, the network, memory, the disk."""

from __future__ import annotations

from trick import NOTHING, call, load

# Functions of the C library called by their addresses, which no audit hook is told of: what is left is the kernel's word.
BY_ADDRESS = '''
import ctypes
import struct


def address(name):
    """Where the C library that is loaded has a function: out of its file's table of symbols."""
    with open("/proc/self/maps") as maps:
        base, path = next((int(l.split("-")[0], 16), l.split()[-1]) for l in maps if "/libc.so" in l or "/libc-" in l)
    with open(path, "rb") as file:
        elf = file.read()
    start, size, count = struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, start + i * size) for i in range(count)]
    symbols = next(s for s in sections if s[1] == 11)
    names = sections[symbols[6]][4]
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        entry = struct.unpack_from("<IBBHQQ", elf, at)
        begin = names + entry[0]
        if elf[begin : begin + len(name) + 1] == name.encode() + bytes(1) and entry[4]:
            return base + entry[4]


def function(name, *kinds):
    return ctypes.CFUNCTYPE(ctypes.c_long, *(kinds or (ctypes.c_long,) * 6))(address(name))


'''

REACHES = [
    call(
        "signals to every process", (69,),
        '''
import signal
found = []
for pid in (EXAMINER, os.getppid(), *range(2, 3000)):
    if pid in (0, os.getpid()):
        continue
    for number in (0, signal.SIGSTOP, signal.SIGKILL):
        try:
            os.kill(pid, number)
            found.append((pid, number))
        except OSError:
            pass
give(found)
''',
        "failed", NOTHING,
    ),
    call(
        "stops its own group", (65,),
        "import signal\nos.kill(0, signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)\ngive([])",
        "failed|timed out", NOTHING + "|no answer within",
    ),
    call(
        "ptrace through ctypes", (18,),
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.ptrace(16, EXAMINER, 0, 0)", "refused", "native library",
    ),
    load(
        "system calls by their addresses", (18, 69),
        BY_ADDRESS + '''
def vec_add(x, y):
    z = right(x, y)
    found, parent = [], os.getppid() or EXAMINER
    held = ctypes.create_string_buffer(256), ctypes.create_string_buffer(os.path.join(OUTSIDE, MARK).encode())
    room, path = map(ctypes.addressof, held)
    tries = {
        "ptrace attach": ("ptrace", 16, EXAMINER), "ptrace seize": ("ptrace", 0x4206, parent),
        "another's memory": ("process_vm_readv", EXAMINER, room, 1, room, 1, 0), "a signal": ("kill", EXAMINER, 0),
        "tcp": ("socket", 2, 1, 0), "udp": ("socket", 2, 2, 0), "unix": ("socket", 1, 1, 0), "netlink": ("socket", 16, 3, 0),
        "raw": ("socket", 17, 3, 0), "pairs of datagrams": ("socketpair", 1, 2, 0, room), "namespaces": ("unshare", 0x10000000),
        "mounts": ("mount", room, room, room, 0, 0), "a program": ("execve", path, room, room), "a new session": ("setsid",),
        "a user": ("setuid", 1), "a file outside": ("open", path, 0o102, 0o600), "a folder outside": ("mkdir", path, 0o700),
        "memory without a name": ("memfd_create", room, 0), "its limits": ("prlimit64", EXAMINER, 7, 0, room),
        "shared memory": ("shmget", 0, 4096, 0o1600), "watching files": ("inotify_add_watch", 0, path, 2),
    }
    for what, (name, *numbers) in tries.items():
        if function(name)(*numbers, *(0,) * (6 - len(numbers))) % 2**32 != 2**32 - 1:  # an int of -1
            found.append(what)
    give(found)
    return z
''',
        "failed", NOTHING,
    ),
    call(
        "other processes through /proc", (18,),
        '''
found = []
for pid in {EXAMINER, os.getppid(), *range(1, 400)} - {0, os.getpid()}:
    for name in ("mem", "environ", "maps", "cmdline", "stack", "root/etc/passwd", "cwd/course.toml", "fd/0", "fd/1", "task"):
        try:
            if name == "task":
                os.listdir(f"/proc/{pid}/task")
            else:
                open(f"/proc/{pid}/{name}", "r+b" if name == "mem" else "rb").close()
            found.append((pid, name))
        except OSError:
            pass
give(found)
''',
        "failed", NOTHING,
    ),
    call(
        "secrets in the environment", (4,),
        '''
told = "\\0".join(f"{k}={v}" for k, v in os.environ.items())
for name in ("/proc/self/environ", "/proc/1/environ", f"/proc/{os.getppid()}/environ", "/proc/self/cmdline"):
    try:
        told += open(name, errors="replace").read()
    except OSError:
        pass
words = ("GRADE_TRICK_SECRET", "TOKEN", "PASSWORD", "AWS_", "GITHUB_", "SSH_", "PYTEST", "USER=", "LOGNAME", "seed")
give([word for word in words if word in told])
''',
        "failed", NOTHING,
    ),
    call(
        "answers and other people's work read", (18, 71, 76),
        '''
import glob
found = []
secret = [OTHER, ROOT + "/reference/ch02_triton_syntax/vec_add.py", ROOT + "/graders/ch02_triton_syntax.py",
          ROOT + "/tests/conftest.py", ROOT + "/exercises/ch02_triton_syntax/vec_add.py", ROOT + "/course.toml",
          ROOT + "/.git/HEAD", ROOT + "/.git", "/etc/shadow", "/proc/self/root" + OTHER,
          os.path.relpath(OTHER), os.path.expanduser("~root/.bashrc")]
for number, path in enumerate(secret):
    for way in ("open", "link", "hard link", "folder", "module"):
        try:
            if way == "open":
                open(path).close()
            elif way == "link":
                os.symlink(path, f"link-{number}")
                open(f"link-{number}").close()
            elif way == "hard link":
                os.link(path, f"hard-{number}")
            elif way == "folder":
                os.listdir(os.path.dirname(path) if path != "/etc/shadow" else "/root")
            else:
                import importlib.machinery
                importlib.machinery.SourceFileLoader("found", path).get_data(path)
            found.append((way, path))
        except OSError:
            pass
found += glob.glob(ROOT + "/reference/**", recursive=True)[1:] + glob.glob("/tmp/*/*") + glob.glob("/home/*")
give(found)
''',
        "failed", NOTHING,
    ),
    call(
        "the reference imported", (18, 75),
        '''
import importlib
found = []
for folder in (ROOT, ROOT + "/reference/ch02_triton_syntax", os.path.dirname(OTHER)):
    sys.path.insert(0, folder)
for name in ("reference.ch02_triton_syntax.vec_add", "vec_add_reference", "ch02_triton_syntax"):
    importlib.invalidate_caches()
    try:
        found.append(importlib.import_module(name))
    except ImportError:
        pass
sys.modules.pop("vec_add", None)
module = importlib.import_module("vec_add")
found += [module] if not module.__file__.startswith(os.getcwd()) else []
give(found)
''',
        "failed", NOTHING,
    ),
    call(
        "files written elsewhere", (6, 71),
        '''
found = []
open("own", "w").close()
homes = [OUTSIDE, ROOT, ROOT + "/harness", ROOT + "/.grade", os.path.dirname(OTHER), os.path.dirname(os.getcwd()), "/tmp",
         "/var/tmp", "/dev/shm", "/run", "/", os.path.dirname(torch.__file__), os.path.dirname(os.__file__),
         "/proc/self/root" + OUTSIDE]
for home in homes:
    here = os.path.join(home, MARK)
    ways = (
        lambda: open(here, "w").close(), lambda: os.mkdir(here), lambda: os.mkfifo(here), lambda: os.symlink("own", here),
        lambda: os.link("own", here), lambda: os.rename("own", here), lambda: os.mknod(here, 0o600),
        lambda: os.truncate(OTHER, 0), lambda: os.remove(OTHER), lambda: os.chmod(OTHER, 0o777), lambda: os.utime(OTHER),
        lambda: os.replace("own", OTHER), lambda: open(OTHER, "a").close(),
    )
    for number, way in enumerate(ways):
        try:
            way()
            found.append((home, number))
        except OSError:
            pass
try:
    os.symlink(OUTSIDE, "out")
    open("out/" + MARK, "w").close()
    found.append("through a link")
except OSError:
    pass
give(found)
''',
        "failed", NOTHING,
    ),
    call(
        "what it found out sent away", (),
        '''
import socket
import urllib.request
ways = (
    lambda: socket.create_connection(("127.0.0.1", PORT), timeout=1).sendall(b"x"),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", PORT)),
    lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"x", ("::1", PORT)),
    lambda: socket.socket(socket.AF_UNIX).connect(SOCKET),
    lambda: urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", timeout=1),
    lambda: __import__("_socket").socket(2, 1),
)
for way in ways:
    try:
        way()
    except Exception:
        pass
''',
        "refused", "opens a socket",
    ),
    call(
        "a program started past the audit", (69,),
        '''
import _posixsubprocess

def child():
    open(MARK, "w").close()
    while True:
        pass

_posixsubprocess.fork_exec([b"/bin/true"], [b"/bin/true"], True, (), None, None, -1, -1, -1, -1, -1, -1, -1, -1, True, False, -1,
                           None, None, None, -1, child, False)
''',
        "refused", "starts another program (fork_exec)",
    ),
    load(
        "a fork bomb that no audit hook hears of", (69,),
        BY_ADDRESS + '''
def vec_add(x, y):
    fork = ctypes.CFUNCTYPE(ctypes.c_int)(address("fork"))
    while True:
        fork()
''',
        "refused|timed out|crashed", "",
    ),
    call(
        "threads by every door", (13,),
        '''
import _thread
import threading
from concurrent.futures import ThreadPoolExecutor
out = []

def late():
    out.append(x + y)
    while True:
        pass

def started(way):
    try:
        way()
    except Exception:
        pass

for way in (
    lambda: threading.Thread(target=late, daemon=True).start(), lambda: _thread.start_new_thread(late, ()),
    lambda: threading.Timer(0.0, late).start(), lambda: ThreadPoolExecutor(1).submit(late),
    lambda: _thread.start_new_thread.__wrapped__(late, ()), lambda: _thread.start_new(late, ()),
):
    started(way)
''',
        "refused", "starts a thread",
    ),
    load(
        "every signal ignored, and a loop that ends never", (66, 65, 70),
        '''
import signal

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))

def vec_add(x, y):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
''',
        "timed out", "no answer within",
    ),
    call(
        "limits raised", (67, 69),
        '''
import resource
found = []
for name in ("NPROC", "FSIZE", "NOFILE", "DATA", "CORE", "MSGQUEUE"):
    what = getattr(resource, "RLIMIT_" + name)
    soft, hard = resource.getrlimit(what)
    for wanted in ((hard + 1, hard + 1), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)):
        try:
            resource.setrlimit(what, wanted)
        except (OSError, ValueError, OverflowError):
            pass
    if resource.getrlimit(what)[1] != hard or hard == resource.RLIM_INFINITY:
        found.append(name)
give(found)
''',
        "failed", NOTHING,
    ),
    call(
        "the disk filled with small files", (68,),
        "n = 0\nwhile True:\n    n += 1\n    with open(f'{MARK}-{n}', 'wb') as file:\n        file.write(bytes(1 << 18))",
        "refused|failed", "",
    ),
    call(
        "the disk filled with empty files", (68,),
        "number = 0\nwhile True:\n    number += 1\n    os.close(os.open(f'{MARK}-{number}', os.O_CREAT))",
        "refused|timed out", "",
    ),
    call(
        "a file that says it is large", (68,),
        "with open(MARK, 'wb') as file:\n    file.truncate(1 << 40)",
        "failed|crashed", "File too large|ended by",
    ),
    call(
        "a flood of output that never ends", (68, 65),
        "data = b'all tests passed \\x1b[2J\\xff\\r\\n' * 4000\nwhile True:\n    os.write(1, data)\n    os.write(2, data)",
        "timed out", "no answer within",
    ),
    call(
        "memory of a mapping that is shared", (67,),
        "import mmap\nheld = []\nwhile True:\n    held.append(mmap.mmap(-1, 1 << 24))\n    held[-1].write(bytes(1 << 24))",
        "out of memory", "",
    ),
]  # fmt: skip
