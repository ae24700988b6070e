/* Burns CPU at the end of call chains that never change, each of a kind that is hard to unwind:
 *
 *   stacks MODE SECONDS [LIBRARY SECONDS]
 *
 * The chain of each mode is written down in unwinding/modes.rs. With LIBRARY it is also a library, see `library`. Build it
 * with -pthread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <immintrin.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The compiler may know nothing of what such a function does: it is called as it is written. */
#define OPAQUE __attribute__((noipa))

static inline __attribute__((always_inline)) double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Results end here, so that they have to be computed. */
volatile unsigned sink;

/* Where nearly all samples are: some 100 us of arithmetic that calls nothing. */
OPAQUE unsigned burn(unsigned x)
{
    for (int i = 0; i < 100000; i++)
        x = x * 1664525u + 1013904223u + (x >> 7);
    return x;
}

OPAQUE unsigned burn_until(double end)
{
    unsigned x = 1;
    while (now() < end)
        x = burn(x);
    return x;
}

/* What follows each call keeps it from becoming a jump, which would take the caller off the stack. */

/* A program that ends at once. */
OPAQUE unsigned tiny(double end)
{
    unsigned x = end != 0;
    for (int i = 0; i < 20; i++)
        x = burn(x);
    return x + 1;
}

/* Signal handlers. */
static volatile int over;

OPAQUE unsigned below(void)
{
    unsigned turns = 0;
    while (!over)
        turns++;
    return turns;
}

OPAQUE unsigned interrupted(void) { return below() + 1; }

OPAQUE unsigned in_handler(unsigned turns)
{
    unsigned x = 1;
    for (unsigned i = 0; i < turns; i++)
        x = burn(x);
    return x + 1;
}

static double handle_until;

OPAQUE void handler(int signal)
{
    sink = in_handler(40) + (unsigned)signal;
    if (now() >= handle_until)
        over = 1;
}

OPAQUE unsigned handles(double end, int other_stack)
{
    static char space[1 << 16];
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | (other_stack ? SA_ONSTACK : 0)};
    struct itimerval every = {{0, 10000}, {0, 10000}};
    if (other_stack)
        sigaltstack(&(stack_t){.ss_sp = space, .ss_size = sizeof space}, NULL);
    handle_until = end;
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &every, NULL);
    return interrupted() + 1;
}

/* The vDSO. */
OPAQUE unsigned asks_the_time(double end)
{
    unsigned turns = 0;
    while (now() < end)
        turns++;
    return turns;
}

OPAQUE unsigned reads_clocks(double end) { return asks_the_time(end) + 1; }

/* Between vfork and _exit, on the parent's own stack. */
OPAQUE void in_child(unsigned turns)
{
    for (unsigned i = 0; i < turns; i++)
        sink = burn(sink);
}

