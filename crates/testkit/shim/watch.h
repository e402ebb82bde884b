/* What the replaced functions share: which files are ours, the journal, and the faults asked for. */

#if !defined(__LP64__)
#error "the fault disk knows the system calls of 64-bit Linux only"
#endif

/* The layout of both structures is repeated in control.rs and journal.rs. */
struct control {
    uint64_t write_eio_from, write_eio_until, sync_eio_from, sync_eio_until, short_from, short_until;
    uint64_t space_limit, sync_delay_ms;
    uint64_t attached, writes, syncs, bytes, eio_fired, enospc_fired, short_fired, slow_fired;
};

struct record {
    uint32_t magic, kind;
    uint64_t inode, a, b;
    uint32_t path_length, other_length;
    uint64_t data_length;
};

enum kind {
    WRITE = 1, TRUNCATE, EXTEND, SYNC, SYNC_FAILED, SYNC_DIRECTORY, SYNC_ALL,
    CREATE, MAKE_DIRECTORY, LINK, RENAME, REMOVE, UNMODELLED,
};

#define MAGIC 0x4b534944u
#define JOURNAL_CAP (1ull << 30)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static int journal = -1;
static struct control *control;

static void die(const char *what) {
    dprintf(2, "faultdisk: %s: %s\n", what, strerror(errno));
    abort();
}

static int open_raw(const char *path, int flags) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
}

