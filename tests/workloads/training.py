#!/usr/bin/env python3
"""A pretend speculative-decoding training job whose CPU time is known: what a profiler says about it can be checked.

Target threads make packs of hidden states, drafter threads take them from a bounded queue, build masks, launch
kernels on the stand-in for the CUDA driver, and wait for it. The last line of stdout is one JSON object, the truth
(README.md describes it). Standard library only, CPython 3.8 and later.
"""
import argparse
import collections
import ctypes
import hashlib
import json
import os
import platform
import queue
import signal
import sys
import threading
import time
import traceback
import zlib

sys.dont_write_bytecode = True  # leave nothing behind, least of all files of root's
import standin

# What a round costs. Every metered function takes a millisecond or more a call, so that reading the clock around it
# (two system calls) does not matter.
STATES = "".join(hashlib.sha256(b"%d" % i).hexdigest() for i in range(40960)).encode()  # 2.5 MiB
STATES_COMPRESSED = zlib.compress(STATES, 1)
CHUNK_STEPS = 14000
MASK_BLOCKS = 160
LAUNCHES, LAUNCHES_PTSZ, LAUNCHES_EX = 104, 8, 32
HTOD_BYTES, DTOD_BYTES, DTOH_BYTES, PACK_BYTES = 512 << 10, 1 << 20, 128 << 10, 128 << 10
BAD_LAUNCH_EVERY = 16  # rounds between two launches that fail
QUEUE_DEPTH = 4
LOADER_PAUSE, REPORTER_PAUSE = 0.02, 0.1
METERED = ("get_hidden_states_packed", "_chunk_fwd", "create_block_mask", "launch_draft_step", "wait_for_device", "load_batch")


# ---- the functions a profile should show ------------------------------------------------------------------------
# A comment "hot: F" marks the line where nearly all of F's time goes, "calls: NAME" a line that calls the driver;
# the truth finds the numbers of these lines by the comments.

def get_hidden_states_packed(driver, stream, meter):
    """Native work with the GIL released."""
    if driver:
        driver.held.cuMemcpyDtoHAsync_v2(0x1000, 0x2000, PACK_BYTES, stream)  # calls: cuMemcpyDtoHAsync_v2
        meter.called("cuMemcpyDtoHAsync_v2")
    states = zlib.decompress(STATES_COMPRESSED, bufsize=len(STATES))  # one buffer: the GIL is taken back only once
    return states, hashlib.sha512(states).digest()


def _chunk_fwd(steps):
    """Bytecode with the GIL held."""
    acc = 1
    for h in range(steps):
        acc = ((((acc * 69069 + h) & 0xFFFFF) * 5 + (acc >> 3) ^ h) * 9 + (acc ^ h >> 1) + (h & 7) * (acc & 15)) & 0xFFFFF  # hot: _chunk_fwd
    return acc


def create_block_mask(blocks):
    """Bytecode with the GIL held."""
    mask = bytearray(blocks * blocks)
    for q in range(blocks):
        for kv in range(blocks):
            mask[q * blocks + kv] = ((kv <= q) & ((q - kv < 32) | ((kv * 7 + q * 3) % 5 == 0) | (kv >> 2 == q >> 2)))  # hot: create_block_mask
    return mask


def launch_draft_step(driver, stream, bad_launch, meter):
    """Many short driver calls with the GIL held: copy in, launch, copy out."""
    cuda, config = driver.held, standin.LaunchConfig((8, 1, 1), (128, 1, 1), 0, stream, None, 0)
    buffer = ctypes.c_uint64()
    cuda.cuMemAlloc_v2(buffer, HTOD_BYTES)  # calls: cuMemAlloc_v2
    for _ in range(2):
        cuda.cuMemcpyHtoDAsync_v2(buffer, 0x1000, HTOD_BYTES, stream)  # calls: cuMemcpyHtoDAsync_v2
    cuda.cuMemcpyAsync(buffer, buffer, DTOD_BYTES, stream)  # calls: cuMemcpyAsync
    for _ in range(LAUNCHES):
        cuda.cuLaunchKernel(0xF00, 8, 1, 1, 128, 1, 1, 0, stream, None, None)  # calls: cuLaunchKernel
    for _ in range(LAUNCHES_PTSZ):
        cuda.cuLaunchKernel_ptsz(0xF00, 8, 1, 1, 128, 1, 1, 0, stream, None, None)  # calls: cuLaunchKernel_ptsz
    for _ in range(LAUNCHES_EX):
        cuda.cuLaunchKernelEx(config, 0xF00, None, None)  # calls: cuLaunchKernelEx
    if bad_launch:
        meter.called("cuLaunchKernel", error=cuda.cuLaunchKernel(0xF00, 0, 1, 1, 1, 1, 1, 0, stream, None, None))  # calls: cuLaunchKernel
    cuda.cuMemcpyDtoHAsync_v2(0x1000, buffer, DTOH_BYTES, stream)  # calls: cuMemcpyDtoHAsync_v2
    cuda.cuMemFree_v2(buffer)  # calls: cuMemFree_v2
    for name, times in (("cuMemAlloc_v2", 1), ("cuMemcpyHtoDAsync_v2", 2), ("cuMemcpyAsync", 1), ("cuLaunchKernel", LAUNCHES),
                        ("cuLaunchKernel_ptsz", LAUNCHES_PTSZ), ("cuLaunchKernelEx", LAUNCHES_EX),
                        ("cuMemcpyDtoHAsync_v2", 1), ("cuMemFree_v2", 1)):
        meter.called(name, times)


