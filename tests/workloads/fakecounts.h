/* What the stand-ins for CUDA's libraries count of themselves: per function and calling thread.
 *
 * Before it is included, EXPORTS(X) must be defined: X(name) for each function, in the order of their ids.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* .L names never reach the symbol table, so bodies and helpers stay unnamed even when nobody strips the file. */
#define UNNAMED(name) __asm__(".L" name)

enum {
#define X(name) ID_##name,
    EXPORTS(X)
#undef X
    EXPORT_COUNT
};

static const char *const export_names[EXPORT_COUNT] = {
#define X(name) #name,
    EXPORTS(X)
#undef X
};

/* The errors that are made here. */
static const int error_codes[] = {1, 2, 3, 500, 700};
enum { ERROR_CODES = sizeof error_codes / sizeof *error_codes };

struct tally {
    _Atomic uint64_t calls, errors, not_ready, bytes, total_ns, max_ns, by_code[ERROR_CODES];
};

/* One row per thread that ever called; a row outlives its thread. Threads beyond the last row share it, as tid 0. */
enum { MAX_THREADS = 4096 };
static struct row {
    _Atomic int tid;
    struct tally of[EXPORT_COUNT];
} rows[MAX_THREADS];
static _Atomic int rows_taken;
static __thread struct row *own_row;

#define HELPER(name) __attribute__((noinline)) static name

HELPER(struct row *) take_row(void) UNNAMED("take_row");
HELPER(struct row *) take_row(void)
{
    int i = atomic_fetch_add(&rows_taken, 1);
    if (i < MAX_THREADS - 1)
        rows[i].tid = (int)syscall(SYS_gettid);
    else
        i = MAX_THREADS - 1;
    return own_row = &rows[i];
}

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A call is counted when it begins, as an entry probe counts it. */
HELPER(uint64_t) begin(int id, uint64_t bytes) UNNAMED("begin");
HELPER(uint64_t) begin(int id, uint64_t bytes)
{
    struct row *row = own_row ? own_row : take_row();
    atomic_fetch_add(&row->of[id].calls, 1);
    atomic_fetch_add(&row->of[id].bytes, bytes);
    return now_ns();
}

HELPER(int) end(int id, uint64_t began, int result) UNNAMED("end");
HELPER(int) end(int id, uint64_t began, int result)
{
    struct tally *tally = &own_row->of[id];
    uint64_t ns = now_ns() - began, max = tally->max_ns;
    atomic_fetch_add(&tally->total_ns, ns);
    while (ns > max && !atomic_compare_exchange_weak(&tally->max_ns, &max, ns))
        ;
    if (result == 600) {
        atomic_fetch_add(&tally->not_ready, 1);
    } else if (result != 0) {
        atomic_fetch_add(&tally->errors, 1);
        for (int i = 0; i < ERROR_CODES; i++)
            if (error_codes[i] == result)
                atomic_fetch_add(&tally->by_code[i], 1);
    }
    return result;
}

/* Not while calls are in flight: their end would be counted without their begin. */
__attribute__((unused)) static void reset_counts(void)
{
    for (int r = 0; r < MAX_THREADS; r++)
        if (rows[r].tid != 0 || r == MAX_THREADS - 1)
            memset(rows[r].of, 0, sizeof rows[r].of);
}

struct out {
    char *text;
    size_t size, used;
};

static void put(struct out *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t left = out->used < out->size ? out->size - out->used : 0;
    out->used += (size_t)vsnprintf(left ? out->text + out->used : NULL, left, format, args);
    va_end(args);
}

static void put_tallies(struct out *out, const struct row *row)
{
    const char *comma = "";
    put(out, "{");
    for (int i = 0; i < EXPORT_COUNT; i++) {
        const struct tally *t = &row->of[i];
        if (t->calls == 0)
            continue;
        put(out, "%s\"%s\":{\"calls\":%ju,\"errors\":%ju,\"not_ready\":%ju,\"bytes\":%ju,\"total_ns\":%ju,\"max_ns\":%ju,"
            "\"codes\":{", comma, export_names[i], (uintmax_t)t->calls, (uintmax_t)t->errors, (uintmax_t)t->not_ready,
            (uintmax_t)t->bytes, (uintmax_t)t->total_ns, (uintmax_t)t->max_ns);
        const char *between = "";
        for (int c = 0; c < ERROR_CODES; c++)
            if (t->by_code[c] != 0) {
                put(out, "%s\"%d\":%ju", between, error_codes[c], (uintmax_t)t->by_code[c]);
                between = ",";
            }
        put(out, "}}");
        comma = ",";
    }
    put(out, "}");
}

/* Writes {"functions":{NAME:TALLY},"threads":[{"tid":N,"functions":{NAME:TALLY}}]}; returns the length it needs
 * without the closing NUL, like snprintf: ask with size 0 first. Functions never called are left out. */
static size_t counts_json(char *text, size_t size)
{
    struct out out = {text, size, 0};
    struct row sum = {0};
    const char *comma = "";
    for (int r = 0; r < MAX_THREADS; r++)
        for (int i = 0; i < EXPORT_COUNT; i++) {
            const struct tally *from = &rows[r].of[i];
            struct tally *to = &sum.of[i];
            to->calls += from->calls;
            to->errors += from->errors;
            to->not_ready += from->not_ready;
            for (int c = 0; c < ERROR_CODES; c++)
                to->by_code[c] += from->by_code[c];
            to->bytes += from->bytes;
            to->total_ns += from->total_ns;
            if (from->max_ns > to->max_ns)
                to->max_ns = from->max_ns;
        }
    put(&out, "{\"functions\":");
    put_tallies(&out, &sum);
    put(&out, ",\"threads\":[");
    for (int r = 0; r < MAX_THREADS; r++) {
        uint64_t calls = 0;
        for (int i = 0; i < EXPORT_COUNT; i++)
            calls += rows[r].of[i].calls;
        if (calls == 0)
            continue;
        put(&out, "%s{\"tid\":%d,\"functions\":", comma, rows[r].tid);
        put_tallies(&out, &rows[r]);
        put(&out, "}");
        comma = ",";
    }
    put(&out, "]}");
    return out.used;
}
