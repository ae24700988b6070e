/* Calls every kind of function of CUDA's driver, or of its runtime, an exact number of times. Build it with
 *
 *   cc -O2 -pthread -o cuda_mix cuda_mix.c -ldl
 *   cc -O2 -pthread -s -DSTATIC_RUNTIME -o cuda_mix_static cuda_mix.c -ldl    with the runtime inside
 *
 * It prints what the stand-ins counted of themselves.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef STATIC_RUNTIME
#define main unused_main
#include "fakecudart.c"
#undef main
#undef DRIVER
#undef CALL
#undef X
#endif

static const char usage[] =
    "usage: cuda_mix [OPTION..] LIBCUDA ROUNDS\n"
    "  -f FILE     wait until FILE exists, with the libraries open\n"
    "  -g          look the driver's functions up by cuGetProcAddress_v2 instead of dlsym\n"
    "  -r LIBRARY  call the functions of this runtime as well; with the runtime inside: those\n"
    "  -t THREADS  how many threads make ROUNDS rounds each (default 1)\n";

/* Exported name, name to ask for, flags. */
#define DRIVER(X) \
    X(cuLaunchKernel, "cuLaunchKernel", 0) X(cuLaunchKernel_ptsz, "cuLaunchKernel", 2) \
    X(cuLaunchKernelEx, "cuLaunchKernelEx", 0) X(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 2) \
    X(cuGraphLaunch, "cuGraphLaunch", 0) X(cuGraphLaunch_ptsz, "cuGraphLaunch", 2) \
    X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 0) X(cuLaunchHostFunc, "cuLaunchHostFunc", 0) \
    X(cuStreamSynchronize, "cuStreamSynchronize", 0) X(cuStreamSynchronize_ptsz, "cuStreamSynchronize", 2) \
    X(cuCtxSynchronize, "cuCtxSynchronize", 0) X(cuEventSynchronize, "cuEventSynchronize", 0) \
    X(cuStreamQuery, "cuStreamQuery", 0) X(cuStreamQuery_ptsz, "cuStreamQuery", 2) X(cuEventQuery, "cuEventQuery", 0) \
    X(cuMemcpyAsync, "cuMemcpyAsync", 0) X(cuMemcpyAsync_ptsz, "cuMemcpyAsync", 2) \
    X(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 0) X(cuMemcpyHtoD_v2_ptds, "cuMemcpyHtoD", 2) X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 0) \
    X(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 0) X(cuMemcpy2DAsync_v2, "cuMemcpy2DAsync", 0) \
    X(cuMemcpy3D_v2, "cuMemcpy3D", 0) X(cuMemsetD8Async, "cuMemsetD8Async", 0) \
    X(cuMemsetD32Async, "cuMemsetD32Async", 0) X(cuMemsetD32Async_ptsz, "cuMemsetD32Async", 2) \
    X(cuMemsetD2D16_v2, "cuMemsetD2D16", 0) X(cuMemAlloc_v2, "cuMemAlloc", 0) X(cuMemFree_v2, "cuMemFree", 0) \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", 0) X(cuMemAllocAsync, "cuMemAllocAsync", 0) \
    X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 2) X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 0) \
    X(cuMemFreeAsync, "cuMemFreeAsync", 0) X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 2) \
    X(cuMemAddressReserve, "cuMemAddressReserve", 0) X(cuMemCreate, "cuMemCreate", 0) X(cuMemMap, "cuMemMap", 0) \
    X(cuMemUnmap, "cuMemUnmap", 0) X(cuMemRelease, "cuMemRelease", 0) X(cuMemHostAlloc, "cuMemHostAlloc", 0) \
    X(cuMemAllocHost_v2, "cuMemAllocHost", 0) X(cuMemFreeHost, "cuMemFreeHost", 0) \
    X(cuMemHostRegister_v2, "cuMemHostRegister", 0) X(cuMemHostUnregister, "cuMemHostUnregister", 0) \
    X(cuModuleLoadData, "cuModuleLoadData", 0) X(cuModuleGetFunction, "cuModuleGetFunction", 0) \
    X(cuLibraryLoadData, "cuLibraryLoadData", 0) X(cuEventCreate, "cuEventCreate", 0) \
    X(cuEventDestroy_v2, "cuEventDestroy", 0) X(cuEventRecord, "cuEventRecord", 0) X(cuEventRecord_ptsz, "cuEventRecord", 2) \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", 0) X(cuEventElapsedTime, "cuEventElapsedTime", 0)

