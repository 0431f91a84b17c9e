/*
 * dirbench: measures operations on the names of one directory.
 *
 * usage: dirbench -d DIR -n N -l LABEL PHASE...
 *
 * Each phase runs one system call (create: two) for each of N names and prints a line of CSV:
 * "LABEL","PHASE",MICROSECONDS, the mean time of an operation. The phases are:
 *
 *   create-shuf   create N empty files
 *   stat-shuf     stat each of them
 *   miss          stat N names that do not exist
 *   rename-shuf   rename each file
 *   unlink-shuf   remove each file
 *
 * Each phase visits the names in its own random order. The orders are the same in every run. The
 * directory is created before the first phase and is removed by the caller. dirbench does not
 * drop any cache.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *action)
{
	fprintf(stderr, "dirbench: %s: %s\n", action, strerror(errno));
	exit(1);
}

static void usage(void)
{
	fprintf(stderr, "usage: dirbench -d DIR -n N -l LABEL PHASE...\n");
	exit(2);
}

/* Linear congruential generator with the constants of Knuth's MMIX; the high bits are used. */
static uint64_t random_state;

static uint32_t random_below(uint32_t bound)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 32) % bound;
}

static void shuffle(uint32_t *order, uint32_t count, uint64_t seed)
{
	random_state = seed;
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	for (uint32_t i = count; i > 1; i--) {
		uint32_t other = random_below(i), last = order[i - 1];
		order[i - 1] = order[other];
		order[other] = last;
	}
}

static int create(int dir, const char *name)
{
	int file = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY, 0644);
	return file < 0 ? -1 : close(file);
}

static int look_up(int dir, const char *name)
{
	struct stat found;
	return fstatat(dir, name, &found, AT_SYMLINK_NOFOLLOW);
}

/* The names of the files are f0, f1, ... before rename-shuf, and r0, r1, ... after it. */
static int run_once(int dir, const char *phase, char prefix, uint32_t number)
{
	char name[16], renamed[16];

	snprintf(name, sizeof name, "%c%u", prefix, number);
	if (!strcmp(phase, "create-shuf"))
		return create(dir, name);
	if (!strcmp(phase, "stat-shuf"))
		return look_up(dir, name);
	if (!strcmp(phase, "miss")) {
		name[0] = 'm';
		if (look_up(dir, name) == 0)
			errno = EEXIST;
		return errno == ENOENT ? 0 : -1;
	}
	if (!strcmp(phase, "rename-shuf")) {
		snprintf(renamed, sizeof renamed, "r%u", number);
		return renameat(dir, name, dir, renamed);
	}
	if (!strcmp(phase, "unlink-shuf"))
		return unlinkat(dir, name, 0);
	usage();
	return -1;
}

static double microseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	const char *path = NULL, *label = NULL;
	uint32_t count = 0;
	char prefix = 'f';
	int option;

	while ((option = getopt(argc, argv, "d:n:l:")) != -1) {
		switch (option) {
		case 'd': path = optarg; break;
		case 'n': count = strtoul(optarg, NULL, 10); break;
		case 'l': label = optarg; break;
		default: usage();
		}
	}
	if (!path || !label || !count || optind == argc)
		usage();
	if (mkdir(path, 0755) && errno != EEXIST)
		fail(path);
	int dir = open(path, O_RDONLY | O_DIRECTORY);
	uint32_t *order = malloc(count * sizeof *order);
	if (dir < 0 || !order)
		fail(path);
	for (int i = optind; i < argc; i++) {
		shuffle(order, count, 1 + (uint64_t)i);
		double start = microseconds();
		for (uint32_t k = 0; k < count; k++)
			if (run_once(dir, argv[i], prefix, order[k]))
				fail(argv[i]);
		double mean = (microseconds() - start) / count;
		printf("\"%s\",\"%s\",%.3f\n", label, argv[i], mean);
		if (!strcmp(argv[i], "rename-shuf"))
			prefix = 'r';
	}
	return 0;
}
