"""Threads that hold the GIL, and threads that have released it.

    gil.py FILE SECONDS BURNER

First, at once, for SECONDS: `bytecode-0` and `bytecode-1` run Python code, `hashing` is in hashlib, `foreign` is in BURNER,
a shared library, called through ctypes. Then `napping`, alone, asks for sleeps of no length, for SECONDS. FILE gets the
threads' ids and their CPU seconds: {name: {tid, cpu_s}}.
"""
import ctypes
import hashlib
import json
import sys
import threading
import time

FILE, SECONDS, BURNER = sys.argv[1], float(sys.argv[2]), sys.argv[3]
DATA = b"x" * (1 << 24)
TRUTH = {}
burn = ctypes.CDLL(BURNER).burn
burn.argtypes = [ctypes.c_double]


def in_bytecode(end):
    while time.monotonic() < end:
        x = 0
        for i in range(5000):
            x ^= i


def in_hashlib(end):
    while time.monotonic() < end:
        hashlib.sha256(DATA).digest()


def in_library(end):
    burn(end - time.monotonic())


def in_sleep(end):
    while time.monotonic() < end:
        time.sleep(0)


def run(what):
    what(time.monotonic() + SECONDS)
    tid = threading.get_native_id()
    TRUTH[threading.current_thread().name] = {"tid": tid, "cpu_s": time.thread_time()}


def at_once(**threads):
    threads = [threading.Thread(target=run, args=(what,), name=name.replace("_", "-")) for name, what in threads.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


at_once(bytecode_0=in_bytecode, bytecode_1=in_bytecode, hashing=in_hashlib, foreign=in_library)
at_once(napping=in_sleep)
with open(FILE, "w") as f:
    json.dump(TRUTH, f)
