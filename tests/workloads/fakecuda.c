/* A stand-in for libcuda.so.1, for machines without a GPU. Build:
 *
 *   cc -O2 -shared -fPIC -fno-omit-frame-pointer -fcf-protection=none -s -Wl,-soname,libcuda.so.1 \
 *      -o libcuda.so.1 fakecuda.c
 *
 * It has the shape a profiler meets in drivers since 470: each exported cu* symbol is a frameless stub of three
 * instructions that tail-jumps through a writable table into a body without a name, so no stack has a frame called
 * cuLaunchKernel. The bodies keep frame pointers and begin with a push, as those of driver 535 and later do. And it
 * counts its own calls, per function and per calling thread, so a test knows the truth.
 *
 * The "device" is one deadline per stream: a launch or a copy moves it, a query compares it with the clock, and a
 * synchronise waits for it. An event stands for the stream with the same handle value.
 */
#define _GNU_SOURCE
#ifndef __x86_64__
#error "the stubs imitate the x86-64 driver"
#endif
#include <stddef.h>
#include <stdint.h>

typedef void *Handle;
typedef uint64_t DevicePtr;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
};

enum {
    VERSION = 12040,           /* what driver 550 says */
    INIT_NS = 200 * 1000000,   /* the real cuInit takes this long or longer */
    KERNEL_NS = 30 * 1000,     /* device time of one launch */
    LAUNCH_WORK = 8000,        /* loop turns: about 5 us */
    COPY_BYTES_PER_TURN = 8,   /* host work of a copy: about 5 GB/s */
    COPY_BYTES_PER_NS = 20,    /* device time of a copy */
    CTX_SPIN_NS = 1000 * 1000, /* cuCtxSynchronize spins this long, then sleeps */
};

/* Every export, in the order of their ids. */
#define EXPORTS(X) \
    X(cuInit) X(cuDriverGetVersion) X(cuGetProcAddress_v2) \
    X(cuLaunchKernel) X(cuLaunchKernel_ptsz) X(cuLaunchKernelEx) X(cuLaunchKernelEx_ptsz) \
    X(cuStreamSynchronize) X(cuStreamSynchronize_ptsz) X(cuStreamQuery) X(cuStreamQuery_ptsz) \
    X(cuCtxSynchronize) X(cuEventSynchronize) \
    X(cuMemcpyAsync) X(cuMemcpyAsync_ptsz) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyHtoDAsync_v2_ptsz) \
    X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoHAsync_v2_ptsz) \
    X(cuMemAlloc_v2) X(cuMemFree_v2) \
    X(cuGraphLaunch) X(cuGraphLaunch_ptsz) X(cuLaunchCooperativeKernel) X(cuLaunchHostFunc) X(cuEventQuery) \
    X(cuMemcpyHtoD_v2) X(cuMemcpyHtoD_v2_ptds) X(cuMemcpyDtoH_v2) X(cuMemcpyPeerAsync) X(cuMemcpy2DAsync_v2) \
    X(cuMemcpy3D_v2) X(cuMemsetD8Async) X(cuMemsetD32Async) X(cuMemsetD32Async_ptsz) X(cuMemsetD2D16_v2) \
    X(cuMemAlloc) X(cuMemAllocPitch_v2) X(cuMemAllocAsync) X(cuMemAllocAsync_ptsz) X(cuMemAllocFromPoolAsync) \
    X(cuMemFreeAsync) X(cuMemFreeAsync_ptsz) X(cuMemAddressReserve) X(cuMemCreate) X(cuMemMap) X(cuMemUnmap) \
    X(cuMemRelease) X(cuMemHostAlloc) X(cuMemAllocHost_v2) X(cuMemFreeHost) X(cuMemHostRegister_v2) \
    X(cuMemHostUnregister) X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLibraryLoadData) \
    X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventRecord) X(cuEventRecord_ptsz) X(cuStreamWaitEvent) \
    X(cuEventElapsedTime)

/* ---- the stubs ---------------------------------------------------------------------------------------------- */

#include "fakecounts.h"

/* Holds DEINITIALISED once the driver has shut down; the stubs compare it at every call. */
#define DEINITIALISED 0x321cba00
__attribute__((used)) static volatile uint32_t state UNNAMED("state") = 0;

