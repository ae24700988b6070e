/* A stand-in for libcudart.so.12, over the stand-in for the driver. Build:
 *
 *   cc -O2 -shared -fPIC -fcf-protection=none -s -Wl,-soname,libcudart.so.12 -Wl,--default-symver \
 *      -o libcudart.so.12 fakecudart.c -ldl
 *
 * or include it in a program, as one is that links the runtime statically. Like the real one it finds the driver's
 * functions with cuGetProcAddress_v2, and each of its own calls one or more of them. It counts its own calls, and those
 * it makes. The driver is $STANDIN_LIBCUDA, else libcuda.so.1.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#define EXPORTS(X) \
    X(cudaLaunchKernel) X(cudaLaunchKernel_ptsz) X(cudaLaunchKernelExC) X(cudaGraphLaunch) \
    X(cudaStreamSynchronize) X(cudaDeviceSynchronize) X(cudaStreamQuery) X(cudaEventQuery) \
    X(cudaMemcpy) X(cudaMemcpyAsync) X(cudaMemcpy2DAsync) X(cudaMemcpyArrayToArray) X(cudaMemset) \
    X(cudaMalloc) X(cudaFree) X(cudaMallocAsync) X(cudaFreeAsync) X(cudaHostAlloc) X(cudaFreeHost) \
    X(cudaEventRecord) X(cudaStreamWaitEvent) X(cudaEventElapsedTime)
#include "fakecounts.h"

/* ---- the driver below ---------------------------------------------------------------------------------------- */

/* Exported name, name to ask for, flags. */
#define DRIVER(X) \
    X(cuLaunchKernel, "cuLaunchKernel", 0) X(cuLaunchKernel_ptsz, "cuLaunchKernel", 2) \
    X(cuLaunchKernelEx, "cuLaunchKernelEx", 0) X(cuGraphLaunch, "cuGraphLaunch", 0) \
    X(cuStreamSynchronize, "cuStreamSynchronize", 0) X(cuCtxSynchronize, "cuCtxSynchronize", 0) \
    X(cuStreamQuery, "cuStreamQuery", 0) X(cuEventQuery, "cuEventQuery", 0) \
    X(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 0) X(cuMemcpyAsync, "cuMemcpyAsync", 0) \
    X(cuMemsetD8Async, "cuMemsetD8Async", 0) X(cuMemAlloc_v2, "cuMemAlloc", 0) X(cuMemFree_v2, "cuMemFree", 0) \
    X(cuMemAllocAsync, "cuMemAllocAsync", 0) X(cuMemFreeAsync, "cuMemFreeAsync", 0) \
    X(cuMemHostAlloc, "cuMemHostAlloc", 0) X(cuMemFreeHost, "cuMemFreeHost", 0) \
    X(cuEventRecord, "cuEventRecord", 0) X(cuStreamWaitEvent, "cuStreamWaitEvent", 0) \
    X(cuEventElapsedTime, "cuEventElapsedTime", 0)

enum {
#define X(name, base, flags) INNER_##name,
    DRIVER(X)
#undef X
    INNER_COUNT
};

/* Without a prototype: every caller passes what the driver's function takes. */
typedef int Inner();

static Inner *inner[INNER_COUNT];
static _Atomic uint64_t inner_calls[INNER_COUNT];

