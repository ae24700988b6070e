"""A process that gets threads and children late.

    family.py TRUTH GO SECONDS

Once the file GO is there: a thread `late-thread` and three children, made by fork without exec: two by multiprocessing, one
by os.fork, which forks a grandchild, which has a thread. Each uses SECONDS of CPU time in a function of its own. The file
TRUTH gets, one JSON object a line as each is done: {what, pid, tid, cpu_s}.
"""
import json
import multiprocessing
import os
import sys
import threading
import time

TRUTH, GO, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])


def burn():
    end = time.thread_time() + SECONDS
    while time.thread_time() < end:
        x = 0
        for i in range(300):
            x ^= i


def tell(what):
    line = {"what": what, "pid": os.getpid(), "tid": threading.get_native_id(), "cpu_s": time.thread_time()}
    with open(TRUTH, "a") as f:
        f.write(json.dumps(line) + "\n")


def in_thread():
    burn()
    tell("in_thread")


def in_pool():
    burn()
    tell("in_pool")


def in_child():
    burn()
    tell("in_child")


def in_grandchild():
    burn()
    tell("in_grandchild")


def in_grandchilds_thread():
    burn()
    tell("in_grandchilds_thread")


while not os.path.exists(GO):
    time.sleep(0.01)

thread = threading.Thread(target=in_thread, name="late-thread")
thread.start()
context = multiprocessing.get_context("fork")
pool = [context.Process(target=in_pool) for _ in range(2)]
for process in pool:
    process.start()
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        deep = threading.Thread(target=in_grandchilds_thread, name="deep-thread")
        deep.start()
        in_grandchild()
        deep.join()
        os._exit(0)
    in_child()
    os.waitpid(grandchild, 0)
    os._exit(0)
thread.join()
for process in pool:
    process.join()
os.waitpid(child, 0)
