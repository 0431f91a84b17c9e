/* Calls every function of libffs, also with wrong arguments. Prints "ok", or the line that failed. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <ffs.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			printf("line %d: %s\n", __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

static struct ffs_volume *volume;
static char image[4096], tree[4096];

/* The last failure of the volume has this errno and a message. */
static void
failed(int error)
{
	char message[256], shorter[4];
	size_t length = ffs_message(volume, message, sizeof(message));

	CHECK(ffs_errno(volume) == error);
	CHECK(length > 0 && length == strlen(message));
	CHECK(ffs_message(volume, shorter, sizeof(shorter)) == length);
	CHECK(strlen(shorter) == 3 && strncmp(shorter, message, 3) == 0);
	CHECK(ffs_message(volume, NULL, 0) == length);
}

static void
null_pointers(void)
{
	struct ffs_stat found;
	char buf[8];

	CHECK(ffs_open(NULL, image, FFS_READ) == -EINVAL);
	CHECK(ffs_open(volume, NULL, FFS_READ) == -EINVAL);
	failed(EINVAL);
	CHECK(ffs_close(NULL) == -EINVAL && ffs_sync(NULL) == -EINVAL);
	CHECK(ffs_stat(NULL, "/", &found) == -EINVAL);
	CHECK(ffs_errno(NULL) == EINVAL && ffs_message(NULL, buf, sizeof(buf)) == 0);
	CHECK(ffs_file_pread(NULL, buf, sizeof(buf), 0) == -EINVAL);
	CHECK(ffs_readdir(NULL, NULL) == -EINVAL);
	CHECK(ffs_dir_message(NULL, buf, sizeof(buf)) == 0);
	CHECK(ffs_file_message(NULL, buf, sizeof(buf)) == 0);
	CHECK(ffs_free(NULL) == 0);
	ffs_dir_close(NULL);
	ffs_file_close(NULL);
}

/* Nothing is open yet. */
static void
without_an_image(void)
{
	struct ffs_stat found;

	CHECK(ffs_stat(volume, "/", &found) == -EBADF);
	failed(EBADF);
	CHECK(ffs_close(volume) == -EBADF && ffs_sync(volume) == -EBADF);
	CHECK(ffs_open(volume, "/no/such/image", FFS_READ) == -ENOENT);
	failed(ENOENT);
	CHECK(ffs_open(volume, image, 0) == -EINVAL);
	CHECK(ffs_newfs(volume, image, 16 << 20, 1u << 31) == -EINVAL);
	CHECK(ffs_newfs(volume, NULL, 16 << 20, 0) == -EINVAL);
	CHECK(ffs_newfs(volume, image, 1, 0) == -EINVAL);
	CHECK(ffs_newfs(volume, image, 16 << 20, 0) == 0);
	CHECK(ffs_newfs(volume, image, 16 << 20, 0) == -EEXIST);
	CHECK(ffs_fsck(volume, image, FFS_CHECK) == 0);
	CHECK(ffs_fsck(volume, image, FFS_PREEN) == 0);
	CHECK(ffs_fsck(volume, image, FFS_REPAIR) == 0);
	CHECK(ffs_fsck(volume, image, 17) == -EINVAL);
	CHECK(ffs_fsck(volume, "/no/such/image", FFS_CHECK) == -ENOENT);
}

static void
names(void)
{
	struct ffs_dir *dir;
	struct ffs_dirent entry;
	char buf[16];
	int entries = 0;

	CHECK(ffs_mkdir(volume, "/etc", 0700) == 0);
	CHECK(ffs_mkdir(volume, "/etc", 0700) == -EEXIST);
	failed(EEXIST);
	CHECK(ffs_mkdir_all(volume, "/a/b/c") == 0 && ffs_mkdir_all(volume, "/a/b/c") == 0);
	CHECK(ffs_rmdir(volume, "/a/b") == -ENOTEMPTY);
	CHECK(ffs_rmdir(volume, "/a/b/c") == 0);
	CHECK(ffs_symlink(volume, "motd", "/etc/link") == 0);
	CHECK(ffs_readlink(volume, "/etc/link", buf, sizeof(buf)) == 4);
	CHECK(memcmp(buf, "motd", 4) == 0);
	CHECK(ffs_readlink(volume, "/etc/link", NULL, 0) == 4);
	CHECK(ffs_readlink(volume, "/etc/link", buf, 2) == -ERANGE);
	CHECK(ffs_readlink(volume, "/etc/link", NULL, 8) == -EINVAL);
	CHECK(ffs_rename(volume, "/etc/link", "/etc/other") == 0);
	CHECK(ffs_rename(volume, "/etc/link", "/etc/x") == -ENOENT);
	CHECK(ffs_link(volume, "/etc/other", "/etc/third") == 0);
	CHECK(ffs_unlink(volume, "/etc/third") == 0);
	CHECK(ffs_opendir(volume, "/etc", NULL) == -EINVAL);
	CHECK(ffs_opendir(volume, "/etc/none", &dir) == -ENOENT);
	CHECK(ffs_opendir(volume, "/etc", &dir) == 0);
	CHECK(ffs_readdir(dir, NULL) == -EINVAL);
	CHECK(ffs_dir_message(dir, buf, sizeof(buf)) > 0);
	while (ffs_readdir(dir, &entry) == 1) {
		entries++;
		CHECK(entry.kind == S_IFLNK && strcmp(entry.name, "other") == 0 && entry.ino > 2);
	}
	CHECK(entries == 1 && ffs_readdir(dir, &entry) == 0);
	ffs_dir_close(dir);
}

