"""Lives for a moment: burns 50 ms of CPU time in `briefly`, and is gone."""
import time


def briefly():
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        x = 0
        for i in range(300):
            x ^= i


briefly()
