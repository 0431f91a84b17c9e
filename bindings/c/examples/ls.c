/*
 * Lists a tree of an image: the mode, the size and the path of each file.
 *
 *     cc ls.c $(pkg-config --cflags --libs ffs) -o ls
 *     ./ls disk.img /etc
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <ffs.h>

/* Prints the message of the last failure of the volume. */
static int
fail(const struct ffs_volume *volume, const char *path)
{
	char message[512];

	ffs_message(volume, message, sizeof(message));
	fprintf(stderr, "ls: %s: %s\n", path, message);
	return 1;
}

/* Lists a directory and those below it. Returns 1 if something could not be read. */
static int
list(const struct ffs_volume *volume, const char *path)
{
	struct ffs_dir *dir;
	struct ffs_dirent entry;
	struct ffs_stat found;
	char below[4096];
	int result, failed = 0;

	if (ffs_opendir(volume, path, &dir) < 0)
		return fail(volume, path);
	while ((result = ffs_readdir(dir, &entry)) > 0) {
		/* A path that is too long is left out. */
		if ((size_t)snprintf(below, sizeof(below), "%s/%s", strcmp(path, "/") == 0 ? "" : path,
		    entry.name) >= sizeof(below)) {
			fprintf(stderr, "ls: %s: the path is too long\n", entry.name);
			failed = 1;
			continue;
		}
		if (ffs_lstat(volume, below, &found) < 0) {
			failed |= fail(volume, below);
			continue;
		}
		printf("%06" PRIo32 " %10" PRIu64 " %s\n", found.mode, found.size, below);
		if (S_ISDIR(found.mode))
			failed |= list(volume, below);
	}
	if (result < 0) {
		char message[512];

		ffs_dir_message(dir, message, sizeof(message));
		fprintf(stderr, "ls: %s: %s\n", path, message);
		failed = 1;
	}
	ffs_dir_close(dir);
	return failed;
}

int
main(int argc, char **argv)
{
	struct ffs_volume *volume;
	int failed;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: ls image [directory]\n");
		return 2;
	}
	volume = ffs_new();
	if (ffs_open(volume, argv[1], FFS_READ) < 0)
		failed = fail(volume, argv[1]);
	else
		failed = list(volume, argc == 3 ? argv[2] : "/");
	ffs_free(volume);
	return failed;
}
