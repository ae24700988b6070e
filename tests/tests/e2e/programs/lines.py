"""Burns CPU below calls of many shapes, and says first on which lines its own frames are.

    lines.py FILE SECONDS

Each shape burns SECONDS of CPU time in `burn`. At the end FILE gets a JSON list of the shapes' chains: the frames above
`burn`, root first, as the interpreter itself sees them: [name, qualified from 3.11 on, last part of the file's path, line].
"""
import asyncio
import functools
import json
import os
import sys
import time

FILE, SECONDS = sys.argv[1], float(sys.argv[2])
CHAINS = []


def burn(*_, **__):
    frame, chain = sys._getframe(1), []
    while frame:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        chain.append([name, os.path.basename(code.co_filename), frame.f_lineno])
        frame = frame.f_back
    CHAINS.append(chain[::-1])
    end = time.thread_time() + SECONDS
    while time.thread_time() < end:
        x = 0
        for i in range(300):
            x ^= i
    return 1


def keyword_of_a_call_on_many_lines():
    return dict(
        one=1,
        two=burn(
            1,
            2,
            3,
        ),
        three=3,
    )


def identity(function):
    return function


@identity
@functools.lru_cache(
    maxsize=None,
)
def decorated():
    return (
        burn(

        )
    )


class Chained:
    def step(self, action=int):
        action()
        return self


def chained_methods():
    return (
        Chained()
        .step()
        .step(
            burn
        )
        .step()
    )


def comprehension():
    return [
        burn(
            i
        )
        for i in range(1)
        if i == 0
    ]


def generator():
    yield 1
    yield burn()


def delegating():
    yield from \
        generator()


def generators():
    for _ in delegating():
        pass


class Manager:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        burn()


def manager():
    with Manager(), \
            Manager():
        len("nothing here")
    return 1


class Number:
    def __add__(self, _):
        return burn()

    @property
    def value(self):
        return burn()


def operator():
    return (
        Number()
        +
        Number()
    )


def attribute():
    return [
        0,
        Number().value,
    ]


def called_back_from_c():
    return sorted(
        [1],
        key=lambda _:
            burn(),
    )


def last_words():
    try:
        return 0
    finally:
        burn()


def handler():
    try:
        raise ValueError
    except (
        KeyError,
        ValueError,
    ):
        burn()


def class_body():
    class Body:
        a = 1
        b = burn()
    return Body


def recursive(depth):
    if depth == 0:
        return burn()
    return 1 + \
        recursive(depth - 1)


def outer():
    x = 1

    def inner():
        return x + burn()
    return inner()


def far_down():
    exec(compile("\n" * 70000 + "burn()\n", "far_down.py", "exec"), globals())


def jumps_back():
    for _ in range(
        burn()
    ):
        burn()


async def awaited():
    return burn()


async def awaiting():
    return await \
        awaited()


def coroutine():
    return asyncio.run(awaiting())


def conditions():
    assert (
        0
        or burn()
    ), "never"


MATCH = """
def matched():
    match [1, 2]:
        case [1, x] if burn():
            return f"{x}" \\
                f"{burn()}"


matched()
"""


def match():
    if sys.version_info >= (3, 10):
        exec(compile(MATCH, "match.py", "exec"), globals())


SHAPES = [
    keyword_of_a_call_on_many_lines, decorated, chained_methods, comprehension, generators, manager, operator, attribute,
    called_back_from_c, last_words, handler, class_body, lambda: recursive(3), outer, far_down, jumps_back, coroutine,
    conditions, match,
]
for shape in SHAPES:
    shape()
with open(FILE, "w") as f:
    json.dump(CHAINS, f)