OPAQUE unsigned vforks(double end)
{
    while (now() < end) {
        pid_t child = vfork();
        if (child == 0) {
            in_child(300);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    return sink + 1;
}

/* Programs started one after the other. */
OPAQUE unsigned spawns(double end, char *program)
{
    extern char **environ;
    unsigned turns = 0;
    for (; now() < end; turns++) {
        pid_t child;
        char *words[] = {program, "tiny", "1", NULL};
        if (posix_spawn(&child, program, NULL, NULL, words, environ) == 0)
            waitpid(child, NULL, 0);
    }
    return turns + 1;
}

/* Frames of 150 and 400 KiB. */
OPAQUE unsigned frame_150k(double end)
{
    volatile char room[150 << 10];
    room[0] = room[sizeof room - 1] = 1;
    return burn_until(end) + (unsigned)room[0];
}

OPAQUE unsigned frame_400k(double end)
{
    volatile char room[400 << 10];
    room[0] = room[sizeof room - 1] = 1;
    return burn_until(end) + (unsigned)room[0];
}

/* The same with every register in use that a function has to save, rbp among them. */
OPAQUE unsigned frame_full(double end, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e)
{
    volatile char room[400 << 10];
    unsigned f = a * b;
    room[0] = room[sizeof room - 1] = 1;
    for (int i = 0; i < 3; i++)
        sink = burn_until(end) + a + b + c + d + e + f++;
    return (unsigned)room[0] + a * b * c * d * e * f;
}

OPAQUE unsigned large_frames(double end, int kind)
{
    return (kind == 0 ? frame_150k(end) : kind == 1 ? frame_400k(end) : frame_full(end, 1, 2, 3, 4, 5)) + 1;
}

/* A stack realigned for AVX, in a function that has arguments on the stack and a frame of variable size: the frame can then
 * be found only by what is saved below rbp. */
OPAQUE __attribute__((target("avx2"))) unsigned realigned(double end, long a, long b, long c, long d, long e, long f, long g)
{
    volatile __m256i sum = _mm256_set1_epi32((int)a);
    volatile char *room = __builtin_alloca((unsigned long)b * 64);
    unsigned x = 1;
    room[0] = 1;
    while (now() < end) {
        for (int i = 0; i < 50000; i++)
            sum = _mm256_add_epi32(sum, _mm256_set1_epi32((int)(g + i)));
        x = burn(x);
    }
    return x + (unsigned)room[0] + (unsigned)_mm256_extract_epi32(sum, 0) + (unsigned)(c + d + e + f);
}

OPAQUE unsigned realigns(double end) { return realigned(end, 1, 2, 3, 4, 5, 6, 7) + 1; }

/* A library that is loaded late. */
OPAQUE unsigned library(double end) { return burn_until(end) + 1; }

OPAQUE unsigned loads(double end, const char *path, double after)
{
    burn_until(now() + after);
    void *loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unsigned (*function)(double) = loaded ? (unsigned (*)(double))dlsym(loaded, "library") : NULL;
    if (!function)
        exit(3);
    return function(end) + 1;
}

/* Threads. */
static double threads_until;

/* Called through a variable: else the compiler would make a loop of it. */
OPAQUE unsigned deeper(int depth);
static unsigned (*volatile again)(int) = deeper;

OPAQUE unsigned deeper(int depth) { return depth > 1 ? again(depth - 1) + 1 : burn_until(threads_until) + 1; }

OPAQUE void *shallow_thread(void *depth) { return (void *)(unsigned long)(burn_until(threads_until) + (depth != NULL)); }
OPAQUE void *deep_thread(void *depth) { return (void *)(unsigned long)(deeper(*(int *)depth) + 1); }

OPAQUE unsigned threads(double end, int depth)
{
    pthread_t thread;
    threads_until = end;
    if (pthread_create(&thread, NULL, depth ? deep_thread : shallow_thread, &depth) != 0)
        exit(3);
    pthread_join(thread, NULL);
    return 1;
}

/* A call that never returns is the last instruction of its function: the return address is that of the next function, whose
 * frame is another one. */
static jmp_buf back;

OPAQUE __attribute__((noreturn)) void never_returns(double end)
{
    burn_until(end);
    longjmp(back, 1);
}

OPAQUE __attribute__((noreturn)) void ends_in_a_call(double end)
{
    volatile char room[1000];
    room[0] = end > 0;
    sink = (unsigned)room[0];
    never_returns(end);
}

OPAQUE unsigned stands_behind_it(double end)
{
    if (setjmp(back) == 0)
        ends_in_a_call(end);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s MODE SECONDS [LIBRARY SECONDS]\n", argv[0]);
        return 2;
    }
    const char *mode = argv[1];
    double end = now() + atof(argv[2]);
    unsigned result = 0;
    if (strcmp(mode, "tiny") == 0)
        result = tiny(end);
    else if (strcmp(mode, "handler") == 0)
        result = handles(end, 0);
    else if (strcmp(mode, "other-stack") == 0)
        result = handles(end, 1);
    else if (strcmp(mode, "vdso") == 0)
        result = reads_clocks(end);
    else if (strcmp(mode, "vfork") == 0)
        result = vforks(end);
    else if (strcmp(mode, "spawn") == 0)
        result = spawns(end, argv[0]);
    else if (strcmp(mode, "frame-150k") == 0)
        result = large_frames(end, 0);
    else if (strcmp(mode, "frame-400k") == 0)
        result = large_frames(end, 1);
    else if (strcmp(mode, "frame-full") == 0)
        result = large_frames(end, 2);
    else if (strcmp(mode, "realigned") == 0 && __builtin_cpu_supports("avx2"))
        result = realigns(end);
    else if (strcmp(mode, "load") == 0 && argc > 4)
        result = loads(end, argv[3], atof(argv[4]));
    else if (strcmp(mode, "thread") == 0)
        result = threads(end, 0);
    else if (strcmp(mode, "deep-200") == 0)
        result = threads(end, 200);
    else if (strcmp(mode, "deep-400") == 0)
        result = threads(end, 400);
    else if (strcmp(mode, "tail") == 0)
        result = stands_behind_it(end);
    else
        return 2;
    sink = result;
    return 0;
}
