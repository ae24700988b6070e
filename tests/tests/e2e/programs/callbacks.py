"""Python called from C called from Python, many times over: one stack through five of the library's C modules.

    callbacks.py SECONDS

Burns CPU in the innermost callback: `reduced`, called by functools.reduce in `reducing`, sorts with a key `sorted_by`, which
asks SQLite for a function `in_sqlite`, which encodes JSON with a default `in_json`, which has C's qsort compare by
`compared`. Then the same from within a `__del__` method, and in a second thread.
"""
import ctypes
import functools
import json
import sqlite3
import sys
import threading
import time

SECONDS = float(sys.argv[1])
COMPARES = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
libc = ctypes.CDLL(None)
libc.qsort.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, COMPARES]
libc.qsort.restype = None


class Odd:
    pass


def burn():
    end = time.thread_time() + SECONDS
    while time.thread_time() < end:
        x = 0
        for i in range(300):
            x ^= i


def compared(a, b):
    burn()
    return 0


def in_json(thing):
    numbers = (ctypes.c_int * 2)(2, 1)
    libc.qsort(numbers, 2, 4, COMPARES(compared))
    return 1


def in_sqlite(x):
    return json.dumps([Odd()], default=in_json)


def sorted_by(x):
    database = sqlite3.connect(":memory:")
    database.create_function("in_sqlite", 1, in_sqlite)
    return database.execute("select in_sqlite(1)").fetchone()


def reduced(a, b):
    sorted([1], key=sorted_by)
    return b


def reducing():
    functools.reduce(reduced, [1, 2])


class Dying:
    def __del__(self):
        reducing()


def dies():
    dying = Dying()
    del dying


reducing()
dies()
thread = threading.Thread(target=reducing)
thread.start()
thread.join()
