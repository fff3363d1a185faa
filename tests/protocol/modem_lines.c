/* Lets a program use a pseudo-terminal as a serial port with modem lines and parity: loaded before
   the C library. What it sets of DTR and RTS is written to the file $MODEM_LINES. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

static int lines;

int ioctl(int descriptor, unsigned long request, ...) {
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    int (*real)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
    int result = real(descriptor, request, argument);
    if (result == 0 || (errno != ENOTTY && errno != EINVAL)) return result;
    if (request == TIOCMGET)
        *(int *)argument = lines;
    else if (request == TIOCMSET)
        lines = *(int *)argument;
    else if (request == TIOCMBIS)
        lines |= *(int *)argument;
    else if (request == TIOCMBIC)
        lines &= ~*(int *)argument;
    else
        return result;
    FILE *file = fopen(getenv("MODEM_LINES"), "w");
    if (file) {
        fprintf(file, "dtr=%d rts=%d", !!(lines & TIOCM_DTR), !!(lines & TIOCM_RTS));
        fclose(file);
    }
    return 0;
}

int tcsetattr(int descriptor, int when, const struct termios *wanted) {
    int (*real)(int, int, const struct termios *) = dlsym(RTLD_NEXT, "tcsetattr");
    int result = real(descriptor, when, wanted);
    return result != 0 && errno == EINVAL ? 0 : result; /* a pseudo-terminal has no parity */
}