/* The fail exit lies at +0x18, as in the real driver, and the whole is 0x1e bytes. */
__asm__(".macro STUB name\n"
        ".pushsection .data.rel.local, \"aw\", @progbits\n"
        ".balign 8\n"
        ".Lslot_\\name: .quad .Lbody_\\name\n"
        ".popsection\n"
        ".pushsection .text\n"
        ".p2align 5\n"
        ".globl \\name\n"
        ".type \\name, @function\n"
        "\\name:\n"
        ".cfi_startproc\n"
        "cmpl $0x321cba00, .Lstate(%rip)\n"
        "je .Lfail_\\name\n"
        "jmp *.Lslot_\\name(%rip)\n"
        ".org \\name + 0x18, 0x90\n"
        ".Lfail_\\name:\n"
        "mov $4, %eax\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size \\name, .-\\name\n"
        ".popsection\n"
        ".endm\n");
#define X(name) __asm__("STUB " #name "\n"); extern int name(void);
EXPORTS(X)
#undef X
/* Another name of the same code. */
__asm__(".globl cuLaunch\n.type cuLaunch, @function\n.set cuLaunch, cuLaunchKernel\n.size cuLaunch, 0x1e\n");

static const struct {
    const char *name;
    void *address;
} exports[EXPORT_COUNT] = {
#define X(name) {#name, (void *)name},
    EXPORTS(X)
#undef X
};

/* ---- the device --------------------------------------------------------------------------------------------- */

