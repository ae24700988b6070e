// Throws and catches all the time: `throws SECONDS`. Most samples are in the code that unwinds the stack itself.
#include <cstdlib>
#include <ctime>

#define APART __attribute__((noinline, noclone))

volatile unsigned sink;

static double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + double(t.tv_nsec) / 1e9;
}

// Something to be destroyed on the way.
struct Guard {
    APART ~Guard() { sink = sink + 1; }
};

extern "C" {

APART void throws(unsigned x)
{
    Guard guard;
    if (sink != x)
        throw x;
    sink = x;
}

APART unsigned passes_on(unsigned x)
{
    Guard guard;
    throws(x);
    return sink + 1;
}

APART unsigned catches(double end)
{
    unsigned x = 0;
    do
        for (int i = 0; i < 1000; i++)
            try {
                x += passes_on(~sink);
            } catch (unsigned caught) {
                x += caught;
            }
    while (now() < end);
    return x;
}
}

int main(int, char **argv)
{
    sink = catches(now() + std::atof(argv[1])) + 1;
    return 0;
}
