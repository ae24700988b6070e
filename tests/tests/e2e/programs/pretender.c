/* Looks like a CPython to whoever looks at its exported symbols, and is none: it burns CPU for a second.
 *
 * Build it with -rdynamic and -DVERSION=0x..., as PY_VERSION_HEX has it, or -DNO_VERSION, and then perhaps -DTAG=..., the tag of its cached byte code; with -DSIZE=..., the size of _PyRuntime. What is in
 * _PyRuntime are addresses of itself, as bad as a damaged process could have them.
 */
#include <stdint.h>
#include <time.h>

#ifndef SIZE
#define SIZE 200000
#endif

#ifndef NO_VERSION
const unsigned long Py_Version = VERSION;
#endif
#ifdef TAG
const char tag[] = TAG;
#endif
uint64_t _PyRuntime[SIZE / 8];

__attribute__((noinline)) unsigned pretend(unsigned x)
{
    for (int i = 0; i < 100000; i++)
        x = x * 1664525u + 1013904223u + (x >> 7);
    return x;
}

int main(void)
{
    for (unsigned i = 0; i < SIZE / 8; i++)
        _PyRuntime[i] = (uint64_t)&_PyRuntime[i * 7919u % (SIZE / 8)];
    unsigned x = 1;
    while (clock() < CLOCKS_PER_SEC)
        x = pretend(x);
    return x == 42;
}
