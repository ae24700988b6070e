/* Burns CPU at the end of a call chain that never changes: main, fa, fb, fc, fd. Build it with
 *
 *   cc -O2 -fno-omit-frame-pointer -o chain-fp chain.c      stacks by frame pointers
 *   cc -O2 -fomit-frame-pointer -o chain-nofp chain.c       stacks by .eh_frame only
 *
 * and run it as `chain-fp [SECONDS]` (default 5). Every CPU sample between start and end should show the whole chain,
 * at times with clock_gettime on top. Prints the CPU time it used, as JSON.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double clock_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The clock is read once a millisecond or so: nearly all samples have fd itself as their leaf. */
__attribute__((noinline)) double fd(double until)
{
    volatile unsigned long turns = 0;
    do
        for (int i = 0; i < 3000000; i++)
            turns++;
    while (clock_s(CLOCK_MONOTONIC) < until);
    return (double)turns;
}

/* What is added after each call keeps it from becoming a jump, which would take the caller off the stack. */
__attribute__((noinline)) double fc(double until) { return fd(until) + 1; }
__attribute__((noinline)) double fb(double until) { return fc(until) + 1; }
__attribute__((noinline)) double fa(double until) { return fb(until) + 1; }

int main(int argc, char **argv)
{
    char *end = "";
    double seconds = argc > 1 ? strtod(argv[1], &end) : 5;
    if (argc > 2 || *end != '\0' || !isfinite(seconds) || seconds <= 0) {
        fprintf(stderr, "usage: %s [SECONDS]\n", argv[0]);
        return 2;
    }
    double began = clock_s(CLOCK_MONOTONIC);
    double turns = fa(began + seconds) - 3;
    printf("{\"workload\":\"chain\",\"pid\":%d,\"wall_s\":%.6f,\"cpu_s\":%.6f,\"turns\":%.0f}\n", (int)getpid(),
           clock_s(CLOCK_MONOTONIC) - began, clock_s(CLOCK_PROCESS_CPUTIME_ID), turns);
    return 0;
}