static inline void sleep_until(uint64_t deadline)
{
    struct timespec t = {(time_t)(deadline / 1000000000u), (long)(deadline % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

static _Atomic int initialised; /* 0 no, 1 somebody is at it, 2 yes */

enum { STREAMS = 64 };
static _Atomic uint64_t deadlines[STREAMS];

/* With per-thread default streams (_ptsz) the null stream belongs to the calling thread. */
static inline _Atomic uint64_t *stream_of(Handle stream, int per_thread)
{
    uintptr_t key = stream == NULL && per_thread ? (uintptr_t)(own_row - rows) + 1 : (uintptr_t)stream;
    return &deadlines[(key ^ key >> 6) % STREAMS];
}

static inline void queue_on(_Atomic uint64_t *deadline, uint64_t ns)
{
    uint64_t now = now_ns(), old = *deadline;
    while (!atomic_compare_exchange_weak(deadline, &old, (old > now ? old : now) + ns))
        ;
}

/* Host work that no compiler removes. */
HELPER(void) work(uint64_t turns) UNNAMED("work");
HELPER(void) work(uint64_t turns)
{
    for (volatile uint64_t i = 0; i < turns; i++)
        ;
}

/* ---- the bodies --------------------------------------------------------------------------------------------- */

#define BODY(name, ...) \
    __attribute__((used, noinline)) static int body_##name(__VA_ARGS__) UNNAMED("body_" #name); \
    static int body_##name(__VA_ARGS__)

#define NEEDS_INIT(id, began) \
    if (initialised != 2) \
        return end(id, began, NOT_INITIALIZED)

BODY(cuInit, unsigned flags)
{
    uint64_t began = begin(ID_cuInit, 0);
    int none = 0;
    if (flags != 0)
        return end(ID_cuInit, began, INVALID_VALUE);
    if (atomic_compare_exchange_strong(&initialised, &none, 1)) {
        sleep_until(began + INIT_NS);
        initialised = 2;
    }
    while (initialised != 2)
        sleep_until(now_ns() + 1000000);
    return end(ID_cuInit, began, SUCCESS);
}

BODY(cuDriverGetVersion, int *version)
{
    uint64_t began = begin(ID_cuDriverGetVersion, 0);
    if (version == NULL)
        return end(ID_cuDriverGetVersion, began, INVALID_VALUE);
    *version = VERSION;
    return end(ID_cuDriverGetVersion, began, SUCCESS);
}

/* Base names go to the newest variant (cuMemAlloc to cuMemAlloc_v2); flag 2 asks for per-thread default streams. */
BODY(cuGetProcAddress_v2, const char *symbol, void **address, int cuda_version, uint64_t flags, int *status)
{
    static const char *const suffixes[] = {"_v2_ptsz", "_v2_ptds", "_ptsz", "_ptds", "_v2", ""};
    uint64_t began = begin(ID_cuGetProcAddress_v2, 0);
    char name[128];
    (void)cuda_version;
    if (symbol == NULL || address == NULL)
        return end(ID_cuGetProcAddress_v2, began, INVALID_VALUE);
    *address = NULL;
    for (int s = flags & 2 ? 0 : 4; s < 6 && *address == NULL; s++) {
        snprintf(name, sizeof name, "%s%s", symbol, suffixes[s]);
        for (int i = 0; i < EXPORT_COUNT; i++)
            if (strcmp(exports[i].name, name) == 0)
                *address = exports[i].address;
    }
    if (status != NULL)
        *status = *address == NULL; /* 1: symbol not found */
    return end(ID_cuGetProcAddress_v2, began, *address ? SUCCESS : NOT_FOUND);
}

HELPER(int) launch(int id, unsigned grid_x, Handle stream, int per_thread) UNNAMED("launch");
HELPER(int) launch(int id, unsigned grid_x, Handle stream, int per_thread)
{
    uint64_t began = begin(id, 0);
    NEEDS_INIT(id, began);
    if (grid_x == 0)
        return end(id, began, INVALID_VALUE);
    work(LAUNCH_WORK);
    queue_on(stream_of(stream, per_thread), KERNEL_NS);
    return end(id, began, SUCCESS);
}

/* For a body whose work is in a helper: without this the call becomes a jump and the body has no frame. */
static inline int keep_frame(int result)
{
    __asm__ volatile("" : "+r"(result));
    return result;
}

#define LAUNCH(name, per_thread) \
    BODY(name, Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
         unsigned shared, Handle stream, void **params, void **extra) \
    { \
        (void)function, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)params, (void)extra; \
        return keep_frame(launch(ID_##name, gx, stream, per_thread)); \
    }
LAUNCH(cuLaunchKernel, 0)
LAUNCH(cuLaunchKernel_ptsz, 1)

struct launch_config { /* CUlaunchConfig */
    unsigned grid[3], block[3], shared;
    Handle stream;
    void *attributes;
    unsigned attribute_count;
};
_Static_assert(offsetof(struct launch_config, stream) == 32, "as in cuda.h");

#define LAUNCH_EX(name, per_thread) \
    BODY(name, const struct launch_config *config, Handle function, void **params, void **extra) \
    { \
        (void)function, (void)params, (void)extra; \
        return keep_frame(launch(ID_##name, config ? config->grid[0] : 0, config ? config->stream : NULL, per_thread)); \
    }
LAUNCH_EX(cuLaunchKernelEx, 0)
LAUNCH_EX(cuLaunchKernelEx_ptsz, 1)

/* The default of the real driver: burn a core reading the clock. */
#define STREAM_SYNCHRONIZE(name, per_thread) \
    BODY(name, Handle stream) \
    { \
        uint64_t began = begin(ID_##name, 0); \
        NEEDS_INIT(ID_##name, began); \
        uint64_t deadline = *stream_of(stream, per_thread); \
        while (now_ns() < deadline) \
            ; \
        return end(ID_##name, began, SUCCESS); \
    }
STREAM_SYNCHRONIZE(cuStreamSynchronize, 0)
STREAM_SYNCHRONIZE(cuStreamSynchronize_ptsz, 1)

#define STREAM_QUERY(name, per_thread) \
    BODY(name, Handle stream) \
    { \
        uint64_t began = begin(ID_##name, 0); \
        NEEDS_INIT(ID_##name, began); \
        uint64_t deadline = *stream_of(stream, per_thread); \
        return end(ID_##name, began, now_ns() < deadline ? NOT_READY : SUCCESS); \
    }
STREAM_QUERY(cuStreamQuery, 0)
STREAM_QUERY(cuStreamQuery_ptsz, 1)

/* Waits for all streams: spins for a part, then gives the core away. */
BODY(cuCtxSynchronize, void)
{
    uint64_t began = begin(ID_cuCtxSynchronize, 0), deadline = 0, now;
    NEEDS_INIT(ID_cuCtxSynchronize, began);
    for (int i = 0; i < STREAMS; i++)
        if (deadlines[i] > deadline)
            deadline = deadlines[i];
    while ((now = now_ns()) < deadline && now < began + CTX_SPIN_NS)
        ;
    if (now < deadline)
        sleep_until(deadline);
    return end(ID_cuCtxSynchronize, began, SUCCESS);
}

/* A blocking synchronise (CU_EVENT_BLOCKING_SYNC): costs time, but no CPU. */
BODY(cuEventSynchronize, Handle event)
{
    uint64_t began = begin(ID_cuEventSynchronize, 0);
    NEEDS_INIT(ID_cuEventSynchronize, began);
    uint64_t deadline = *stream_of(event, 0);
    if (now_ns() < deadline)
        sleep_until(deadline);
    return end(ID_cuEventSynchronize, began, SUCCESS);
}

/* No memory is touched, so any pointer will do. */
HELPER(int) copy(int id, uint64_t bytes, Handle stream, int per_thread) UNNAMED("copy");
HELPER(int) copy(int id, uint64_t bytes, Handle stream, int per_thread)
{
    uint64_t began = begin(id, bytes);
    NEEDS_INIT(id, began);
    work(bytes / COPY_BYTES_PER_TURN);
    queue_on(stream_of(stream, per_thread), bytes / COPY_BYTES_PER_NS);
    return end(id, began, SUCCESS);
}

#define COPY(name, To, From, per_thread) \
    BODY(name, To to, From from, size_t bytes, Handle stream) \
    { \
        (void)to, (void)from; \
        return keep_frame(copy(ID_##name, bytes, stream, per_thread)); \
    }
COPY(cuMemcpyAsync, DevicePtr, DevicePtr, 0)
COPY(cuMemcpyAsync_ptsz, DevicePtr, DevicePtr, 1)
COPY(cuMemcpyHtoDAsync_v2, DevicePtr, const void *, 0)
COPY(cuMemcpyHtoDAsync_v2_ptsz, DevicePtr, const void *, 1)
COPY(cuMemcpyDtoHAsync_v2, void *, DevicePtr, 0)
COPY(cuMemcpyDtoHAsync_v2_ptsz, void *, DevicePtr, 1)

/* Hands out addresses that are never mapped and never the same. */
BODY(cuMemAlloc_v2, DevicePtr *out, size_t bytes)
{
    static _Atomic uint64_t next = 0x7f0000000000;
    uint64_t began = begin(ID_cuMemAlloc_v2, bytes);
    NEEDS_INIT(ID_cuMemAlloc_v2, began);
    if (out == NULL || bytes == 0)
        return end(ID_cuMemAlloc_v2, began, INVALID_VALUE);
    work(LAUNCH_WORK);
    *out = atomic_fetch_add(&next, (bytes + 511) & ~(uint64_t)511);
    return end(ID_cuMemAlloc_v2, began, SUCCESS);
}

BODY(cuMemFree_v2, DevicePtr address)
{
    uint64_t began = begin(ID_cuMemFree_v2, 0);
    NEEDS_INIT(ID_cuMemFree_v2, began);
    (void)address;
    work(LAUNCH_WORK);
    return end(ID_cuMemFree_v2, began, SUCCESS);
}

/* The rest does nothing but fail where it should. CALL: a body that counts `bytes_` and returns `result`. */
enum { DEVICE_BYTES_LOG2 = 37, BAD_ADDRESS = 0xbad };

#define CALL(name, bytes_, result, ...) \
    BODY(name, __VA_ARGS__) \
    { \
        uint64_t began = begin(ID_##name, bytes_); \
        NEEDS_INIT(ID_##name, began); \
        work(200); \
        return end(ID_##name, began, result); \
    }
#define TAKEN(bytes) ((bytes) == 0 ? INVALID_VALUE : (bytes) >> DEVICE_BYTES_LOG2 ? OUT_OF_MEMORY : SUCCESS)
#define MOVED(address) ((uint64_t)(address) == BAD_ADDRESS ? ILLEGAL_ADDRESS : SUCCESS)
#define OTHER __attribute__((unused))
#define H OTHER Handle

CALL(cuGraphLaunch, 0, graph ? SUCCESS : INVALID_VALUE, Handle graph, H stream)
CALL(cuGraphLaunch_ptsz, 0, graph ? SUCCESS : INVALID_VALUE, Handle graph, H stream)
CALL(cuLaunchCooperativeKernel, 0, gx ? SUCCESS : INVALID_VALUE, H function, unsigned gx, OTHER unsigned gy)
CALL(cuLaunchHostFunc, 0, function ? SUCCESS : INVALID_VALUE, H stream, Handle function, H data)
CALL(cuEventQuery, 0, (uintptr_t)event & 1 ? NOT_READY : SUCCESS, Handle event)

CALL(cuMemcpyHtoD_v2, bytes, MOVED(to), DevicePtr to, H from, size_t bytes)
CALL(cuMemcpyHtoD_v2_ptds, bytes, MOVED(to), DevicePtr to, H from, size_t bytes)
CALL(cuMemcpyDtoH_v2, bytes, MOVED(from), H to, DevicePtr from, size_t bytes)
CALL(cuMemcpyPeerAsync, bytes, MOVED(to), DevicePtr to, H to_context, OTHER DevicePtr from, H from_context,
     size_t bytes, H stream)

struct rectangle { /* CUDA_MEMCPY2D */
    uint64_t rest[14], width, height;
};
struct box { /* CUDA_MEMCPY3D */
    uint64_t rest[22], width, height, depth;
};
_Static_assert(offsetof(struct rectangle, width) == 112 && offsetof(struct box, width) == 176, "as in cuda.h");
CALL(cuMemcpy2DAsync_v2, what->width * what->height, SUCCESS, const struct rectangle *what, H stream)
CALL(cuMemcpy3D_v2, what->width * what->height * what->depth, SUCCESS, const struct box *what)
CALL(cuMemsetD8Async, count, MOVED(to), DevicePtr to, OTHER unsigned char value, size_t count, H stream)
CALL(cuMemsetD32Async, 4 * count, MOVED(to), DevicePtr to, OTHER unsigned value, size_t count, H stream)
CALL(cuMemsetD32Async_ptsz, 4 * count, MOVED(to), DevicePtr to, OTHER unsigned value, size_t count, H stream)
CALL(cuMemsetD2D16_v2, 2 * width * height, MOVED(to), DevicePtr to, OTHER size_t pitch, OTHER unsigned short value,
     size_t width, size_t height)

CALL(cuMemAlloc, bytes, TAKEN((uint64_t)bytes), H out, uint32_t bytes)
CALL(cuMemAllocPitch_v2, width * height, TAKEN(width * height), H out, H pitch, size_t width, size_t height)
CALL(cuMemAllocAsync, bytes, TAKEN(bytes), H out, size_t bytes, H stream)
CALL(cuMemAllocAsync_ptsz, bytes, TAKEN(bytes), H out, size_t bytes, H stream)
CALL(cuMemAllocFromPoolAsync, bytes, TAKEN(bytes), H out, size_t bytes, H pool, H stream)
CALL(cuMemFreeAsync, 0, MOVED(address), DevicePtr address, H stream)
CALL(cuMemFreeAsync_ptsz, 0, MOVED(address), DevicePtr address, H stream)
CALL(cuMemAddressReserve, bytes, SUCCESS, H out, size_t bytes)
CALL(cuMemCreate, bytes, TAKEN(bytes), H out, size_t bytes)
CALL(cuMemMap, bytes, MOVED(address), DevicePtr address, size_t bytes)
CALL(cuMemUnmap, bytes, MOVED(address), DevicePtr address, size_t bytes)
CALL(cuMemRelease, 0, SUCCESS, H memory)
CALL(cuMemHostAlloc, bytes, TAKEN(bytes), H out, size_t bytes, OTHER unsigned flags)
CALL(cuMemAllocHost_v2, bytes, TAKEN(bytes), H out, size_t bytes)
CALL(cuMemFreeHost, 0, SUCCESS, H memory)
CALL(cuMemHostRegister_v2, bytes, TAKEN(bytes), H memory, size_t bytes, OTHER unsigned flags)
CALL(cuMemHostUnregister, 0, SUCCESS, H memory)
CALL(cuModuleLoadData, 0, image ? SUCCESS : INVALID_VALUE, H out, Handle image)
CALL(cuModuleGetFunction, 0, name ? SUCCESS : NOT_FOUND, H out, H module, const char *name)
CALL(cuLibraryLoadData, 0, code ? SUCCESS : INVALID_VALUE, H out, Handle code)
CALL(cuEventCreate, 0, SUCCESS, H out, OTHER unsigned flags)
CALL(cuEventDestroy_v2, 0, SUCCESS, H event)
CALL(cuEventRecord, 0, SUCCESS, H event, H stream)
CALL(cuEventRecord_ptsz, 0, SUCCESS, H event, H stream)
CALL(cuStreamWaitEvent, 0, SUCCESS, H stream, H event, OTHER unsigned flags)
CALL(cuEventElapsedTime, 0, (uintptr_t)from & 1 ? NOT_READY : SUCCESS, H milliseconds, Handle from, H to)

/* ---- for the caller: none of these is a driver name ---------------------------------------------------------- */

/* Not while calls are in flight. */
void fake_reset(void)
{
    reset_counts();
}

/* Non-zero: from now on every call returns 4 from its stub (and no body counts it), as after the driver's exit. */
void fake_deinitialise(int yes)
{
    state = yes ? DEINITIALISED : 0;
}

/* Writes {"functions":{NAME:TALLY},"threads":[{"tid":N,"functions":{NAME:TALLY}}]}; returns the length it needs
 * without the closing NUL, like snprintf: ask with size 0 first. Functions never called are left out. */
size_t fake_counts_json(char *text, size_t size)
{
    return counts_json(text, size);
}
