/* The fault disk's shim: preloaded into a child, it stands between the child and the kernel for every file
 * below one directory. It injects the faults that the control page asks for, and journals every change and every
 * completed sync, so that the parent can rebuild what a power cut would have left.
 *
 * Rules that make the journal true even if SIGKILL comes at any moment:
 * - A change is journalled after the kernel accepted it, with what the kernel accepted, while a lock keeps other
 *   changes out. A kill in between forgets an unsynced change, which a power cut may do anyway.
 * - A sync is journalled after it succeeded, with the length of the journal at its start: only
 *   changes from before the sync are covered. The lock is not held meanwhile, so that a slow sync does not
 *   stop writers.
 * - Files are known by inode; nothing is kept per descriptor, so dup, fork and inherited descriptors need no care.
 *
 * Kernel calls are made with syscall(2): looking up the replaced functions could recurse into this file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "watch.h"

#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x20 /* Linux 6.9; headers of older systems do not know it. */
#endif

/* --- data --------------------------------------------------------------------------------------------------- */

/* All ways to write: `at` is -1 for the current position. */
static ssize_t put_file(int fd, const struct iovec *from, int parts, off_t at, int flags) {
    struct iovec fitting[IOV_MAX];
    uint64_t wanted = 0;
    if (parts < 0 || parts > IOV_MAX) { errno = EINVAL; return -1; }
    for (int i = 0; i < parts; i++) wanted += from[i].iov_len;
    pthread_mutex_lock(&lock);
    ssize_t result = admit(wanted);
    if (result >= 0) {
        uint64_t left = (uint64_t)result;
        int used = 0;
        for (; used < parts && left > 0; used++) {
            fitting[used] = from[used];
            if (fitting[used].iov_len > left) fitting[used].iov_len = left;
            left -= fitting[used].iov_len;
        }
        struct stat status;
        int mode = fcntl(fd, F_GETFL);
        if (fstat(fd, &status) != 0 || mode < 0) die("a descriptor was closed during a write to it");
        int appends = ((mode & O_APPEND) && !(flags & RWF_NOAPPEND)) || (flags & RWF_APPEND);
        off_t offset = appends ? status.st_size : at >= 0 ? at : lseek(fd, 0, SEEK_CUR);
        result = syscall(SYS_pwritev2, fd, fitting, used, at, 0, flags);
        if (result > 0) {
            __atomic_fetch_add(&control->bytes, (uint64_t)result, __ATOMIC_SEQ_CST);
            note_write(status.st_ino, (uint64_t)offset, fitting, (uint64_t)result);
            if ((mode & (O_SYNC | O_DSYNC)) || (flags & (RWF_SYNC | RWF_DSYNC)))
                note(SYNC, status.st_ino, journal_end(), 0, NULL, NULL);
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    struct stat status;
    struct iovec from = { (void *)bytes, length };
    if (!watched_file(fd, &status)) return syscall(SYS_write, fd, bytes, length);
    return put_file(fd, &from, 1, -1, 0);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    struct stat status;
    struct iovec from = { (void *)bytes, length };
    if (at < 0 || !watched_file(fd, &status)) return syscall(SYS_pwrite64, fd, bytes, length, at);
    return put_file(fd, &from, 1, at, 0);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) { return pwrite(fd, bytes, length, at); }

ssize_t writev(int fd, const struct iovec *from, int parts) {
    struct stat status;
    if (!watched_file(fd, &status)) return syscall(SYS_writev, fd, from, parts);
    return put_file(fd, from, parts, -1, 0);
}

ssize_t pwritev2(int fd, const struct iovec *from, int parts, off_t at, int flags) {
    struct stat status;
    if (!watched_file(fd, &status)) return syscall(SYS_pwritev2, fd, from, parts, at, 0, flags);
    return put_file(fd, from, parts, at, flags);
}
ssize_t pwritev64v2(int fd, const struct iovec *from, int parts, off_t at, int flags) {
    return pwritev2(fd, from, parts, at, flags);
}
ssize_t pwritev(int fd, const struct iovec *from, int parts, off_t at) { return pwritev2(fd, from, parts, at, 0); }
ssize_t pwritev64(int fd, const struct iovec *from, int parts, off_t at) { return pwritev2(fd, from, parts, at, 0); }

int ftruncate(int fd, off_t length) {
    struct stat status;
    if (!watched_file(fd, &status)) return (int)syscall(SYS_ftruncate, fd, length);
    pthread_mutex_lock(&lock);
    int result = admit(0) < 0 ? -1 : (int)syscall(SYS_ftruncate, fd, length);
    if (result == 0) note(TRUNCATE, status.st_ino, (uint64_t)length, 0, NULL, NULL);
    pthread_mutex_unlock(&lock);
    return result;
}
int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

int truncate(const char *path, off_t length) {
    int fd = open_raw(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = ftruncate(fd, length), saved = errno;
    syscall(SYS_close, fd);
    errno = saved;
    return result;
}
int truncate64(const char *path, off_t length) { return truncate(path, length); }

int fallocate(int fd, int mode, off_t offset, off_t length) {
    struct stat status;
    if (!watched_file(fd, &status) || offset < 0 || length <= 0)
        return (int)syscall(SYS_fallocate, fd, mode, offset, length);
    /* Holes and shifts are not modelled; callers must cope with file systems that have none. */
    if (mode != 0 && mode != FALLOC_FL_KEEP_SIZE) { errno = EOPNOTSUPP; return -1; }
    pthread_mutex_lock(&lock);
    if (fstat(fd, &status) != 0) die("a descriptor was closed during an allocation");
    /* Space inside the file was paid for when it was written. */
    uint64_t end = (uint64_t)offset + (uint64_t)length, size = (uint64_t)status.st_size;
    uint64_t grown = end > size ? end - size : 0, used = get(&control->bytes), limit = get(&control->space_limit);
    int result = -1;
    if (admit(0) >= 0) {
        if (grown > 0 && (used >= limit || limit - used < grown)) fail(ENOSPC, &control->enospc_fired);
        else result = (int)syscall(SYS_fallocate, fd, mode, offset, length);
    }
    if (result == 0) {
        __atomic_fetch_add(&control->bytes, grown, __ATOMIC_SEQ_CST);
        if (mode == 0) note(EXTEND, status.st_ino, end, 0, NULL, NULL);
    }
    pthread_mutex_unlock(&lock);
    return result;
}
int fallocate64(int fd, int mode, off_t offset, off_t length) { return fallocate(fd, mode, offset, length); }

int posix_fallocate(int fd, off_t offset, off_t length) {
    int saved = errno, result = fallocate(fd, 0, offset, length) == 0 ? 0 : errno;
    errno = saved;
    return result;
}
int posix_fallocate64(int fd, off_t offset, off_t length) { return posix_fallocate(fd, offset, length); }

/* Copies inside the kernel would go round the journal: refused, so that callers fall back to read and write. */
ssize_t copy_file_range(int in, off_t *in_at, int out, off_t *out_at, size_t length, unsigned flags) {
    struct stat status;
    if (!watched_file(out, &status)) return syscall(SYS_copy_file_range, in, in_at, out, out_at, length, flags);
    errno = ENOSYS;
    return -1;
}
ssize_t sendfile(int out, int in, off_t *at, size_t length) {
    struct stat status;
    if (!watched_file(out, &status)) return syscall(SYS_sendfile, out, in, at, length);
    errno = EINVAL;
    return -1;
}
ssize_t sendfile64(int out, int in, off_t *at, size_t length) { return sendfile(out, in, at, length); }

void *mmap(void *where, size_t length, int prot, int flags, int fd, off_t offset) {
    struct stat status;
    char path[PATH_MAX];
    int type = flags & MAP_TYPE;
    if (!(flags & MAP_ANONYMOUS) && (type == MAP_SHARED || type == MAP_SHARED_VALIDATE) && (prot & PROT_WRITE) &&
        fd >= 0 && watched(fd, &status, path)) {
        pthread_mutex_lock(&lock);
        note(UNMODELLED, status.st_ino, 0, 0, relative(path), "was mapped for writing");
        pthread_mutex_unlock(&lock);
    }
    return (void *)syscall(SYS_mmap, where, length, prot, flags, fd, offset);
}
void *mmap64(void *where, size_t length, int prot, int flags, int fd, off_t offset) {
    return mmap(where, length, prot, flags, fd, offset);
}

/* --- syncs --------------------------------------------------------------------------------------------------- */

static int sync_file(int fd, long call) {
    struct stat status;
    char path[PATH_MAX];
    if (!watched(fd, &status, path)) return (int)syscall(call, fd);
    pthread_mutex_lock(&lock);
    uint64_t covers = journal_end(), number = count(&control->syncs), delay = get(&control->sync_delay_ms);
    pthread_mutex_unlock(&lock);
    if (delay > 0) {
        struct timespec pause = { (time_t)(delay / 1000), (long)(delay % 1000) * 1000000 };
        count(&control->slow_fired);
        nanosleep(&pause, NULL);
    }
    int result = within(number, &control->sync_eio_from, &control->sync_eio_until)
                     ? fail(EIO, &control->eio_fired)
                     : (int)syscall(call, fd);
    pthread_mutex_lock(&lock);
    if (S_ISREG(status.st_mode)) note(result == 0 ? SYNC : SYNC_FAILED, status.st_ino, covers, 0, NULL, NULL);
    else if (result == 0) note(SYNC_DIRECTORY, status.st_ino, covers, 0, relative(path), NULL);
    pthread_mutex_unlock(&lock);
    return result;
}
int fsync(int fd) { return sync_file(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_file(fd, SYS_fdatasync); }

/* It promises no durability (no metadata, no device cache), so nothing is journalled; it can fail like a sync. */
int sync_file_range(int fd, off_t offset, off_t length, unsigned flags) {
    struct stat status;
    if (watched_file(fd, &status) && within(get(&control->syncs), &control->sync_eio_from, &control->sync_eio_until))
        return fail(EIO, &control->eio_fired);
    return (int)syscall(SYS_sync_file_range, fd, offset, length, flags);
}

static void sync_all(uint64_t covers) {
    pthread_mutex_lock(&lock);
    note(SYNC_ALL, 0, covers, 0, NULL, NULL);
    pthread_mutex_unlock(&lock);
}
void sync(void) {
    uint64_t covers = armed() ? journal_end() : 0;
    syscall(SYS_sync);
    if (armed()) sync_all(covers);
}
int syncfs(int fd) {
    struct stat status;
    char path[PATH_MAX];
    int ours = watched(fd, &status, path);
    uint64_t covers = ours ? journal_end() : 0;
    int result = (int)syscall(SYS_syncfs, fd);
    if (ours && result == 0) sync_all(covers);
    return result;
}

/* --- names --------------------------------------------------------------------------------------------------- */

static int open_file(int dirfd, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    struct stat status;
    int temporary = (flags & O_TMPFILE) == O_TMPFILE;
    if (!(flags & (O_CREAT | O_TRUNC)) && !temporary) return (int)syscall(SYS_openat, dirfd, path, flags, mode);
    if (temporary) {
        /* Files without a name are not modelled; callers must cope with file systems that have none. */
        char inner[PATH_MAX + 2];
        snprintf(inner, sizeof inner, "%s/x", path);
        if (!locate(dirfd, inner, full)) return (int)syscall(SYS_openat, dirfd, path, flags, mode);
        errno = EOPNOTSUPP;
        return -1;
    }
    if (!locate(dirfd, path, full)) return (int)syscall(SYS_openat, dirfd, path, flags, mode);
    pthread_mutex_lock(&lock);
    int saved = errno, existed = fstatat(dirfd, path, &status, 0) == 0;
    errno = saved;
    int fd = (int)syscall(SYS_openat, dirfd, path, flags, mode);
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        if (!existed) note(CREATE, status.st_ino, status.st_mode & 07777, 0, relative(full), NULL);
        else if (flags & O_TRUNC) note(TRUNCATE, status.st_ino, 0, 0, NULL, NULL);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE(flags, last) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, last); mode = va_arg(rest, mode_t); va_end(rest); }

int open(const char *path, int flags, ...) { MODE(flags, flags) return open_file(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, flags) return open_file(AT_FDCWD, path, flags, mode); }
int openat(int dirfd, const char *path, int flags, ...) { MODE(flags, flags) return open_file(dirfd, path, flags, mode); }
int openat64(int dirfd, const char *path, int flags, ...) { MODE(flags, flags) return open_file(dirfd, path, flags, mode); }
int creat(const char *path, mode_t mode) { return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }
/* What fortified programs call for an open without a mode. */
int __open_2(const char *path, int flags) { return open_file(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_file(AT_FDCWD, path, flags, 0); }
int __openat_2(int dirfd, const char *path, int flags) { return open_file(dirfd, path, flags, 0); }
int __openat64_2(int dirfd, const char *path, int flags) { return open_file(dirfd, path, flags, 0); }

int renameat2(int olddir, const char *old, int newdir, const char *new, unsigned flags) {
    char from[PATH_MAX], to[PATH_MAX];
    struct stat status, target;
    int from_ours = locate(olddir, old, from), to_ours = locate(newdir, new, to);
    if (!from_ours && !to_ours) return (int)syscall(SYS_renameat2, olddir, old, newdir, new, flags);
    pthread_mutex_lock(&lock);
    int saved = errno, known = fstatat(olddir, old, &status, AT_SYMLINK_NOFOLLOW) == 0;
    /* Between two names of one file a rename does nothing: both stay. */
    int same = known && fstatat(newdir, new, &target, AT_SYMLINK_NOFOLLOW) == 0 &&
               status.st_ino == target.st_ino && status.st_dev == target.st_dev;
    errno = saved;
    int result = (int)syscall(SYS_renameat2, olddir, old, newdir, new, flags);
    if (result == 0 && !same) {
        if (from_ours && to_ours && known && S_ISREG(status.st_mode) && !(flags & RENAME_EXCHANGE))
            note(RENAME, status.st_ino, 0, 0, relative(from), relative(to));
        else
            note(UNMODELLED, 0, 0, 0, from_ours ? relative(from) : relative(to),
                 "was renamed as a directory, across the edge of the disk, or exchanged");
    }
    pthread_mutex_unlock(&lock);
    return result;
}
int renameat(int olddir, const char *old, int newdir, const char *new) { return renameat2(olddir, old, newdir, new, 0); }
int rename(const char *old, const char *new) { return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0); }

int unlinkat(int dirfd, const char *path, int flags) {
    char full[PATH_MAX];
    if (!locate(dirfd, path, full)) return (int)syscall(SYS_unlinkat, dirfd, path, flags);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_unlinkat, dirfd, path, flags);
    if (result == 0) note(REMOVE, 0, 0, 0, relative(full), NULL);
    pthread_mutex_unlock(&lock);
    return result;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    int result = unlink(path);
    return result != 0 && errno == EISDIR ? rmdir(path) : result;
}

int mkdirat(int dirfd, const char *path, mode_t mode) {
    char full[PATH_MAX];
    if (!locate(dirfd, path, full)) return (int)syscall(SYS_mkdirat, dirfd, path, mode);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_mkdirat, dirfd, path, mode);
    if (result == 0) note(MAKE_DIRECTORY, 0, 0, 0, relative(full), NULL);
    pthread_mutex_unlock(&lock);
    return result;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int linkat(int olddir, const char *old, int newdir, const char *new, int flags) {
    char to[PATH_MAX];
    struct stat status;
    if (!locate(newdir, new, to)) return (int)syscall(SYS_linkat, olddir, old, newdir, new, flags);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_linkat, olddir, old, newdir, new, flags);
    if (result == 0 && fstatat(newdir, new, &status, 0) == 0) note(LINK, status.st_ino, 0, 0, relative(to), NULL);
    pthread_mutex_unlock(&lock);
    return result;
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

int symlinkat(const char *target, int dirfd, const char *path) {
    char full[PATH_MAX];
    int ours = locate(dirfd, path, full), result = (int)syscall(SYS_symlinkat, target, dirfd, path);
    if (ours && result == 0) {
        pthread_mutex_lock(&lock);
        note(UNMODELLED, 0, 0, 0, relative(full), "is a symbolic link");
        pthread_mutex_unlock(&lock);
    }
    return result;
}
int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }
