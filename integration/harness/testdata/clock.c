// Put before the C library with LD_PRELOAD: adds the nanoseconds in the file $CLOCK_OFFSET to the wall clock.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void map_offset(void) {
	const char *path = getenv("CLOCK_OFFSET");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *p = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		offset = p;
	close(fd);
}

int clock_gettime(clockid_t id, struct timespec *t) {
	int result = (int)syscall(SYS_clock_gettime, id, t);
	if (result == 0 && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t ns = (int64_t)t->tv_sec * 1000000000 + t->tv_nsec + *offset;
		t->tv_sec = ns / 1000000000;
		t->tv_nsec = ns % 1000000000;
	}
	return result;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	(void)zone;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}
