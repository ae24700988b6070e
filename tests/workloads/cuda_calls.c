/* Makes an exact number of calls of the CUDA driver, and says how many. Build it with
 *
 *   cc -O2 -pthread -o cuda_calls cuda_calls.c -ldl
 *
 * The library is opened only after the wait, unless -m is given: a recorder that was started before has to notice it.
 * The threads' calls are counted here; what the stand-in itself counted is printed beside that.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int Init(unsigned);
typedef int Launch(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
typedef int Synchronize(void *);
typedef int GetProcAddress(const char *, void **, int, unsigned long, int *);

static const char usage[] =
    "usage: cuda_calls [OPTION..] LIBCUDA LAUNCHES [SYNCS]\n"
    "  -w SECONDS  wait before the first call\n"
    "  -f FILE     wait until FILE exists\n"
    "  -m          open the library before the wait\n"
    "  -g          look the functions up by cuGetProcAddress_v2 instead of dlsym\n"
    "  -p          call the _ptsz variants\n"
    "  -t THREADS  share the calls out among so many threads (default 1)\n";

static Launch *launch;
static Synchronize *synchronize;

struct worker {
    pthread_t thread;
    long launches, syncs, failed; /* to do; how many did not return 0 */
    int tid;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "cuda_calls: %s: %s\n", what, why);
    exit(1);
}

static long number(const char *text, long least, long most)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || n < least || n > most) {
        fprintf(stderr, "cuda_calls: not a number from %ld to %ld: %s\n%s", least, most, text, usage);
        exit(2);
    }
    return n;
}

/* The two callers a profile should show above the driver; not inlined, and with work after the call, so that they
 * keep their frames. */
__attribute__((noinline)) void train_step(struct worker *w)
{
    w->failed += launch(w, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) != 0;
}

__attribute__((noinline)) void wait_step(struct worker *w)
{
    w->failed += synchronize(NULL) != 0;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    w->tid = (int)syscall(SYS_gettid);
    long every = w->syncs ? w->launches / w->syncs : 0, synced = 0;
    for (long i = 0; i < w->launches; i++) {
        train_step(w);
        if (every && (i + 1) % every == 0 && synced < w->syncs) {
            wait_step(w);
            synced++;
        }
    }
    for (; synced < w->syncs; synced++)
        wait_step(w);
    return NULL;
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

static void *by_proc_address(void *library, const char *base_name, int per_thread)
{
    GetProcAddress *get = (GetProcAddress *)exported(library, "cuGetProcAddress_v2");
    void *address = NULL;
    if (get(base_name, &address, 12000, per_thread ? 2 : 0, NULL) != 0 || address == NULL)
        fail("cuGetProcAddress_v2", base_name);
    return address;
}

int main(int argc, char **argv)
{
    const char *file = NULL;
    int map_first = 0, proc_address = 0, per_thread = 0, option;
    long seconds = 0, threads = 1;
    while ((option = getopt(argc, argv, "w:f:mgpt:")) != -1)
        switch (option) {
        case 'w': seconds = number(optarg, 0, 3600); break;
        case 'f': file = optarg; break;
        case 'm': map_first = 1; break;
        case 'g': proc_address = 1; break;
        case 'p': per_thread = 1; break;
        case 't': threads = number(optarg, 1, 1000); break;
        default: fputs(usage, stderr); return 2;
        }
    if (argc - optind < 2 || argc - optind > 3) {
        fputs(usage, stderr);
        return 2;
    }
    const char *path = argv[optind];
    long launches = number(argv[optind + 1], 0, 1000000000);
    long syncs = argc - optind == 3 ? number(argv[optind + 2], 0, 1000000000) : 0;

    void *library = map_first ? open_library(path) : NULL;
    sleep((unsigned)seconds);
    while (file != NULL && access(file, F_OK) != 0)
        usleep(10000);
    if (library == NULL)
        library = open_library(path);

    if (proc_address) {
        launch = (Launch *)by_proc_address(library, "cuLaunchKernel", per_thread);
        synchronize = (Synchronize *)by_proc_address(library, "cuStreamSynchronize", per_thread);
    } else {
        launch = (Launch *)exported(library, per_thread ? "cuLaunchKernel_ptsz" : "cuLaunchKernel");
        synchronize = (Synchronize *)exported(library, per_thread ? "cuStreamSynchronize_ptsz" : "cuStreamSynchronize");
    }
    if (((Init *)exported(library, "cuInit"))(0) != 0)
        fail("cuInit", "did not return 0");

    struct worker *workers = calloc((size_t)threads, sizeof *workers);
    if (workers == NULL)
        fail("calloc", "out of memory");
    for (long i = 0; i < threads; i++) {
        workers[i].launches = launches / threads + (i < launches % threads);
        workers[i].syncs = syncs / threads + (i < syncs % threads);
        int error = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
        if (error != 0)
            fail("pthread_create", strerror(error));
    }
    long failed = 0;
    for (long i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        failed += workers[i].failed;
    }

    printf("{\"workload\":\"cuda_calls\",\"pid\":%d,\"init\":1,\"launch_name\":\"cuLaunchKernel%s\",\"launches\":%ld,"
           "\"sync_name\":\"cuStreamSynchronize%s\",\"syncs\":%ld,\"failed\":%ld,\"threads\":[",
           (int)getpid(), per_thread ? "_ptsz" : "", launches, per_thread ? "_ptsz" : "", syncs, failed);
    for (long i = 0; i < threads; i++)
        printf("%s{\"tid\":%d,\"launches\":%ld,\"syncs\":%ld}", i ? "," : "", workers[i].tid, workers[i].launches, workers[i].syncs);
    printf("],\"library\":");
    size_t (*counts)(char *, size_t) = (size_t(*)(char *, size_t))dlsym(library, "fake_counts_json");
    size_t length = counts ? counts(NULL, 0) : 0;
    char *text = calloc(length + 1, 1);
    if (counts && text)
        counts(text, length + 1);
    printf("%s}\n", length && text ? text : "null"); /* null: not the stand-in */
    free(text);
    free(workers);
    return 0;
}
