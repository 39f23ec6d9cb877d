/* Counts the system calls by which a process changes files, and lets one of them fail, or the process die in it.

   Preloaded (LD_PRELOAD); nothing happens before faults_arm. What goes to stdin, stdout and stderr is not counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long seen = -1, at = 0; /* not armed */
static int error = 0;          /* 0: kill */

/* From now on the n-th call has this error, or is the end of the process; n = 0: count only. */
void faults_arm(long n, int with_error) { seen = 0, at = n, error = with_error; }

long faults_seen(void) { return seen; }

static int due(void) { return seen >= 0 && ++seen == at; }

static int fail(void) {
    if (!error) kill(getpid(), SIGKILL);
    errno = error;
    return -1;
}

#define REAL(result, name, ...) ((result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t n) {
    ssize_t (*real)(int, const void *, size_t) = REAL(ssize_t, write, int, const void *, size_t);
    if (fd > 2 && due()) {
        real(fd, bytes, n / 2); /* half of it is there */
        return fail();
    }
    return real(fd, bytes, n);
}

static int is_for_writing(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT); }

#define OPEN(name)                                                                    \
    int name(const char *path, int flags, ...) {                                      \
        va_list rest;                                                                 \
        va_start(rest, flags);                                                        \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;     \
        va_end(rest);                                                                 \
        if (is_for_writing(flags) && due()) return fail();                            \
        return REAL(int, name, const char *, int, ...)(path, flags, mode);            \
    }
OPEN(open)
OPEN(open64)

#define CALL(name, types, names)                      \
    int name types {                                  \
        if (due()) return fail();                     \
        return ((int(*) types)dlsym(RTLD_NEXT, #name)) names; \
    }
CALL(rename, (const char *from, const char *to), (from, to))
CALL(fsync, (int fd), (fd))
CALL(ftruncate, (int fd, off_t length), (fd, length))
CALL(ftruncate64, (int fd, off64_t length), (fd, length))
CALL(mkdir, (const char *path, mode_t mode), (path, mode))
CALL(unlink, (const char *path), (path))
CALL(rmdir, (const char *path), (path))