#define RUNTIME(X) \
    X(cudaLaunchKernel) X(cudaLaunchKernel_ptsz) X(cudaLaunchKernelExC) X(cudaGraphLaunch) X(cudaStreamSynchronize) \
    X(cudaDeviceSynchronize) X(cudaStreamQuery) X(cudaEventQuery) X(cudaMemcpy) X(cudaMemcpyAsync) X(cudaMemcpy2DAsync) \
    X(cudaMemcpyArrayToArray) X(cudaMemset) X(cudaMalloc) X(cudaFree) X(cudaMallocAsync) X(cudaFreeAsync) X(cudaHostAlloc) \
    X(cudaFreeHost) X(cudaEventRecord) X(cudaStreamWaitEvent) X(cudaEventElapsedTime)

/* Without a prototype: arguments are passed in the width that the function takes. */
typedef int Function();

static struct {
#define X(name, base, flags) Function *name;
    DRIVER(X)
#undef X
    Function *v1_alloc; /* cuMemAlloc as it was: only dlsym finds it */
} driver;

static struct {
#define X(name) Function *name;
    RUNTIME(X)
#undef X
} runtime;

static int with_runtime;
static long rounds;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "cuda_mix: %s: %s\n", what, why);
    exit(1);
}

static void *open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL)
        fail("dlopen", dlerror());
    return library;
}

static void *exported(void *library, const char *name)
{
    void *address = dlsym(library, name);
    if (address == NULL)
        fail("dlsym", dlerror());
    return address;
}

#define NONE ((void *)0)
#define SIZE(n) ((size_t)(n))
#define BAD ((uint64_t)0xbad)
static const uint64_t address = 0x7f0000001000;