static void attach(void) {
    const char *directory = getenv("TURNSTREAM_DISK_ROOT");
    const char *journal_path = getenv("TURNSTREAM_DISK_JOURNAL");
    const char *control_path = getenv("TURNSTREAM_DISK_CONTROL");
    if (!directory || !journal_path || !control_path) return;
    int page = open_raw(control_path, O_RDWR | O_CLOEXEC);
    if (page < 0) die("cannot open the control page");
    control = (struct control *)syscall(SYS_mmap, NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
    if (control == MAP_FAILED) die("cannot map the control page");
    syscall(SYS_close, page);
    int low = open_raw(journal_path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (low < 0) die("cannot open the journal");
    /* A high number, so that the child's own descriptors keep the numbers they would have had. */
    journal = fcntl(low, F_DUPFD_CLOEXEC, 500);
    if (journal < 0) journal = low; else syscall(SYS_close, low);
    snprintf(root, sizeof root, "%s", directory);
    root_length = strlen(root);
    __atomic_fetch_add(&control->attached, 1, __ATOMIC_SEQ_CST);
}

__attribute__((constructor)) static void start(void) { pthread_once(&once, attach); }

static int armed(void) {
    pthread_once(&once, attach);
    return journal >= 0;
}

/* --- which files ------------------------------------------------------------------------------------------- */

/* SQLite rebuilds its shared-memory index after a crash, so these files are left alone. */
static int is_volatile(const char *path) {
    size_t length = strlen(path);
    return length >= 4 && strcmp(path + length - 4, "-shm") == 0;
}

static int inside(const char *path) {
    return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

static const char *relative(const char *path) { return path[root_length] == '/' ? path + root_length + 1 : ""; }

static int path_of_descriptor(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return 1;
}

/* Whether the descriptor is a file or directory of ours. */
static int watched(int fd, struct stat *status, char *path) {
    int saved = errno;
    int ours = armed() && fstat(fd, status) == 0 && (S_ISREG(status->st_mode) || S_ISDIR(status->st_mode)) &&
               path_of_descriptor(fd, path) && inside(path) && !is_volatile(path);
    errno = saved;
    return ours;
}

static int watched_file(int fd, struct stat *status) {
    char path[PATH_MAX];
    return watched(fd, status, path) && S_ISREG(status->st_mode);
}

/* The absolute path with a resolved parent, so that links and dots above the name do not hide a file of ours. */
static int locate(int dirfd, const char *path, char *full) {
    int saved = errno, found = 0;
    char joined[2 * PATH_MAX], base[PATH_MAX];
    if (!armed() || !path || !*path) return 0;
    if (path[0] == '/') snprintf(joined, sizeof joined, "%s", path);
    else if (dirfd == AT_FDCWD ? getcwd(base, sizeof base) != NULL : path_of_descriptor(dirfd, base))
        snprintf(joined, sizeof joined, "%s/%s", base, path);
    else goto out;
    size_t length = strlen(joined);
    while (length > 1 && joined[length - 1] == '/') joined[--length] = 0;
    char *slash = strrchr(joined, '/');
    const char *name = slash + 1;
    *slash = 0;
    if (!realpath(slash == joined ? "/" : joined, base)) goto out;
    if (snprintf(full, PATH_MAX, "%s/%s", base, name) >= PATH_MAX) goto out;
    found = inside(full) && !is_volatile(full);
out:
    errno = saved;
    return found;
}

/* --- journal (call with the lock held) --------------------------------------------------------------------- */

static uint64_t journal_end(void) {
    off_t end = lseek(journal, 0, SEEK_END);
    if (end < 0) die("the journal is gone");
    return (uint64_t)end;
}

static void put(const void *bytes, size_t length) {
    const char *from = bytes;
    while (length > 0) {
        ssize_t done = syscall(SYS_write, journal, from, length);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) die("cannot write the journal");
        from += done;
        length -= (size_t)done;
    }
}

static void note(enum kind kind, uint64_t inode, uint64_t a, uint64_t b, const char *path, const char *other) {
    int saved = errno;
    struct record record = { MAGIC, kind, inode, a, b, path ? (uint32_t)strlen(path) : 0,
                             other ? (uint32_t)strlen(other) : 0, 0 };
    char whole[sizeof record + 2 * PATH_MAX];
    memcpy(whole, &record, sizeof record);
    memcpy(whole + sizeof record, path ? path : "", record.path_length);
    memcpy(whole + sizeof record + record.path_length, other ? other : "", record.other_length);
    put(whole, sizeof record + record.path_length + record.other_length);
    errno = saved;
}

static void note_write(uint64_t inode, uint64_t offset, const struct iovec *from, uint64_t length) {
    int saved = errno;
    if (journal_end() + length > JOURNAL_CAP) {
        errno = EFBIG;
        die("the journal has reached 1 GiB; cut the power or settle the disk more often");
    }
    struct record record = { MAGIC, WRITE, inode, offset, 0, 0, 0, length };
    put(&record, sizeof record);
    for (; length > 0; from++) {
        uint64_t part = from->iov_len < length ? from->iov_len : length;
        put(from->iov_base, part);
        length -= part;
    }
    errno = saved;
}

/* --- faults ------------------------------------------------------------------------------------------------- */

static uint64_t get(const uint64_t *field) { return __atomic_load_n(field, __ATOMIC_SEQ_CST); }
static uint64_t count(uint64_t *field) { return __atomic_add_fetch(field, 1, __ATOMIC_SEQ_CST); }
/* The parent empties a window before it moves its beginning; a beginning that moved meanwhile means: look again. */
static int within(uint64_t number, const uint64_t *from, const uint64_t *until) {
    uint64_t first, end;
    do {
        first = get(from);
        end = get(until);
    } while (get(from) != first);
    return first <= number && number < end;
}

static int fail(int error, uint64_t *fired) {
    count(fired);
    errno = error;
    return -1;
}

/* How many of `wanted` bytes the disk takes now; -1 with errno for none. Call with the lock held. */
static ssize_t admit(uint64_t wanted) {
    uint64_t number = count(&control->writes), used = get(&control->bytes), limit = get(&control->space_limit);
    if (within(number, &control->write_eio_from, &control->write_eio_until)) return fail(EIO, &control->eio_fired);
    if (wanted > 1 && within(number, &control->short_from, &control->short_until)) {
        count(&control->short_fired);
        wanted /= 2;
    }
    if (wanted > 0 && used >= limit) return fail(ENOSPC, &control->enospc_fired);
    if (wanted > limit - used) wanted = limit - used;
    return (ssize_t)wanted;
}
