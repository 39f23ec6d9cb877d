/* Counts the system calls by which a process changes files, reads those below a directory and makes pipes, and lets one of
   them fail, or the process die in it.

   Preloaded (LD_PRELOAD); nothing happens before faults_arm. What goes to stdin, stdout and stderr is not counted. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long seen = -1, at = 0; /* not armed */
static int error = 0;          /* 0: kill */
static char root[4096];        /* what is read is counted below it alone */
static char calls[1 << 20];    /* a line for each: the call and the path */
static size_t used = 0;

/* From now on the n-th call has this error, or is the end of the process; n = 0: count only. */
void faults_arm(long n, int with_error) {
    if (!getcwd(root, sizeof root)) root[0] = 0;
    seen = 0, at = n, error = with_error;
}

const char *faults_calls(void) { return calls; }

static int below(const char *path) { return path[0] != '/' || (root[0] && !strncmp(path, root, strlen(root))); }

static const char *path_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, size - 1);
    path[n < 0 ? 0 : n] = 0;
    return path;
}

static int due(const char *name, const char *path) {
    if (seen < 0) return 0;
    int kept = errno, n = snprintf(calls + used, sizeof calls - used, "%s %s\n", name, path);
    if (n > 0 && used + n < sizeof calls) used += n;
    errno = kept;
    return ++seen == at;
}

static int due_at(const char *name, int fd, int reads) {
    char path[4096];
    if (seen < 0) return 0;
    path_of(fd, path, sizeof path);
    return !(reads && (path[0] != '/' || !below(path))) && due(name, path);
}

static int fail(void) {
    if (!error) kill(getpid(), SIGKILL);
    errno = error;
    return -1;
}

#define REAL(result, name, ...) ((result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t n) {
    ssize_t (*real)(int, const void *, size_t) = REAL(ssize_t, write, int, const void *, size_t);
    if (fd > 2 && due_at("write", fd, 0)) {
        real(fd, bytes, n / 2); /* half of it is there */
        return fail();
    }
    return real(fd, bytes, n);
}

ssize_t read(int fd, void *bytes, size_t n) {
    if (fd > 2 && due_at("read", fd, 1)) return fail();
    return REAL(ssize_t, read, int, void *, size_t)(fd, bytes, n);
}

/* The error of a close comes when the file is closed. */
int close(int fd) {
    int flags = seen >= 0 ? fcntl(fd, F_GETFL) : -1;
    struct stat is;
    int counted = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && !fstat(fd, &is) && S_ISREG(is.st_mode);
    int failing = fd > 2 && counted && due_at("close", fd, 0);
    int result = REAL(int, close, int)(fd);
    return failing ? fail() : result;
}

static int is_for_writing(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT); }

#define OPEN(name)                                                                     \
    int name(const char *path, int flags, ...) {                                       \
        va_list rest;                                                                  \
        va_start(rest, flags);                                                         \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;      \
        va_end(rest);                                                                  \
        int writes = is_for_writing(flags);                                            \
        if ((writes || below(path)) && due(writes ? "create" : "open", path)) return fail(); \
        return REAL(int, name, const char *, int, ...)(path, flags, mode);             \
    }
OPEN(open)
OPEN(open64)

DIR *opendir(const char *path) {
    if (below(path) && due("opendir", path)) return fail(), NULL;
    return REAL(DIR *, opendir, const char *)(path);
}

#define CALL(result, name, counted, types, names)                            \
    result name types {                                                      \
        if (counted) return fail();                                          \
        return ((result(*) types)dlsym(RTLD_NEXT, #name)) names;             \
    }
CALL(int, rename, due("rename", to), (const char *from, const char *to), (from, to))
CALL(int, fsync, due_at("fsync", fd, 0), (int fd), (fd))
CALL(int, ftruncate, due_at("ftruncate", fd, 0), (int fd, off_t length), (fd, length))
CALL(int, ftruncate64, due_at("ftruncate", fd, 0), (int fd, off64_t length), (fd, length))
CALL(int, mkdir, due("mkdir", path), (const char *path, mode_t mode), (path, mode))
CALL(int, unlink, due("unlink", path), (const char *path), (path))
CALL(int, unlinkat, due("unlink", path), (int directory, const char *path, int flags), (directory, path, flags))
CALL(int, rmdir, due("rmdir", path), (const char *path), (path))
CALL(int, link, due("link", to), (const char *from, const char *to), (from, to))
CALL(int, symlink, due("symlink", to), (const char *from, const char *to), (from, to))
CALL(int, pipe2, due("pipe", ""), (int ends[2], int flags), (ends, flags))
CALL(ssize_t, sendfile, due_at("sendfile", to, 0), (int to, int from, off_t *at, size_t n), (to, from, at, n))
CALL(ssize_t, sendfile64, due_at("sendfile", to, 0), (int to, int from, off64_t *at, size_t n), (to, from, at, n))
