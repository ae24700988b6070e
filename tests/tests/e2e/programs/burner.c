/* Uses CPU time, in functions with names that tests look for. As a program:
 *
 *   burner SECONDS [FILE]
 *
 * uses SECONDS of CPU time, after waiting until FILE exists, if it is given. As a shared library: burn(), by the wall clock.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Long enough that reading the clock between two of them is nothing. */
__attribute__((noinline)) unsigned burn_a_little(unsigned x)
{
    for (int i = 0; i < 100000; i++)
        x = x * 1664525u + 1013904223u + (x >> 7);
    return x;
}

__attribute__((noinline)) unsigned burn_until(clockid_t clock, double end)
{
    unsigned x = 1;
    while (now(clock) < end)
        x = burn_a_little(x);
    return x;
}

unsigned burn(double seconds)
{
    return burn_until(CLOCK_MONOTONIC, now(CLOCK_MONOTONIC) + seconds) + 1;
}

int main(int argc, char **argv)
{
    while (argc > 2 && access(argv[2], F_OK) != 0)
        usleep(5000);
    return burn_until(CLOCK_THREAD_CPUTIME_ID, now(CLOCK_THREAD_CPUTIME_ID) + atof(argc > 1 ? argv[1] : "1")) == 42;
}