static void driver_round(long i)
{
    unsigned grid = i % 7 != 0;
    unsigned config[14] = {grid, 1, 1, 32, 1, 1};
    uint64_t rectangle[16] = {[14] = 300, [15] = SIZE(i % 50)}, box[25] = {[22] = 7, [23] = SIZE(i % 9), [24] = 3}, out;
    size_t bytes = SIZE(1000 + i), much = i % 11 ? SIZE(4096 * (i + 1)) : (size_t)1 << 40;
    void *odd = (void *)(0x100 | (uintptr_t)i % 2);
    driver.cuLaunchKernel(NONE, grid, 1, 1, 32, 1, 1, 0, NONE, NONE, NONE);
    driver.cuLaunchKernel_ptsz(NONE, 1, 1, 1, 32, 1, 1, 0, NONE, NONE, NONE);
    driver.cuLaunchKernelEx(config, NONE, NONE, NONE);
    driver.cuLaunchKernelEx_ptsz(config, NONE, NONE, NONE);
    driver.cuGraphLaunch(i % 5 ? &out : NONE, NONE);
    driver.cuGraphLaunch_ptsz(&out, NONE);
    driver.cuLaunchCooperativeKernel(NONE, grid, 1);
    driver.cuLaunchHostFunc(NONE, &out, NONE);
    driver.cuStreamQuery(NONE);
    driver.cuStreamQuery_ptsz(NONE);
    driver.cuEventQuery(odd);
    if (i % 16 == 0) {
        driver.cuStreamSynchronize(NONE);
        driver.cuStreamSynchronize_ptsz(NONE);
        driver.cuEventSynchronize(NONE);
        driver.cuCtxSynchronize();
    }
    driver.cuMemcpyAsync(address, address, SIZE(64 + i % 64), NONE);
    driver.cuMemcpyAsync_ptsz(address, address, SIZE(64), NONE);
    driver.cuMemcpyHtoD_v2(i % 13 ? address : BAD, &out, bytes);
    driver.cuMemcpyHtoD_v2_ptds(address, &out, bytes);
    driver.cuMemcpyDtoH_v2(&out, address, bytes << 20);
    driver.cuMemcpyPeerAsync(address, NONE, address, NONE, bytes, NONE);
    driver.cuMemcpy2DAsync_v2(rectangle, NONE);
    driver.cuMemcpy3D_v2(box);
    driver.cuMemsetD8Async(address, 0, bytes, NONE);
    driver.cuMemsetD32Async(address, 0, bytes, NONE);
    driver.cuMemsetD32Async_ptsz(i % 17 ? address : BAD, 0, bytes, NONE);
    driver.cuMemsetD2D16_v2(address, SIZE(512), 0, SIZE(100), SIZE(i % 30));
    driver.cuMemAlloc_v2(&out, i % 3 ? SIZE(512) : SIZE(0));
    driver.cuMemFree_v2(address);
    driver.v1_alloc(&out, (uint32_t)(100 + i));
    driver.cuMemAllocPitch_v2(&out, &out, SIZE(640), SIZE(480), 4);
    driver.cuMemAllocAsync(&out, much, NONE);
    driver.cuMemAllocAsync_ptsz(&out, bytes, NONE);
    driver.cuMemAllocFromPoolAsync(&out, bytes, NONE, NONE);
    driver.cuMemFreeAsync(i % 19 ? address : BAD, NONE);
    driver.cuMemFreeAsync_ptsz(address, NONE);
    driver.cuMemAddressReserve(&out, SIZE(1) << 36, SIZE(0), address, (uint64_t)0);
    driver.cuMemCreate(&out, much, NONE, (uint64_t)0);
    driver.cuMemMap(address, bytes, SIZE(0), NONE, (uint64_t)0);
    driver.cuMemUnmap(address, bytes);
    driver.cuMemRelease(NONE);
    driver.cuMemHostAlloc(&out, much, 0);
    driver.cuMemAllocHost_v2(&out, bytes);
    driver.cuMemFreeHost(&out);
    driver.cuMemHostRegister_v2(&out, bytes, 0);
    driver.cuMemHostUnregister(&out);
    driver.cuModuleLoadData(&out, i % 4 ? &out : NONE);
    driver.cuModuleGetFunction(&out, NONE, i % 6 ? "kernel" : NONE);
    driver.cuLibraryLoadData(&out, &out);
    driver.cuEventCreate(&out, 0);
    driver.cuEventRecord(&out, NONE);
    driver.cuEventRecord_ptsz(&out, NONE);
    driver.cuStreamWaitEvent(NONE, &out, 0);
    driver.cuEventElapsedTime(&out, odd, &out);
    driver.cuEventDestroy_v2(&out);
}

typedef struct {
    unsigned x, y, z;
} Grid;

static void runtime_round(long i)
{
    Grid one = {1, 1, 1}, grid = {i % 7 != 0, 1, 1};
    unsigned config[14] = {1, 1, 1, 32, 1, 1};
    size_t bytes = SIZE(2000 + i), much = i % 11 ? SIZE(8192 * (i + 1)) : (size_t)1 << 40;
    void *odd = (void *)(0x100 | (uintptr_t)i % 2), *memory = (void *)address;
    uint64_t out;
    runtime.cudaLaunchKernel(NONE, grid, one, NONE, SIZE(0), NONE);
    runtime.cudaLaunchKernel_ptsz(NONE, one, one, NONE, SIZE(0), NONE);
    runtime.cudaLaunchKernelExC(config, NONE, NONE);
    runtime.cudaGraphLaunch(i % 5 ? &out : NONE, NONE);
    if (i % 16 == 0) {
        runtime.cudaStreamSynchronize(NONE);
        runtime.cudaDeviceSynchronize();
    }
    runtime.cudaStreamQuery(NONE);
    runtime.cudaEventQuery(odd);
    runtime.cudaMemcpy(i % 13 ? memory : (void *)BAD, &out, bytes, 1);
    runtime.cudaMemcpyAsync(memory, memory, SIZE(64 + i % 64), 3, NONE);
    runtime.cudaMemcpy2DAsync(memory, SIZE(64), memory, SIZE(64), SIZE(16), SIZE(i % 16), 3, NONE);
    runtime.cudaMemcpyArrayToArray(memory, SIZE(1), SIZE(2), memory, SIZE(3), SIZE(4), SIZE(128 + i % 128), 3);
    runtime.cudaMemset(memory, 0, bytes);
    runtime.cudaMalloc(&out, i % 3 ? SIZE(512) : SIZE(0));
    runtime.cudaFree(memory);
    runtime.cudaMallocAsync(&out, much, NONE);
    runtime.cudaFreeAsync(i % 19 ? memory : (void *)BAD, NONE);
    runtime.cudaHostAlloc(&out, much, 0);
    runtime.cudaFreeHost(&out);
    runtime.cudaEventRecord(&out, NONE);
    runtime.cudaStreamWaitEvent(NONE, &out, 0);
    runtime.cudaEventElapsedTime(&out, odd, &out);
}