def wait_for_device(driver, stream, nth, meter):
    """Asks, then waits: six times in eight by spinning, once by spinning and sleeping, once by sleeping."""
    meter.called("cuStreamQuery", error=driver.held.cuStreamQuery(stream))  # calls: cuStreamQuery
    if nth % 8 == 3:
        driver.free.cuCtxSynchronize()  # calls: cuCtxSynchronize
        meter.called("cuCtxSynchronize")
    elif nth % 8 == 7:
        driver.free.cuEventSynchronize(stream)  # calls: cuEventSynchronize
        meter.called("cuEventSynchronize")
    else:
        driver.free.cuStreamSynchronize(stream)  # calls: cuStreamSynchronize
        meter.called("cuStreamSynchronize")


def load_batch(text):
    """Native work with the GIL held."""
    return sum(map(len, json.loads(text)))


# ---- the threads ------------------------------------------------------------------------------------------------

def target_worker(job, meter, index):
    stream = 0x10 * (index + 1)
    while not job.stop.is_set():
        meter.start()
        pack = get_hidden_states_packed(job.driver, stream, meter)
        meter.finish("get_hidden_states_packed")
        meter.start()
        _chunk_fwd(CHUNK_STEPS)
        meter.finish("_chunk_fwd")
        while not job.stop.is_set():
            try:
                job.packs.put(pack, timeout=0.1)
                job.count_pack()
                break
            except queue.Full:
                pass


def drafter_worker(job, meter, index):
    stream, nth = 0x1000 + 0x10 * index, 0
    while not job.stop.is_set():
        try:
            job.packs.get(timeout=0.1)
        except queue.Empty:
            continue
        number = job.take_round()
        if number is None:
            break
        meter.start()
        create_block_mask(MASK_BLOCKS)
        meter.finish("create_block_mask")
        if job.driver:
            meter.start()
            launch_draft_step(job.driver, stream, number % BAD_LAUNCH_EVERY == 0, meter)
            meter.finish("launch_draft_step")
            meter.start()
            wait_for_device(job.driver, stream, nth, meter)
            meter.finish("wait_for_device")
        nth += 1


def data_loader(job, meter, index):
    text = json.dumps([[i, i * 0.5, str(i)] for i in range(5000)])
    while not job.stop.wait(LOADER_PAUSE):
        meter.start()
        load_batch(text)
        meter.finish("load_batch")


def metrics_reporter(job, meter, index):
    """Sleeps, nearly always."""
    while not job.stop.wait(REPORTER_PAUSE):
        job.lag = job.packed - job.rounds


class Meter:
    """The CPU time of one thread and of the metered functions it calls, and its own count of its driver calls."""

    def __init__(self, name):
        self.name, self.tid, self.os_name = name, None, None
        self.cpu_ns = self.before_ns = self._from = 0
        self.functions = {}  # name -> [calls, ns]
        self.cuda = collections.Counter()
        self.cuda_errors = collections.Counter()

    def begin(self):
        self.tid, self.before_ns = threading.get_native_id(), time.thread_time_ns()

    def end(self):
        with open("/proc/self/task/%d/comm" % self.tid) as f:
            self.os_name = f.read().rstrip("\n")
        self.cpu_ns = time.thread_time_ns()

    def start(self):
        self._from = time.thread_time_ns()

    def finish(self, function):
        spent = self.functions.setdefault(function, [0, 0])
        spent[1] += time.thread_time_ns() - self._from
        spent[0] += 1

    def called(self, name, times=1, error=0):
        self.cuda[name] += times
        if error and error != 600:  # not ready is an answer
            self.cuda_errors[name] += times

    def truth(self):
        return {"name": self.name, "tid": self.tid, "os_name": self.os_name,
                "cpu_s": self.cpu_ns / 1e9, "cpu_before_s": self.before_ns / 1e9,
                "functions": {f: {"calls": c, "cpu_s": ns / 1e9} for f, (c, ns) in self.functions.items()}}


