/* Volumes that end: in several threads at once, by ffs_free(), on a device that fails, and in a
 * child of fork(2). Prints "ok", or the line that failed. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ffs.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			printf("line %d: %s\n", __LINE__, #what); \
			fflush(stdout); \
			_exit(1); \
		} \
	} while (0)

#define SIZE (16 << 20)
#define THREADS 4

static char image[4096];
static unsigned char before[SIZE], after[SIZE];
static struct ffs_volume *shared;
static volatile int stop;

static void
new_image(void)
{
	struct ffs_volume *volume = ffs_new();

	remove(image);
	CHECK(ffs_newfs(volume, image, SIZE, 0) == 0);
	CHECK(ffs_free(volume) == 0);
}

static void
check(void)
{
	struct ffs_volume *volume = ffs_new();

	CHECK(ffs_fsck(volume, image, FFS_CHECK) == 0);
	CHECK(ffs_free(volume) == 0);
}

static void
read_image(unsigned char *content)
{
	FILE *file = fopen(image, "rb");

	CHECK(file != NULL && fread(content, 1, SIZE, file) == SIZE);
	fclose(file);
}

/* Opens and closes the one handle; the result is how often each worked. */
static void *
reopen(void *argument)
{
	int *counts = argument;
	int done;

	for (int i = 0; i < 100; i++) {
		done = ffs_open(shared, image, FFS_WRITE);
		CHECK(done == 0 || done == -EBUSY);
		counts[0] += done == 0;
		done = ffs_close(shared);
		CHECK(done == 0 || done == -EBADF);
		counts[1] += done == 0;
	}
	return NULL;
}

static void
each_open_is_closed_once(void)
{
	pthread_t all[THREADS];
	int counts[THREADS][2] = { { 0 } };
	int opened = 0, closed = 0;

	new_image();
	shared = ffs_new();
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&all[i], NULL, reopen, counts[i]) == 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(all[i], NULL) == 0);
		opened += counts[i][0];
		closed += counts[i][1];
	}
	CHECK(opened > 0 && opened == closed);
	CHECK(ffs_close(shared) == -EBADF && ffs_free(shared) == 0);
	check();
}

static void
free_closes_a_volume_with_open_files(void)
{
	struct ffs_volume *volume = ffs_new();
	struct ffs_file *file;
	char buf[8];

	new_image();
	CHECK(ffs_open(volume, image, FFS_WRITE) == 0);
	CHECK(ffs_file_open(volume, "/f", FFS_READ | FFS_WRITE | FFS_CREATE, 0644, &file) == 0);
	CHECK(ffs_file_pwrite(file, "hello", 5, 0) == 5);
	CHECK(ffs_free(volume) == 0);
	CHECK(ffs_file_pread(file, buf, sizeof(buf), 0) == 5 && memcmp(buf, "hello", 5) == 0);
	CHECK(ffs_file_pwrite(file, "again", 5, 0) == -EROFS);
	ffs_file_close(file);
	check();
}

static void
errors_of_closing_are_returned(void)
{
	struct ffs_volume *volume = ffs_new();
	struct rlimit limit, none;
	char message[256];
	int closed, freed;

	new_image();
	CHECK(ffs_open(volume, image, FFS_WRITE) == 0);
	CHECK(ffs_mkdir(volume, "/d", 0755) == 0);
	CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
	none = limit;
	none.rlim_cur = 0;
	signal(SIGXFSZ, SIG_IGN);
	CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
	closed = ffs_close(volume);
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(closed < 0 && ffs_message(volume, message, sizeof(message)) > 0);
	/* Nothing is lost: the volume is open, and the call can be repeated. */
	CHECK(ffs_mkdir(volume, "/e", 0755) == 0 && ffs_close(volume) == 0);
	check();
	CHECK(ffs_open(volume, image, FFS_WRITE) == 0);
	CHECK(ffs_mkdir(volume, "/g", 0755) == 0);
	CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
	freed = ffs_free(volume);
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(freed < 0);
}

/* What every call of a child does with the handles of its parent. */
static void
inherited(struct ffs_volume *volume, struct ffs_file *file, struct ffs_dir *dir)
{
	struct ffs_stat found;
	struct ffs_dirent entry;
	char text[256];

	CHECK(ffs_mkdir(volume, "/child", 0755) == -EBADF);
	CHECK(ffs_stat(volume, "/", &found) == -EBADF && ffs_sync(volume) == -EBADF);
	CHECK(ffs_open(volume, image, FFS_READ) == -EBADF && ffs_close(volume) == -EBADF);
	CHECK(ffs_errno(volume) == EBADF && ffs_message(volume, text, sizeof(text)) > 0);
	CHECK(strstr(text, "opened by another process; open it again here") != NULL);
	CHECK(ffs_file_pwrite(file, "child", 5, 0) == -EBADF && ffs_file_sync(file) == -EBADF);
	CHECK(ffs_file_message(file, text, sizeof(text)) > 0);
	CHECK(ffs_readdir(dir, &entry) == -EBADF);
	CHECK(ffs_dir_message(dir, text, sizeof(text)) > 0);
	ffs_file_close(file);
	ffs_dir_close(dir);
	CHECK(ffs_free(volume) == -EBADF);
}

static void *
fail(void *unused)
{
	(void)unused;
	while (!stop) {
		CHECK(ffs_mkdir(shared, "/d", 0755) == -EEXIST);
		CHECK(ffs_errno(shared) == EEXIST);
	}
	return NULL;
}

/* Forks; the child uses the handles and gives them back. Its copies of locks may be held. */
static void
fork_once(struct ffs_file *file, struct ffs_dir *dir)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(60);
		inherited(shared, file, dir);
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	CHECK(WEXITSTATUS(status) == 0);
}

static void
a_child_leaves_the_image_alone(void)
{
	struct ffs_file *file;
	struct ffs_dir *dir;
	struct ffs_stat found;
	pthread_t other;

	new_image();
	shared = ffs_new();
	CHECK(ffs_open(shared, image, FFS_WRITE) == 0);
	CHECK(ffs_mkdir(shared, "/d", 0755) == 0);
	CHECK(ffs_file_open(shared, "/f", FFS_READ | FFS_WRITE | FFS_CREATE, 0644, &file) == 0);
	CHECK(ffs_file_pwrite(file, "parent", 6, 0) == 6);
	CHECK(ffs_opendir(shared, "/", &dir) == 0);
	read_image(before);
	fork_once(file, dir);
	read_image(after);
	CHECK(memcmp(before, after, SIZE) == 0);
	CHECK(pthread_create(&other, NULL, fail, NULL) == 0);
	for (int i = 0; i < 50; i++)
		fork_once(file, dir);
	stop = 1;
	CHECK(pthread_join(other, NULL) == 0);
	/* The parent goes on. */
	CHECK(ffs_file_pwrite(file, " again", 6, 6) == 6);
	ffs_file_close(file);
	ffs_dir_close(dir);
	CHECK(ffs_close(shared) == 0);
	CHECK(ffs_open(shared, image, FFS_READ) == 0);
	CHECK(ffs_stat(shared, "/f", &found) == 0 && found.size == 12);
	CHECK(ffs_stat(shared, "/child", &found) == -ENOENT);
	CHECK(ffs_free(shared) == 0);
	check();
}

int
main(int argc, char **argv)
{
	CHECK(argc == 2);
	snprintf(image, sizeof(image), "%s/closing.img", argv[1]);
	each_open_is_closed_once();
	free_closes_a_volume_with_open_files();
	errors_of_closing_are_returned();
	a_child_leaves_the_image_alone();
	puts("ok");
	return 0;
}