static void find_driver(void)
{
    const char *path = getenv("STANDIN_LIBCUDA");
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    int (*get)(const char *, void **, int, uint64_t, int *) = NULL;
    if (library != NULL)
        *(void **)&get = dlsym(library, "cuGetProcAddress_v2");
    if (get == NULL) {
        fprintf(stderr, "fakecudart: no driver: %s\n", dlerror());
        exit(1);
    }
#define X(name, base, flags) \
    if (get(base, (void **)&inner[INNER_##name], 12000, flags, NULL) != 0) { \
        fprintf(stderr, "fakecudart: the driver has no %s\n", base); \
        exit(1); \
    }
    DRIVER(X)
#undef X
}

/* A driver call, counted. */
#define CALL(name, ...) (atomic_fetch_add(&inner_calls[INNER_##name], 1), inner[INNER_##name](__VA_ARGS__))

/* ---- the functions ------------------------------------------------------------------------------------------- */

#define FUNCTION(name, bytes, calls, ...) \
    __attribute__((noinline)) int name(__VA_ARGS__) \
    { \
        static pthread_once_t once = PTHREAD_ONCE_INIT; \
        pthread_once(&once, find_driver_once); \
        uint64_t began = begin(ID_##name, bytes); \
        return end(ID_##name, began, calls); \
    }

static void find_driver_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_driver);
}

typedef struct {
    unsigned x, y, z;
} Dim;
#define OTHER __attribute__((unused))

FUNCTION(cudaLaunchKernel, 0,
         CALL(cuLaunchKernel, function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, args, NULL),
         void *function, Dim grid, Dim block, void **args, size_t shared, void *stream)
FUNCTION(cudaLaunchKernel_ptsz, 0,
         CALL(cuLaunchKernel_ptsz, function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, args,
              NULL),
         void *function, Dim grid, Dim block, void **args, size_t shared, void *stream)
FUNCTION(cudaLaunchKernelExC, 0, CALL(cuLaunchKernelEx, config, function, args, NULL), void *config, void *function,
         void **args)
FUNCTION(cudaGraphLaunch, 0, CALL(cuGraphLaunch, graph, stream), void *graph, void *stream)
FUNCTION(cudaStreamSynchronize, 0, CALL(cuStreamSynchronize, stream), void *stream)
FUNCTION(cudaDeviceSynchronize, 0, CALL(cuCtxSynchronize), void)
FUNCTION(cudaStreamQuery, 0, CALL(cuStreamQuery, stream), void *stream)
FUNCTION(cudaEventQuery, 0, CALL(cuEventQuery, event), void *event)

/* Two driver calls, and the first error. */
static int copy_and_wait(void *to, void *from, size_t bytes)
{
    int copied = CALL(cuMemcpyHtoD_v2, to, from, bytes), waited = CALL(cuStreamSynchronize, NULL);
    return copied != 0 ? copied : waited;
}
FUNCTION(cudaMemcpy, bytes, copy_and_wait(to, from, bytes), void *to, void *from, size_t bytes, OTHER int kind)
FUNCTION(cudaMemcpyAsync, bytes, CALL(cuMemcpyAsync, to, from, bytes, stream), void *to, void *from, size_t bytes,
         OTHER int kind, void *stream)
FUNCTION(cudaMemcpy2DAsync, width * height, CALL(cuMemcpyAsync, to, from, width * height, stream), void *to,
         OTHER size_t to_pitch, void *from, OTHER size_t from_pitch, size_t width, size_t height, OTHER int kind, void *stream)
FUNCTION(cudaMemcpyArrayToArray, bytes, CALL(cuMemcpyAsync, to, from, bytes, NULL), void *to, OTHER size_t to_x,
         OTHER size_t to_y, void *from, OTHER size_t from_x, OTHER size_t from_y, size_t bytes, OTHER int kind)
FUNCTION(cudaMemset, bytes, CALL(cuMemsetD8Async, to, value, bytes, NULL), void *to, int value, size_t bytes)
FUNCTION(cudaMalloc, bytes, CALL(cuMemAlloc_v2, out, bytes), void *out, size_t bytes)
FUNCTION(cudaFree, 0, CALL(cuMemFree_v2, memory), void *memory)
FUNCTION(cudaMallocAsync, bytes, CALL(cuMemAllocAsync, out, bytes, stream), void *out, size_t bytes, void *stream)
FUNCTION(cudaFreeAsync, 0, CALL(cuMemFreeAsync, memory, stream), void *memory, void *stream)
FUNCTION(cudaHostAlloc, bytes, CALL(cuMemHostAlloc, out, bytes, flags), void *out, size_t bytes, unsigned flags)
FUNCTION(cudaFreeHost, 0, CALL(cuMemFreeHost, memory), void *memory)
FUNCTION(cudaEventRecord, 0, CALL(cuEventRecord, event, stream), void *event, void *stream)
FUNCTION(cudaStreamWaitEvent, 0, CALL(cuStreamWaitEvent, stream, event, flags), void *stream, void *event, unsigned flags)
FUNCTION(cudaEventElapsedTime, 0, CALL(cuEventElapsedTime, milliseconds, from, to), void *milliseconds, void *from, void *to)

/* ---- for the caller ------------------------------------------------------------------------------------------ */

/* As fake_counts_json of the driver. */
size_t fake_runtime_json(char *text, size_t size)
{
    return counts_json(text, size);
}

/* {NAME:CALLS} of the driver's functions called from here. */
size_t fake_inner_json(char *text, size_t size)
{
    struct out out = {text, size, 0};
    const char *comma = "{";
#define X(name, base, flags) \
    put(&out, "%s\"%s\":%ju", comma, #name, (uintmax_t)inner_calls[INNER_##name]); \
    comma = ",";
    DRIVER(X)
#undef X
    put(&out, "}");
    return out.used;
}
