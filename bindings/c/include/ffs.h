#ifndef FFS_H
#define FFS_H

#include <stddef.h>
#include <stdint.h>

/*
 * libffs: UFS1 and UFS2 volumes, the Berkeley Fast File System, in images.
 *
 * cbindgen has made this file from bindings/c/src; a test compares the two. The guide is
 * docs/guide/c.md.
 *
 * Results. A function that returns int or int64_t returns 0, a count, or -errno. The handle that it
 * was called with keeps the number and a message of its last failure: see ffs_message(),
 * ffs_file_message(), ffs_dir_message(). A NULL handle gives -EINVAL, and every other pointer that
 * must not be NULL gives -EINVAL, too.
 *
 * Ownership. The caller owns every handle that a function returns, and gives it back exactly once:
 * struct ffs_volume to ffs_free(), struct ffs_file to ffs_file_close(), struct ffs_dir to
 * ffs_dir_close(). The library keeps no pointer to memory of the caller after a function has
 * returned, and the caller gets none to memory of the library, except handles and the text of
 * ffs_version().
 *
 * Threads. A handle may be used by several threads at the same time:
 *
 *   ffs_free(), ffs_file_close(), ffs_dir_close()  No other call with this handle may run at the
 *       same time, and none may follow. A file or directory may be used and given back while its
 *       volume is closed or given back, and after that.
 *   ffs_open(), ffs_close()  Safe. They exclude each other, and all calls that begin with the same
 *       handle wait for them.
 *   ffs_errno(), ffs_message(), ffs_file_message(), ffs_dir_message()  Safe. The last failure of a
 *       handle is that of any thread; the result of a function is that of its own call.
 *   ffs_readdir()  Safe. Each entry is returned to one thread.
 *   All others  Safe. Operations on a volume are atomic towards each other; a larger
 *       ffs_file_pread(), ffs_file_pwrite(), ffs_copy_in() or ffs_copy_out(), ffs_mkdir() and
 *       ffs_mkdir_all() consist of several.
 *   ffs_new(), ffs_version()  Safe.
 *
 * Processes. A handle belongs to the process that made it. In a child of fork(2) every call with it
 * fails with -EBADF and a message, and to give it back leaves the image as it is. The child makes
 * handles of its own. Until it ends or calls execve(2) it keeps the image of the parent locked.
 *
 * Text. Paths are NUL-terminated bytes. They begin at the root of the volume, with or without '/'.
 */


// Open for reading.
#define FFS_READ 1

// Open for writing. A volume that is open for writing can be read, too.
#define FFS_WRITE 2

// Each write goes to the end of the file.
#define FFS_APPEND 4

// Create the file if it does not exist.
#define FFS_CREATE 8

// With FFS_CREATE: fail if it exists. Without FFS_CREATE an error, -EINVAL.
#define FFS_EXCLUSIVE 16

// Truncate an existing file to 0 bytes.
#define FFS_TRUNCATE 32

// ffs_newfs(): UFS1 in place of UFS2.
#define FFS_UFS1 1

// ffs_newfs(): no soft updates.
#define FFS_NO_SOFT_UPDATES 2

// ffs_newfs(): soft updates with a journal.
#define FFS_JOURNAL 4

// ffs_fsck(): change nothing.
#define FFS_CHECK 0

// ffs_fsck(): repair what a crash leaves, stop at anything else.
#define FFS_PREEN 1

// ffs_fsck(): repair everything.
#define FFS_REPAIR 2

// ffs_chown(): keep the present owner or group.
#define FFS_KEEP_ID UINT32_MAX

// A listing of a directory.
struct ffs_dir;

// An open file.
struct ffs_file;

// A volume: at first without an image.
struct ffs_volume;

// A time since 1970.
struct ffs_time {
  // Seconds.
  int64_t sec;
  // Nanoseconds after that second, 0 to 999999999.
  int32_t nsec;
};

// Attributes of a file.
struct ffs_stat {
  // Inode number.
  uint64_t ino;
  // Bytes.
  uint64_t size;
  // Space in units of 512 bytes.
  uint64_t blocks;
  // The number of a device file, in the encoding of Linux.
  uint64_t rdev;
  // Type and permissions, as st_mode of stat(2).
  uint32_t mode;
  // Hard links.
  uint32_t nlink;
  // Owner.
  uint32_t uid;
  // Group.
  uint32_t gid;
  // File flags, as of chflags(2) of BSD.
  uint32_t flags;
  // Preferred size of a transfer, bytes.
  uint32_t blksize;
  // Changes when the inode is used for another file.
  uint32_t generation;
  // Access.
  struct ffs_time atime;
  // Modification of the content.
  struct ffs_time mtime;
  // Change of the inode.
  struct ffs_time ctime;
  // Creation; on UFS1 the change of the inode.
  struct ffs_time birthtime;
};

