/* Generates code, as a just-in-time compiler does, and uses CPU time in it:
 *
 *   jit SECONDS MEMORY LIST [apart]
 *
 * main calls spin, that calls the generated outer, that the generated inner, where the time goes. MEMORY is anonymous,
 * shared or memfd: how the code is mapped. LIST is listed or unlisted: whether /tmp/perf-PID.map names both functions;
 * the list is taken away at the end. With apart, the program runs in namespaces of its own: as pid 1, with an empty
 * /tmp.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Where each function begins in the code. */
enum { OUTER = 0x00, INNER = 0x40, SIZE = 0x1000 };

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
static const unsigned char outer[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
/* push %rbp; mov %rsp,%rbp; mov $50000000,%ecx; 1: dec %ecx; jnz 1b; pop %rbp; ret */
static const unsigned char inner[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x80, 0xf0, 0xfa, 0x02,
                                      0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};

static char list[64];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void put(unsigned char *code)
{
    memcpy(code + OUTER, outer, sizeof outer);
    memcpy(code + INNER, inner, sizeof inner);
}

/* The code, ready to run. */
static unsigned char *generate(const char *memory)
{
    if (strcmp(memory, "memfd") == 0) {
        int fd = memfd_create("generated", 0);
        if (fd < 0 || ftruncate(fd, SIZE) != 0)
            fail("memfd");
        unsigned char *writable = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        unsigned char *code = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
        if (writable == MAP_FAILED || code == MAP_FAILED)
            fail("mmap");
        put(writable);
        return code;
    }
    int sharing = strcmp(memory, "shared") == 0 ? MAP_SHARED : MAP_PRIVATE;
    unsigned char *code = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        fail("mmap");
    put(code);
    if (mprotect(code, SIZE, PROT_READ | PROT_EXEC) != 0)
        fail("mprotect");
    return code;
}

static void take_away(void)
{
    unlink(list);
}

static void write_list(const unsigned char *code)
{
    snprintf(list, sizeof list, "/tmp/perf-%d.map", (int)getpid());
    FILE *file = fopen(list, "w");
    if (!file)
        fail(list);
    atexit(take_away);
    unsigned long start = (unsigned long)code;
    fprintf(file, "%lx %x JS:~stale /app/x.js:1\n", start, SIZE);
    fprintf(file, "%lx %zx LOuter;::call\n", start + OUTER, sizeof outer);
    fprintf(file, "%lx %zx JS:*inner /app/a b.js:7\n", start + INNER, sizeof inner);
    if (fclose(file) != 0)
        fail(list);
}

static void enter_namespaces(void)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWPID) != 0)
        fail("unshare");
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child > 0) {
        int status;
        waitpid(child, &status, 0);
        exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("none", "/tmp", "tmpfs", 0, NULL) != 0)
        fail("mount");
}

static double used(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) int spin(const unsigned char *code, double seconds)
{
    void (*call)(const unsigned char *) = (void (*)(const unsigned char *))(code + OUTER);
    int calls = 0;
    for (; used() < seconds; calls++)
        call(code + INNER);
    return calls;
}

int main(int argc, char **argv)
{
    if (argc > 4)
        enter_namespaces();
    const unsigned char *code = generate(argv[2]);
    if (strcmp(argv[3], "listed") == 0)
        write_list(code);
    return spin(code, atof(argv[1])) == 0;
}