static void
attributes(void)
{
	struct ffs_stat found;
	struct ffs_statfs space;
	struct ffs_time at = { -5, 7 }, wrong = { 0, 1000000000 };
	char buf[64];

	CHECK(ffs_stat(volume, "/etc", &found) == 0 && found.mode == (S_IFDIR | 0700));
	CHECK(ffs_stat(volume, "/etc", NULL) == -EINVAL);
	CHECK(ffs_lstat(volume, "/etc/other", &found) == 0 && S_ISLNK(found.mode));
	CHECK(ffs_stat(volume, "/etc/other", &found) == -ENOENT);
	CHECK(ffs_chmod(volume, "/etc", 0751) == 0);
	CHECK(ffs_chown(volume, "/etc", 10, FFS_KEEP_ID) == 0);
	CHECK(ffs_utimes(volume, "/etc", &wrong, NULL) == -EINVAL);
	CHECK(ffs_utimes(volume, "/etc", NULL, &at) == 0);
	CHECK(ffs_chflags(volume, "/etc", 1) == 0);
	CHECK(ffs_stat(volume, "/etc", &found) == 0 && found.mode == (S_IFDIR | 0751));
	CHECK(found.uid == 10 && found.gid == 0 && found.flags == 1);
	CHECK(found.mtime.sec == -5 && found.mtime.nsec == 7);
	CHECK(ffs_statfs(volume, &space) == 0 && space.fsize == 4096 && space.namemax == 255);
	CHECK(space.bfree <= space.blocks && space.ffree < space.files && space.read_only == 0);
	CHECK(ffs_statfs(volume, NULL) == -EINVAL);
	CHECK(ffs_setxattr(volume, "/etc", "user.note", "value", 5) == 0);
	CHECK(ffs_setxattr(volume, "/etc", "user.empty", NULL, 0) == 0);
	CHECK(ffs_setxattr(volume, "/etc", "user.note", NULL, 5) == -EINVAL);
	CHECK(ffs_setxattr(volume, "/etc", "note", "value", 5) == -EOPNOTSUPP);
	CHECK(ffs_getxattr(volume, "/etc", "user.note", buf, sizeof(buf)) == 5);
	CHECK(memcmp(buf, "value", 5) == 0);
	CHECK(ffs_getxattr(volume, "/etc", "user.note", NULL, 0) == 5);
	CHECK(ffs_getxattr(volume, "/etc", "user.none", buf, sizeof(buf)) == -ENODATA);
	CHECK(ffs_listxattr(volume, "/etc", buf, sizeof(buf)) == 21);
	CHECK(ffs_removexattr(volume, "/etc", "user.note") == 0);
	CHECK(ffs_listxattr(volume, "/etc", NULL, 0) == 11);
}