class Job:
    def __init__(self, options, driver):
        self.options, self.driver = options, driver
        self.packs = queue.Queue(QUEUE_DEPTH)
        self.go, self.stop = threading.Event(), threading.Event()
        self.rounds = self.packed = self.lag = 0
        self.ended_by = self.failure = None
        self._lock = threading.Lock()
        self.meters, self.threads = [], []
        for i in range(options.targets):
            self._add("target-%d" % i, target_worker, i)
        for i in range(options.drafters):
            self._add("drafter-%d" % i, drafter_worker, i)
        self._add("data_loader", data_loader, 0)
        self._add("metrics_reporter", metrics_reporter, 0)

    def _add(self, name, worker, index):
        meter = Meter(name)
        self.meters.append(meter)
        self.threads.append(threading.Thread(target=self._run, args=(worker, meter, index), name=name))

    def _run(self, worker, meter, index):
        if self.options.os_names:
            ctypes.CDLL(None).prctl(15, meter.name.encode()[:15], 0, 0, 0)  # PR_SET_NAME
        self.go.wait()
        meter.begin()
        try:
            worker(self, meter, index)
        except Exception:
            self.failure = traceback.format_exc()
            self.stop.set()
        meter.end()

    def count_pack(self):
        with self._lock:
            self.packed += 1

    def take_round(self):
        """The number of the next round, or None when there are enough: then it ends the job."""
        with self._lock:
            if self.rounds == self.options.launches:
                self.ended_by = "launches"
                self.stop.set()
                return None
            self.rounds += 1
            return self.rounds - 1


# ---- the truth --------------------------------------------------------------------------------------------------

def marked_lines():
    """({function: number of its hot line}, {driver call: [numbers of the lines that make it]})"""
    hot, calls = {}, {}
    with open(os.path.abspath(__file__), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            code, _, comment = line.partition("  # ")
            if code.strip() and comment.startswith("hot: "):
                hot[comment[5:].strip()] = number
            elif code.strip() and comment.startswith("calls: "):
                calls.setdefault(comment[7:].strip(), []).append(number)
    return hot, calls


def functions_truth(meters, hot):
    work_ns = sum(m.cpu_ns - m.before_ns for m in meters)
    result = {}
    for name in METERED:
        calls, ns = (sum(m.functions.get(name, [0, 0])[i] for m in meters) for i in (0, 1))
        result[name] = {"calls": calls, "cpu_s": ns / 1e9, "share": ns / work_ns if work_ns else 0.0,
                        "first_line": globals()[name].__code__.co_firstlineno, "hot_line": hot.get(name)}
    return result


def cuda_truth(driver, meters, call_lines):
    counts = driver.counts()
    names = {m.tid: m.name for m in meters}
    for thread in counts["threads"]:
        thread["name"] = names.get(thread["tid"])
    counted = sum((m.cuda for m in meters), collections.Counter())
    errors = sum((m.cuda_errors for m in meters), collections.Counter())
    for name, tally in counts["functions"].items():
        tally["lines"] = call_lines.get(name, [])
    return {"library": driver.path, "functions": counts["functions"], "threads": counts["threads"],
            "python_counts": dict(counted), "python_errors": dict(errors),
            "agrees": {n: t["calls"] for n, t in counts["functions"].items()} == dict(counted)
            and {n: t["errors"] for n, t in counts["functions"].items() if t["errors"]} == dict(errors)
            and {t["tid"]: {n: c["calls"] for n, c in t["functions"].items()} for t in counts["threads"]}
            == {m.tid: dict(m.cuda) for m in meters if m.cuda}}


# ---- the command line -------------------------------------------------------------------------------------------

def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])

    def positive(kind):
        def convert(text):
            value = kind(text)
            if not 0 < value < 1e9:
                raise ValueError
            return value
        convert.__name__ = "positive " + kind.__name__  # argparse names it in its message
        return convert

    parser.add_argument("--seconds", type=positive(float), metavar="S", help="work this long (default 10, unless --launches)")
    parser.add_argument("--launches", type=positive(int), metavar="N", help="stop after exactly N launch rounds")
    parser.add_argument("--targets", type=positive(int), default=2, metavar="N", help="target threads (default 2)")
    parser.add_argument("--drafters", type=positive(int), default=1, metavar="N", help="drafter threads (default 1)")
    driver = parser.add_mutually_exclusive_group()
    driver.add_argument("--libcuda", metavar="PATH", help="a stand-in that is already built (default: build it)")
    driver.add_argument("--no-cuda", action="store_true", help="leave the driver part out")
    parser.add_argument("--os-names", action="store_true", help="give the kernel the threads' names, too (3.14 does by itself)")
    parser.add_argument("--ready", metavar="FILE", help="create FILE, with the pid in it, when the library is mapped and the threads exist")
    parser.add_argument("--wait-for", metavar="FILE", help="map the library, create the threads, then sleep until FILE exists")
    parser.add_argument("--truth", metavar="FILE", help="write the truth to FILE as well")
    parser.add_argument("--quiet", action="store_true", help="no progress lines")
    options = parser.parse_args(arguments)
    if options.seconds is None and options.launches is None:
        options.seconds = 10.0
    if options.libcuda and not os.path.isfile(options.libcuda):
        parser.error("--libcuda: no such file: %s" % options.libcuda)
    for name in ("ready", "truth"):
        path = getattr(options, name)
        if path and not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
            parser.error("--%s: cannot write there: %s" % (name, path))
    return options