static void *work(void *argument)
{
    for (long i = 0; i < rounds; i++) {
        driver_round(i);
        if (with_runtime)
            runtime_round(i);
    }
    return argument;
}

static void print_json(const char *name, size_t (*json)(char *, size_t))
{
    size_t length = json ? json(NULL, 0) : 0;
    char *text = calloc(length + 1, 1);
    if (length && text)
        json(text, length + 1);
    printf(",\"%s\":%s", name, length && text ? text : "null");
    free(text);
}

int main(int argc, char **argv)
{
    const char *file = NULL, *runtime_path = NULL;
    int proc_address = 0, option;
    long threads = 1;
    while ((option = getopt(argc, argv, "f:gr:t:")) != -1)
        switch (option) {
        case 'f': file = optarg; break;
        case 'g': proc_address = 1; break;
        case 'r': runtime_path = optarg; break;
        case 't': threads = atol(optarg); break;
        default: fputs(usage, stderr); return 2;
        }
    if (argc - optind != 2 || threads < 1 || threads > 1000) {
        fputs(usage, stderr);
        return 2;
    }
    rounds = atol(argv[optind + 1]);
    void *library = open_library(argv[optind]), *runtime_library = NULL;
    setenv("STANDIN_LIBCUDA", argv[optind], 1);
    int (*get)(const char *, void **, int, unsigned long, int *) = NULL;
    *(void **)&get = exported(library, "cuGetProcAddress_v2");
#define X(name, base, flags) \
    if (!proc_address) \
        *(void **)&driver.name = exported(library, #name); \
    else if (get(base, (void **)&driver.name, 12000, flags, NULL) != 0) \
        fail("cuGetProcAddress_v2", #name);
    DRIVER(X)
#undef X
    *(void **)&driver.v1_alloc = exported(library, "cuMemAlloc");
    size_t (*runtime_json)(char *, size_t) = NULL, (*inner_json)(char *, size_t) = NULL;
#ifdef STATIC_RUNTIME
    with_runtime = 1;
#define X(name) runtime.name = (Function *)name;
    RUNTIME(X)
#undef X
    runtime_json = fake_runtime_json;
    inner_json = fake_inner_json;
#else
    if (runtime_path != NULL) {
        with_runtime = 1;
        runtime_library = open_library(runtime_path);
#define X(name) *(void **)&runtime.name = exported(runtime_library, #name);
        RUNTIME(X)
#undef X
        *(void **)&runtime_json = exported(runtime_library, "fake_runtime_json");
        *(void **)&inner_json = exported(runtime_library, "fake_inner_json");
    }
#endif
    (void)runtime_library, (void)runtime_path;
    while (file != NULL && access(file, F_OK) != 0)
        usleep(10000);
    if (((Function *)exported(library, "cuInit"))(0) != 0)
        fail("cuInit", "did not return 0");

    pthread_t *workers = calloc((size_t)threads, sizeof *workers);
    if (workers == NULL)
        fail("calloc", "out of memory");
    for (long i = 0; i < threads; i++)
        if (pthread_create(&workers[i], NULL, work, NULL) != 0)
            fail("pthread_create", "failed");
    for (long i = 0; i < threads; i++)
        pthread_join(workers[i], NULL);

    printf("{\"workload\":\"cuda_mix\",\"pid\":%d", (int)getpid());
    size_t (*driver_json)(char *, size_t) = NULL;
    *(void **)&driver_json = exported(library, "fake_counts_json");
    print_json("library", driver_json);
    print_json("runtime", runtime_json);
    print_json("inner", inner_json);
    printf("}\n");
    free(workers);
    return 0;
}
