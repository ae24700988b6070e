"""A generator that two functions resume, one for a hundredth of the other's work, and a chain of coroutines.

    resumed.py SECONDS

First the generator, then the coroutines, for SECONDS of CPU time each.
"""
import asyncio
import sys
import time

SECONDS = float(sys.argv[1])


def worker():
    while True:
        rounds = yield
        x = 0
        for i in range(rounds):
            x ^= i


shared = worker()
next(shared)


def a_little():
    shared.send(200)


def a_lot():
    shared.send(20000)


def drive():
    end = time.thread_time() + SECONDS
    while time.thread_time() < end:
        a_little()
        a_lot()


async def innermost():
    end = time.thread_time() + SECONDS
    while time.thread_time() < end:
        x = 0
        for i in range(300):
            x ^= i


async def middle():
    await innermost()


async def outermost():
    await middle()


drive()
asyncio.run(outermost())