static void
files(void)
{
	struct ffs_file *file;
	struct ffs_stat found;
	char buf[32];
	uint32_t flags = FFS_READ | FFS_WRITE | FFS_CREATE;

	CHECK(ffs_file_open(volume, "/a/f", flags, 0600, NULL) == -EINVAL);
	CHECK(ffs_file_open(volume, "/a/f", FFS_READ, 0, &file) == -ENOENT);
	CHECK(ffs_file_open(volume, "/a/f", 1u << 30, 0, &file) == -EINVAL);
	CHECK(ffs_file_open(volume, "/a/f", FFS_WRITE | FFS_EXCLUSIVE, 0, &file) == -EINVAL);
	failed(EINVAL);
	CHECK(ffs_file_open(volume, "/a/f", flags, 0600, &file) == 0);
	CHECK(ffs_file_pwrite(file, "hello", 5, 100) == 5);
	CHECK(ffs_file_pwrite(file, NULL, 5, 0) == -EINVAL);
	CHECK(ffs_file_message(file, buf, sizeof(buf)) > 0);
	CHECK(ffs_file_pread(file, buf, sizeof(buf), 98) == 7);
	CHECK(memcmp(buf, "\0\0hello", 7) == 0);
	/* The library touches no more of a buffer than the file has. */
	CHECK(ffs_file_pread(file, buf, SIZE_MAX, 98) == 7);
	CHECK(ffs_file_pread(file, buf, sizeof(buf), UINT64_MAX) == 0);
	CHECK(ffs_file_pread(file, NULL, 8, 0) == -EINVAL);
	CHECK(ffs_file_sync(file) == 0 && ffs_file_truncate(file, 50) == 0);
	CHECK(ffs_file_stat(file, &found) == 0 && found.size == 50);
	CHECK(ffs_file_stat(file, NULL) == -EINVAL);
	ffs_file_close(file);
	CHECK(ffs_file_open(volume, "/a/f", flags | FFS_EXCLUSIVE, 0600, &file) == -EEXIST);
	CHECK(ffs_file_open(volume, "/a/f", FFS_APPEND, 0, &file) == 0);
	CHECK(ffs_file_pwrite(file, "end", 3, 0) == 3);
	CHECK(ffs_file_pread(file, buf, 1, 0) == -EACCES);
	ffs_file_close(file);
	CHECK(ffs_truncate(volume, "/a/f", 52) == 0);
	CHECK(ffs_stat(volume, "/a/f", &found) == 0 && found.size == 52);
	CHECK(ffs_sync(volume) == 0);
}

static void *
thread(void *argument)
{
	char path[64];
	struct ffs_file *file;

	for (int i = 0; i < 50; i++) {
		snprintf(path, sizeof(path), "/a/t%d-%d", *(int *)argument, i);
		CHECK(ffs_file_open(volume, path, FFS_WRITE | FFS_CREATE, 0644, &file) == 0);
		CHECK(ffs_file_pwrite(file, path, strlen(path), 0) == (int64_t)strlen(path));
		ffs_file_close(file);
		CHECK(ffs_mkdir(volume, "/etc", 0755) == -EEXIST);
	}
	return NULL;
}

static void
threads(void)
{
	pthread_t all[4];
	int number[4];

	for (int i = 0; i < 4; i++) {
		number[i] = i;
		CHECK(pthread_create(&all[i], NULL, thread, &number[i]) == 0);
	}
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(all[i], NULL) == 0);
	failed(EEXIST);
}

int
main(int argc, char **argv)
{
	struct ffs_volume *other = ffs_new();
	struct ffs_stat found;
	char path[8192];

	CHECK(argc == 2 && strchr(ffs_version(), '.') != NULL);
	snprintf(image, sizeof(image), "%s/disk.img", argv[1]);
	snprintf(tree, sizeof(tree), "%s", argv[1]);
	volume = ffs_new();
	CHECK(volume != NULL && ffs_errno(volume) == 0);
	null_pointers();
	without_an_image();
	CHECK(ffs_open(volume, image, FFS_WRITE) == 0);
	CHECK(ffs_open(volume, image, FFS_WRITE) == -EBUSY);
	/* The image is locked. */
	CHECK(ffs_open(other, image, FFS_READ) < 0);
	names();
	attributes();
	files();
	threads();
	CHECK(ffs_copy_out(volume, "/a", tree) == 0);
	snprintf(path, sizeof(path), "%s/f", tree);
	CHECK(ffs_copy_in(volume, path, "/") == 0);
	CHECK(ffs_stat(volume, "/f", &found) == 0 && found.size == 52);
	CHECK(ffs_copy_in(volume, path, "/none") == -ENOENT);
	CHECK(ffs_copy_in(volume, "/no/such/tree", "/") == -ENOENT);
	CHECK(ffs_copy_out(volume, "/none", tree) == -ENOENT);
	CHECK(ffs_close(volume) == 0 && ffs_close(volume) == -EBADF);
	CHECK(ffs_fsck(volume, image, FFS_CHECK) == 0);
	CHECK(ffs_open(volume, image, FFS_READ) == 0);
	CHECK(ffs_mkdir(volume, "/x", 0755) == -EROFS);
	CHECK(ffs_free(volume) == 0 && ffs_free(other) == 0);
	puts("ok");
	return 0;
}
