"""Builds and loads the stand-in for the CUDA driver (fakecuda.c).

As a script it builds the stand-in if need be and prints the path of its libcuda.so.1.
"""
import ctypes
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fakecuda.c")
HEADER = os.path.join(os.path.dirname(SOURCE), "fakecounts.h")
FLAGS = ["-O2", "-shared", "-fPIC", "-fno-omit-frame-pointer", "-fcf-protection=none", "-s",
         "-Wl,--build-id", "-Wl,-soname,libcuda.so.1"]


class Unavailable(Exception):
    """This machine cannot have a stand-in (no C compiler, another processor)."""


class Broken(Exception):
    """The stand-in should work here but does not."""


# ---- building ---------------------------------------------------------------------------------------------------

def compiler():
    """The command of the C compiler: $CC, or the first one found."""
    wanted = os.environ.get("CC")
    candidates = [shlex.split(wanted)] if wanted and wanted.strip() else [["cc"], ["gcc"], ["clang"]]
    for command in candidates:
        if shutil.which(command[0]):
            return command
    raise Unavailable("no C compiler (looked for %s)" % ", ".join(c[0] for c in candidates))


def cache_dir():
    """A directory of the user's own under the temporary one; nobody else's library is ever loaded from it."""
    path = os.path.join(tempfile.gettempdir(), "wholestack-standin-%d" % os.getuid())
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if found.st_uid != os.getuid() or found.st_mode & 0o022 or os.path.islink(path):
        raise Broken("%s is not a directory that only this user can write" % path)
    return path


def build():
    """The path of the built library, which is compiled only when its source, compiler or flags are new."""
    if platform.machine() != "x86_64":
        raise Unavailable("the stand-in imitates the x86-64 driver, this machine is %s" % platform.machine())
    command = compiler() + FLAGS
    text = b""
    for source in (SOURCE, HEADER):
        with open(source, "rb") as f:
            text += f.read()
    key = hashlib.sha256(text + "\0".join(command).encode()).hexdigest()[:16]
    cache = cache_dir()
    library = os.path.join(cache, key, "libcuda.so.1")
    if os.path.exists(library):
        return library
    # Built aside and linked into place, so that two at once are safe: nobody sees half a file, and the first one
    # stays (a rename would unlink it while the other process has it mapped).
    work = tempfile.mkdtemp(prefix="build-", dir=cache)
    try:
        fresh = os.path.join(work, "libcuda.so.1")
        done = subprocess.run(command + ["-o", fresh, SOURCE], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, TMPDIR=work))
        if done.returncode != 0:
            raise Broken("%s failed:\n%s" % (" ".join(command), done.stdout.decode(errors="replace").rstrip()))
        os.makedirs(os.path.dirname(library), exist_ok=True)
        try:
            os.link(fresh, library)
        except FileExistsError:
            pass
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return library


# ---- calling ----------------------------------------------------------------------------------------------------

class LaunchConfig(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("attribute_count", ctypes.c_uint)]


_u, _p, _u64 = ctypes.c_uint, ctypes.c_void_p, ctypes.c_uint64
_LAUNCH = [_p, _u, _u, _u, _u, _u, _u, _u, _p, _p, _p]
_LAUNCH_EX = [ctypes.POINTER(LaunchConfig), _p, _p, _p]
_COPY = [_u64, _u64, ctypes.c_size_t, _p]
SIGNATURES = {
    "cuInit": [_u],
    "cuDriverGetVersion": [ctypes.POINTER(ctypes.c_int)],
    "cuLaunchKernel": _LAUNCH, "cuLaunchKernel_ptsz": _LAUNCH,
    "cuLaunchKernelEx": _LAUNCH_EX, "cuLaunchKernelEx_ptsz": _LAUNCH_EX,
    "cuStreamSynchronize": [_p], "cuEventSynchronize": [_p], "cuCtxSynchronize": [], "cuStreamQuery": [_p],
    "cuMemcpyAsync": _COPY, "cuMemcpyHtoDAsync_v2": _COPY, "cuMemcpyDtoHAsync_v2": _COPY,
    "cuMemAlloc_v2": [ctypes.POINTER(_u64), ctypes.c_size_t], "cuMemFree_v2": [_u64],
}


class Driver:
    """The loaded library. `held` calls with the GIL held, as PyTorch launches; `free` releases it, as PyTorch does
    around a synchronise."""

    def __init__(self, path):
        try:
            self.held, self.free = ctypes.PyDLL(path), ctypes.CDLL(path)
            self._json = self.free.fake_counts_json
            self._reset = self.free.fake_reset
        except OSError as e:
            raise Broken("cannot load %s: %s" % (path, e))
        except AttributeError:
            raise Broken("%s is not the stand-in: it does not count its calls" % path)
        self.path = path
        self._json.argtypes, self._json.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_size_t
        for name, arguments in SIGNATURES.items():
            for library in (self.held, self.free):
                getattr(library, name).argtypes = arguments

    def reset(self):
        self._reset()

    def counts(self):
        text = ctypes.create_string_buffer(self._json(None, 0) + 1)
        self._json(text, len(text))
        return json.loads(text.value.decode())


if __name__ == "__main__":
    try:
        print(build())
    except (Unavailable, Broken) as e:
        sys.exit("standin: %s" % e)
