/* Functions whose frames differ: large, realigned, dynamic, left by a signal handler, never returning. */
#include <alloca.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline, noclone))

APART void use(void *place) { __asm__ volatile("" : : "r"(place) : "memory"); }

APART int large(int n) {
    char block[150000];
    memset(block, n, sizeof block);
    use(block);
    return block[n & 1023];
}

/* The arguments on the stack are reached after the stack pointer was aligned. */
APART int realigned(int a, int b, int c, int d, int e, int f, int g, int h) {
    _Alignas(64) char block[256];
    char *more = alloca(16 + (g & 255));
    memset(block, a + b + c + d + e + f, sizeof block);
    use(block);
    use(more);
    return block[h & 255] + g;
}

APART int dynamic(int n) {
    char *block = alloca(16 + (n & 4095));
    block[0] = (char)n;
    use(block);
    return block[0];
}

APART void handler(int number) { use(&number); }

APART __attribute__((noreturn)) void leave(int n) {
    use(&n);
    abort();
}

APART void last(int n) {
    use(&n);
    leave(n);
}

/* As musl has it: without call frame information. */
__asm__(".text\n.balign 16\n.globl trampoline\n.type trampoline, @function\n"
        "trampoline: mov $15, %rax\nsyscall\n.size trampoline, . - trampoline\n"
        ".skip 64, 0xcc\n");

int main(int count, char **arguments) {
    use(arguments);
    signal(SIGUSR1, handler);
    int sum = large(count) + dynamic(count);
    sum += realigned(count, 2, 3, 4, 5, 6, count, 8);
    raise(SIGUSR1);
    if (sum == 12345)
        last(sum);
    return sum & 1;
}
