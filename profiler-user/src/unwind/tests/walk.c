/* Goes down a chain of unlike frames, ends in a signal handler on a stack of its own, and writes out what a profiler
 * could have read there: registers, stacks and mappings, as lines of hexadecimal numbers. */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline, noclone))

static FILE *out;
static char other_stack[64 << 10] __attribute__((aligned(64)));
/* On the stack that the handler leaves, in the frame that it interrupts. */
static unsigned long here;

APART void use(void *place) { __asm__ volatile("" : : "r"(place) : "memory"); }

static void memory(unsigned long start, unsigned long end) {
    fprintf(out, "memory %lx ", start);
    for (unsigned long at = start; at < end; at++)
        fprintf(out, "%02x", *(unsigned char *)at);
    fprintf(out, "\n");
}

/* The registers hold at the label: in this frame, between two instructions. */
APART void leaf(void) {
    unsigned long pc, sp, fp;
    __asm__ volatile("leaq 1f(%%rip), %0\n\tmovq %%rsp, %1\n\tmovq %%rbp, %2\n1:" : "=&r"(pc), "=&r"(sp), "=&r"(fp));
    fprintf(out, "registers %lx %lx %lx\n", pc, sp, fp);
    unsigned long other = (unsigned long)other_stack;
    memory(other, other + sizeof other_stack);
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        char rights[8];
        if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 && start <= here && here < end)
            memory(here - start > 4096 ? (here - 4096) & ~7ul : start, end);
        if (strstr(line, "r-xp"))
            fprintf(out, "map %s", line);
    }
    fclose(maps);
}

APART void handler(int number) {
    use(&number);
    leaf();
    use(&number);
}

APART int interrupted(int n) {
    here = (unsigned long)&n;
    raise(SIGUSR1);
    use(&n);
    return n;
}

/* The arguments on the stack are reached after the stack pointer was aligned. */
APART int realigned(int a, int b, int c, int d, int e, int f, int g, int h) {
    _Alignas(64) char block[256];
    char *more = alloca(16 + (g & 255));
    memset(block, a + b + c + d + e + f, sizeof block);
    use(block);
    use(more);
    return interrupted(h) + block[h & 255] + g;
}

APART int large(int n) {
    char block[150000];
    memset(block, n, sizeof block);
    use(block);
    return realigned(n, 2, 3, 4, 5, 6, n, 8) + block[n & 1023];
}

APART int deep(int n) {
    int below = n > 0 ? deep(n - 1) : large(n);
    use(&below);
    return below;
}

APART void *run(void *count) {
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    sigaltstack(&stack, NULL);
    return (void *)(long)deep((int)(long)count);
}

int main(int count, char **arguments) {
    out = fopen(arguments[1], "w");
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    if (count > 2) {
        pthread_t thread;
        pthread_create(&thread, NULL, run, (void *)3);
        pthread_join(thread, NULL);
    } else {
        use(run((void *)3));
    }
    return fclose(out);
}
