/* Makes every call that the shim replaces and that Rust's std does not make; the second argument chooses which. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHECK(call) if (!(call)) { perror(#call); exit(1); }

static void all_calls(int directory) {
    struct iovec parts[2] = { { "one ", 4 }, { "two ", 4 } };
    int fd = openat(directory, "vectors", O_CREAT | O_RDWR, 0640);
    CHECK(fd >= 0);
    CHECK(pwritev(fd, parts, 2, 10) == 8);
    CHECK(pwritev2(fd, parts, 2, 30, RWF_DSYNC) == 8);
    CHECK(pwritev2(fd, parts, 2, -1, 0) == 8);
    int copy = dup(fd);
    CHECK(write(copy, "by a copy", 9) == 9);
    CHECK(close(copy) == 0);
    CHECK(posix_fallocate(fd, 0, 100) == 0);
    CHECK(fallocate(fd, 0, 100, 50) == 0);
    CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4096) == 0);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == -1);
    CHECK(truncate("vectors", 120) == 0);
    CHECK(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE) == 0);

    int appending = open("appended", O_CREAT | O_WRONLY | O_APPEND, 0600);
    CHECK(appending >= 0 && write(appending, "start", 5) == 5);
    /* Linux appends here whatever the offset says. */
    CHECK(pwrite(appending, "end", 3, 0) == 3);
    struct iovec part = { "!", 1 };
    int written = open("vectors-appended", O_CREAT | O_RDWR, 0600);
    CHECK(written >= 0 && write(written, "long text", 9) == 9);
    CHECK(pwritev2(written, &part, 1, 2, RWF_APPEND) == 1);
    CHECK(sendfile(appending, fd, NULL, 10) == -1);
    CHECK(copy_file_range(fd, NULL, appending, NULL, 10, 0) == -1);

    int created = creat("created", 0600);
    CHECK(created >= 0 && write(created, "x", 1) == 1);
    CHECK(mkdirat(directory, "sub", 0700) == 0);
    CHECK(renameat(directory, "created", directory, "sub/moved") == 0);
    CHECK(renameat2(directory, "sub/moved", directory, "sub/again", RENAME_NOREPLACE) == 0);
    CHECK(linkat(directory, "sub/again", directory, "linked", 0) == 0);
    /* Two names of one file: the kernel leaves both. */
    CHECK(rename("linked", "linked") == 0 && rename("linked", "sub/again") == 0);
    CHECK(creat("removed", 0600) >= 0 && remove("removed") == 0);
    CHECK(mkdir("empty", 0700) == 0 && remove("empty") == 0);
    if (fork() == 0) {
        CHECK(write(created, "by a child", 10) == 10);
        _exit(0);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 3 && chdir(argv[1]) == 0);
    int directory = open(".", O_RDONLY | O_DIRECTORY);
    if (strcmp(argv[2], "all") == 0) all_calls(directory);
    if (strcmp(argv[2], "syncfs") == 0) {
        int fd = open("file", O_CREAT | O_WRONLY, 0600);
        CHECK(write(fd, "synced", 6) == 6 && syncfs(fd) == 0 && write(fd, " not", 4) == 4);
    }
    if (strcmp(argv[2], "allocate") == 0) {
        int fd = open("allocated", O_CREAT | O_RDWR, 0600);
        CHECK(fallocate(fd, 0, 0, 80) == 0);
        CHECK(fallocate(fd, 0, 0, 80) == 0);
        CHECK(fallocate(fd, 0, 80, 50) == -1 && errno == ENOSPC);
        CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 80, 50) == -1 && errno == ENOSPC);
        CHECK(pwrite(fd, "twenty bytes fit, not more", 26, 0) == 20);
        CHECK(fallocate(fd, 0, 80, 1) == -1 && errno == ENOSPC);
    }
    if (strcmp(argv[2], "map") == 0) {
        int fd = open("mapped", O_CREAT | O_RDWR, 0600);
        CHECK(ftruncate(fd, 4096) == 0);
        CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
    }
    return 0;
}
