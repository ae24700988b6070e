"""Runs functions with odd names.

    names.py FILE SECONDS

Each uses SECONDS of CPU time. FILE gets the names, as a JSON list.
"""
import json
import sys
import time

FILE, SECONDS = sys.argv[1], float(sys.argv[2])
NAMES = [
    "zażółć_gęślą", "кириллица", "函数_𝒳", "a;b;c", "two words 12", "line1\nline2", "q\"<&>'x", "esc\x1b[31m", "x" * 700,
    "trail 7", " lead", "trail ", "", "semi; 99", "# comment", "back\\slash", "\\u{3b}", "tab\there", "a (b.py:7)", "entry_[k]",
]


def body(end):
    while time.thread_time() < end:
        x = 0
        for i in range(300):
            x ^= i


for name in NAMES:
    qualified = {"co_qualname": name} if sys.version_info >= (3, 11) else {}
    code = body.__code__.replace(co_name=name, **qualified)
    type(body)(code, globals(), name)(time.thread_time() + SECONDS)
with open(FILE, "w") as f:
    json.dump(NAMES, f)