def load_driver(options):
    if options.no_cuda:
        return None
    try:
        return standin.Driver(options.libcuda or standin.build())
    except standin.Unavailable as e:
        print("training: %s: running without the driver part" % e, file=sys.stderr)
        return None


def write_whole(path, text):
    """Nobody sees half a file."""
    partial = "%s.%d" % (path, os.getpid())
    with open(partial, "w") as f:
        f.write(text)
    os.replace(partial, path)


def init_driver(driver, meter):
    driver.reset()
    if driver.free.cuInit(0) != 0 or driver.free.cuDriverGetVersion(ctypes.c_int()) != 0:
        raise standin.Broken("the stand-in does not start")
    meter.called("cuInit")
    meter.called("cuDriverGetVersion")


def main():
    options = parse(sys.argv[1:])
    signals = []  # the handler only notes: it may run while the main thread holds an Event's lock
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, frame: signals.append(signal.Signals(n).name))

    driver = load_driver(options)
    job = Job(options, driver)
    for thread in job.threads:
        thread.start()
    if options.ready:
        write_whole(options.ready, "%d\n" % os.getpid())
    while options.wait_for and not signals and not os.path.exists(options.wait_for):
        time.sleep(0.02)

    own = Meter("MainThread")
    own.begin()
    process_before, began = time.process_time_ns(), time.monotonic_ns()
    if driver:
        init_driver(driver, own)
    working = time.monotonic()
    if signals:
        job.stop.set()
    job.go.set()
    shown, shown_rounds, shown_cpu = working, 0, time.process_time()
    while not job.stop.is_set():
        time.sleep(0.05)
        now = time.monotonic()
        if signals or options.seconds is not None and now - working >= options.seconds:
            job.stop.set()
        elif now - shown >= 1 and not options.quiet:
            cpu = time.process_time()
            print("training: %3.0f s  %d rounds (%.0f/s)  %d packs waiting  CPU %.0f %%"
                  % (now - working, job.rounds, (job.rounds - shown_rounds) / (now - shown), job.packs.qsize(),
                     100 * (cpu - shown_cpu) / (now - shown)), file=sys.stderr)
            shown, shown_rounds, shown_cpu = now, job.rounds, cpu
    for thread in job.threads:
        thread.join()
    own.end()
    ended, process_after = time.monotonic_ns(), time.process_time_ns()
    if job.failure:
        sys.exit("training: a thread failed:\n%s" % job.failure)

    hot, call_lines = marked_lines()
    meters = job.meters + [own]
    truth = {
        "workload": "training", "pid": os.getpid(), "python": platform.python_version(), "executable": sys.executable,
        "file": os.path.abspath(__file__), "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "ended_by": signals[0] if signals else job.ended_by or "time",
        "wall_s": (ended - began) / 1e9, "began_monotonic_ns": began, "ended_monotonic_ns": ended,
        "process_cpu_s": process_after / 1e9, "process_cpu_before_s": process_before / 1e9,
        "rounds": job.rounds, "packs": job.packed,
        "threads": [m.truth() for m in meters],
        "functions": functions_truth(meters, hot),
        "cuda": cuda_truth(driver, meters, call_lines) if driver else None,
    }
    text = json.dumps(truth)
    if options.truth:
        write_whole(options.truth, text + "\n")
    print(text, flush=True)
    if driver and not truth["cuda"]["agrees"]:
        sys.exit("training: the driver counted other calls than Python did")


if __name__ == "__main__":
    try:
        main()
    except (standin.Broken, OSError) as e:
        sys.exit("training: %s" % e)