// An entry of a directory.
struct ffs_dirent {
  // Inode number.
  uint64_t ino;
  // The type, as in st_mode (S_IFREG, S_IFDIR, ...); 0 if it cannot be read.
  uint32_t kind;
  // The name, with a NUL at its end.
  char name[256];
};

// Space and inodes of a volume.
struct ffs_statfs {
  // Data fragments.
  uint64_t blocks;
  // Free fragments.
  uint64_t bfree;
  // Fragments free for users other than root; negative if the reserve is in use.
  int64_t bavail;
  // Inodes.
  uint64_t files;
  // Free inodes.
  uint64_t ffree;
  // Block size, bytes.
  uint32_t bsize;
  // Fragment size, bytes: the unit of the counts above.
  uint32_t fsize;
  // Longest name, bytes.
  uint32_t namemax;
  // 1 if the volume is open for reading only.
  uint32_t read_only;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Attributes of the file that `path` leads to.
int ffs_stat(const struct ffs_volume *volume, const char *path, struct ffs_stat *out);

// Attributes of the file that `path` names; of a symbolic link its own.
int ffs_lstat(const struct ffs_volume *volume, const char *path, struct ffs_stat *out);

// Sets the permission bits.
int ffs_chmod(const struct ffs_volume *volume, const char *path, uint32_t mode);

// Sets owner and group; FFS_KEEP_ID keeps one.
int ffs_chown(const struct ffs_volume *volume, const char *path, uint32_t uid, uint32_t gid);

// Sets file flags, as chflags(2) of BSD.
int ffs_chflags(const struct ffs_volume *volume, const char *path, uint32_t flags);

// Truncates or extends a file to `size` bytes.
int ffs_truncate(const struct ffs_volume *volume, const char *path, uint64_t size);

// Sets access and modification time; NULL keeps one.
int ffs_utimes(const struct ffs_volume *volume,
               const char *path,
               const struct ffs_time *atime,
               const struct ffs_time *mtime);

// Copies the value of the extended attribute `name` (user.NAME or system.NAME) into `buf`. Returns
// its length, or with `size` 0 only that; -ERANGE if the buffer is too small.
int64_t ffs_getxattr(const struct ffs_volume *volume,
                     const char *path,
                     const char *name,
                     void *buf,
                     size_t size);

// Sets an extended attribute.
int ffs_setxattr(const struct ffs_volume *volume,
                 const char *path,
                 const char *name,
                 const void *value,
                 size_t size);

// Copies the names of the extended attributes into `buf`, each with a NUL. Returns their length,
// or with `size` 0 only that; -ERANGE if the buffer is too small.
int64_t ffs_listxattr(const struct ffs_volume *volume, const char *path, void *buf, size_t size);

// Removes an extended attribute.
int ffs_removexattr(const struct ffs_volume *volume, const char *path, const char *name);

// Opens a file. `flags` is FFS_READ, FFS_WRITE, or both, with others; `mode` has the permission
// bits of a new file. Give the result back with ffs_file_close().
int ffs_file_open(const struct ffs_volume *volume,
                  const char *path,
                  uint32_t flags,
                  uint32_t mode,
                  struct ffs_file **out);

// Reads at `offset`. Returns how many bytes; less than `size` at the end of the file.
int64_t ffs_file_pread(const struct ffs_file *file, void *buf, size_t size, uint64_t offset);

// Writes at `offset`, or at the end of a file that is open to append. Returns how many bytes,
// which is `size` unless the volume became full.
int64_t ffs_file_pwrite(const struct ffs_file *file,
                        const void *data,
                        size_t size,
                        uint64_t offset);

// Attributes of the open file.
int ffs_file_stat(const struct ffs_file *file, struct ffs_stat *out);

// Truncates or extends the file to `size` bytes.
int ffs_file_truncate(const struct ffs_file *file, uint64_t size);

// Makes content, attributes and names of the file durable.
int ffs_file_sync(const struct ffs_file *file);

// Copies the message of the last failure, as ffs_message().
size_t ffs_file_message(const struct ffs_file *file, char *buf, size_t size);

// Gives a file back. It does not make it durable: see ffs_file_sync(). NULL is ignored.
void ffs_file_close(struct ffs_file *file);

// Makes a directory.
int ffs_mkdir(const struct ffs_volume *volume, const char *path, uint32_t mode);

// Makes a directory and those above it that do not exist. It is no error if it exists.
int ffs_mkdir_all(const struct ffs_volume *volume, const char *path);

// Removes an empty directory.
int ffs_rmdir(const struct ffs_volume *volume, const char *path);

// Removes a name of a file that is not a directory.
int ffs_unlink(const struct ffs_volume *volume, const char *path);

// Renames a file, replacing what has the new name.
int ffs_rename(const struct ffs_volume *volume, const char *from, const char *to);

// Gives the file `from` the further name `to`.
int ffs_link(const struct ffs_volume *volume, const char *from, const char *to);

// Makes the symbolic link `path` to `target`, which need not exist.
int ffs_symlink(const struct ffs_volume *volume, const char *target, const char *path);

// Copies the target of a symbolic link into `buf`, without a NUL. Returns its length, or with
// `size` 0 only that; -ERANGE if the buffer is too small.
int64_t ffs_readlink(const struct ffs_volume *volume, const char *path, void *buf, size_t size);

// Opens a directory for ffs_readdir(). Give the result back with ffs_dir_close().
int ffs_opendir(const struct ffs_volume *volume, const char *path, struct ffs_dir **out);

// Reads the next entry, without `.` and `..`. Returns 1, or 0 at the end of the directory, or
// -errno. Of a damaged directory the sound entries come before the error.
int ffs_readdir(const struct ffs_dir *dir, struct ffs_dirent *out);

// Copies the message of the last failure, as ffs_message().
size_t ffs_dir_message(const struct ffs_dir *dir, char *buf, size_t size);

// Gives a listing back. NULL is ignored.
void ffs_dir_close(struct ffs_dir *dir);

// The version of the library, as "0.1.0". It is never freed.
const char *ffs_version(void);

// A new handle, for ffs_open(). Never NULL. Give it back with ffs_free().
struct ffs_volume *ffs_new(void);

// Gives a handle back, and closes its volume if that is open. Returns 0, or -errno if closing
// failed; the handle is given back in each case. Call ffs_close() first to get the message, or to
// try again. Files that are still open can only be read. NULL is ignored.
int ffs_free(struct ffs_volume *volume);

// The errno of the last failure of the handle; 0 if nothing has failed.
int ffs_errno(const struct ffs_volume *volume);

// Copies the message of the last failure of the handle into `buf`, truncated to `size` bytes with
// a NUL. Returns the length of the whole message.
size_t ffs_message(const struct ffs_volume *volume, char *buf, size_t size);

// Opens the file system in `image`: a file, a block device, a container, or IMAGE@N for partition
// N of a disk. `flags` is FFS_READ or FFS_WRITE. An image that is open for writing is locked.
int ffs_open(const struct ffs_volume *volume, const char *image, uint32_t flags);

// Writes everything, marks the volume clean and closes it. After an error it stays open. Close its
// files and directories first: they keep the image open and locked, and can only be read then.
// Calls with the same handle wait meanwhile, and fail with -EBADF afterwards; those that had begun
// end first, or fail with -EROFS if they are changes that come too late.
int ffs_close(const struct ffs_volume *volume);

// Makes all changes durable.
int ffs_sync(const struct ffs_volume *volume);

// Space and inodes of the volume.
int ffs_statfs(const struct ffs_volume *volume, struct ffs_statfs *out);

// Makes an empty file system of `size` bytes in the new file `image`: UFS2 with soft updates,
// unless `flags` (FFS_UFS1, FFS_NO_SOFT_UPDATES, FFS_JOURNAL) changes that. The handle only keeps
// the message of a failure.
int ffs_newfs(const struct ffs_volume *volume, const char *image, uint64_t size, uint32_t flags);

// Checks the file system in `image`, which must not be open for writing; `mode` is FFS_CHECK,
// FFS_PREEN or FFS_REPAIR. Returns the exit code of `ffs fsck` (0: consistent, or repaired
// completely) or -errno. The handle only keeps the message of a failure.
int ffs_fsck(const struct ffs_volume *volume, const char *image, uint32_t mode);

// Copies the file or tree `from` of the host into the directory `to` of the volume, with all
// attributes; of a directory its entries. Returns the number of files that could not be copied.
int64_t ffs_copy_in(const struct ffs_volume *volume, const char *from, const char *to);

// Copies the file or tree `from` of the volume into the directory `to` of the host, with the
// attributes that the host can keep; of a directory its entries. Returns the number of files that
// could not be copied.
int64_t ffs_copy_out(const struct ffs_volume *volume, const char *from, const char *to);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FFS_H */
