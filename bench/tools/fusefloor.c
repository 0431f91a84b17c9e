/*
 * fusefloor: a FUSE server that does nothing. It measures the floor of what a FUSE file system
 * can reach: the kernel's work, two switches of context and one copy for each request.
 *
 * usage: fusefloor -T SECONDS MOUNTPOINT
 *
 * The server speaks the protocol of /dev/fuse itself, without libfuse, in one thread. It has a
 * root, directories without names of their own, and one table of names. All directories share the
 * table, which suits a benchmark that uses one. Files have no content. Names and attributes are
 * valid for SECONDS; with 0 the kernel sends every lookup to the server. It serves until the file
 * system is unmounted. It needs root, because it calls mount(2) itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BUFFER = 1 << 20, MAX_WRITE = 1 << 17, FIRST_INODE = 2 };

/* A name of the table. A free slot has inode 0; a removed one keeps the probe sequence whole. */
struct entry {
	char *name;
	uint64_t inode;
};

static struct entry *table;
static uint64_t slots = 1 << 10, used;
/* The type and mode of each inode, by number. Numbers are not used again. */
static uint32_t *modes;
static uint64_t inodes = FIRST_INODE, modes_size;
static uint64_t valid_seconds;
static int device;

static void fail(const char *action)
{
	fprintf(stderr, "fusefloor: %s: %s\n", action, strerror(errno));
	exit(1);
}

static void *allocate(void *old, size_t bytes)
{
	void *new = realloc(old, bytes);
	if (!new)
		fail("memory");
	return new;
}

/* The slot of the name, or the first slot that was never used if the name is not in the table. */
static struct entry *find(const char *name)
{
	uint64_t hash = 14695981039346656037u; /* FNV-1a */
	for (const char *c = name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211u;
	for (uint64_t i = hash & (slots - 1);; i = (i + 1) & (slots - 1))
		if (!table[i].name || (table[i].inode && !strcmp(table[i].name, name)))
			return &table[i];
}

/* Rebuilds the table when half of its slots were used, with space for four times its names. */
static void grow(void)
{
	struct entry *old = table;
	uint64_t old_slots = slots, live = 0;

	if (2 * used < slots)
		return;
	for (uint64_t i = 0; i < old_slots; i++)
		live += old[i].inode != 0;
	while (slots < 4 * live)
		slots *= 2;
	table = allocate(NULL, slots * sizeof *table);
	memset(table, 0, slots * sizeof *table);
	used = live;
	for (uint64_t i = 0; i < old_slots; i++) {
		if (old[i].inode)
			*find(old[i].name) = old[i];
		else
			free(old[i].name);
	}
	free(old);
}

static void insert(const char *name, uint64_t inode)
{
	struct entry *entry = find(name);
	if (!entry->name) {
		entry->name = strcpy(allocate(NULL, strlen(name) + 1), name);
		used++;
	}
	entry->inode = inode;
	grow();
}

static uint64_t make_inode(uint32_t mode)
{
	if (inodes >= modes_size) {
		modes_size = modes_size ? 2 * modes_size : 1 << 10;
		modes = allocate(modes, modes_size * sizeof *modes);
	}
	modes[inodes] = mode;
	return inodes++;
}

static void reply(const struct fuse_in_header *in, int error, const void *body, size_t bytes)
{
	struct fuse_out_header out = {
		.len = sizeof out + bytes, .error = -error, .unique = in->unique,
	};
	struct iovec parts[] = { { &out, sizeof out }, { (void *)body, bytes } };

	/* ENOENT: the kernel no longer waits for the reply. */
	if (writev(device, parts, bytes ? 2 : 1) < 0 && errno != ENOENT)
		fail("reply");
}

static void set_attributes(struct fuse_attr *attr, uint64_t inode)
{
	memset(attr, 0, sizeof *attr);
	attr->ino = inode;
	attr->mode = inode == FUSE_ROOT_ID ? S_IFDIR | 0755 : modes[inode];
	attr->nlink = S_ISDIR(attr->mode) ? 2 : 1;
	attr->blksize = 4096;
}

static void set_entry(struct fuse_entry_out *out, uint64_t inode)
{
	memset(out, 0, sizeof *out);
	out->nodeid = inode;
	out->entry_valid = out->attr_valid = valid_seconds;
	set_attributes(&out->attr, inode);
}

static void reply_attributes(const struct fuse_in_header *in)
{
	struct fuse_attr_out out = { .attr_valid = valid_seconds };
	set_attributes(&out.attr, in->nodeid);
	reply(in, 0, &out, sizeof out);
}

static void reply_entry(const struct fuse_in_header *in, uint64_t inode)
{
	struct fuse_entry_out out;
	set_entry(&out, inode);
	reply(in, 0, &out, sizeof out);
}

static void create(const struct fuse_in_header *in, const struct fuse_create_in *args)
{
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out = { 0 };
	const char *name = (const char *)(args + 1);

	if (find(name)->name) {
		reply(in, EEXIST, NULL, 0);
		return;
	}
	uint64_t inode = make_inode(S_IFREG | (args->mode & 07777));
	insert(name, inode);
	set_entry(&out.entry, inode);
	reply(in, 0, &out, sizeof out);
}

static void make_directory(const struct fuse_in_header *in, const struct fuse_mkdir_in *args)
{
	uint64_t inode = make_inode(S_IFDIR | (args->mode & 07777));
	insert((const char *)(args + 1), inode);
	reply_entry(in, inode);
}

static void rename_entry(const struct fuse_in_header *in, const char *old_name)
{
	struct entry *old = find(old_name);
	uint64_t inode = old->inode;

	if (!inode) {
		reply(in, ENOENT, NULL, 0);
		return;
	}
	old->inode = 0;
	insert(old_name + strlen(old_name) + 1, inode);
	reply(in, 0, NULL, 0);
}

static void remove_entry(const struct fuse_in_header *in, const char *name)
{
	struct entry *entry = find(name);
	int error = entry->inode ? 0 : ENOENT;
	entry->inode = 0;
	reply(in, error, NULL, 0);
}

/* The offset of a record is the number of the next slot. */
static void read_directory(const struct fuse_in_header *in, const struct fuse_read_in *args)
{
	static char out[MAX_WRITE];
	size_t bytes = 0, limit = args->size < sizeof out ? args->size : sizeof out;

	for (uint64_t i = args->offset; i < slots; i++) {
		if (!table[i].inode)
			continue;
		struct fuse_dirent record = {
			.ino = table[i].inode, .off = i + 1, .namelen = strlen(table[i].name),
			.type = modes[table[i].inode] >> 12,
		};
		size_t size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + record.namelen);
		if (bytes + size > limit)
			break;
		memset(out + bytes, 0, size);
		memcpy(out + bytes, &record, FUSE_NAME_OFFSET);
		memcpy(out + bytes + FUSE_NAME_OFFSET, table[i].name, record.namelen);
		bytes += size;
	}
	reply(in, 0, out, bytes);
}

static void start(const struct fuse_in_header *in, const struct fuse_init_in *args)
{
	uint32_t minor = FUSE_KERNEL_MINOR_VERSION;
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION, .minor = args->minor < minor ? args->minor : minor,
		.max_readahead = args->max_readahead, .max_write = MAX_WRITE, .time_gran = 1,
		.flags = args->flags &
			 (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_PARALLEL_DIROPS),
	};
	reply(in, 0, &out, sizeof out);
}

static void handle(const struct fuse_in_header *in)
{
	const void *args = in + 1;
	struct fuse_open_out opened = { 0 };
	struct fuse_statfs_out volume = { .st = { .bsize = 4096, .namelen = 255 } };
	struct entry *entry;

	switch (in->opcode) {
	case FUSE_INIT: start(in, args); break;
	case FUSE_LOOKUP:
		entry = find(args);
		if (entry->name)
			reply_entry(in, entry->inode);
		else
			reply(in, ENOENT, NULL, 0);
		break;
	case FUSE_GETATTR:
	case FUSE_SETATTR: reply_attributes(in); break;
	case FUSE_CREATE: create(in, args); break;
	case FUSE_MKDIR: make_directory(in, args); break;
	case FUSE_UNLINK:
	case FUSE_RMDIR: remove_entry(in, args); break;
	case FUSE_RENAME: rename_entry(in, args + sizeof(struct fuse_rename_in)); break;
	case FUSE_RENAME2: rename_entry(in, args + sizeof(struct fuse_rename2_in)); break;
	case FUSE_OPEN:
	case FUSE_OPENDIR: reply(in, 0, &opened, sizeof opened); break;
	case FUSE_READDIR: read_directory(in, args); break;
	case FUSE_STATFS: reply(in, 0, &volume, sizeof volume); break;
	case FUSE_READ:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR: reply(in, 0, NULL, 0); break;
	/* These have no reply. */
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT: break;
	/* FLUSH, ACCESS and others: the kernel does without and sends no more of them. */
	default: reply(in, ENOSYS, NULL, 0);
	}
}

static void serve(void)
{
	void *request = allocate(NULL, BUFFER);

	for (;;) {
		ssize_t bytes = read(device, request, BUFFER);
		if (bytes >= (ssize_t)sizeof(struct fuse_in_header))
			handle(request);
		else if (bytes < 0 && errno == ENODEV)
			return; /* unmounted */
		else if (bytes < 0 && errno != EINTR && errno != ENOENT && errno != EAGAIN)
			fail("/dev/fuse");
	}
}

int main(int argc, char **argv)
{
	char options[128];

	if (argc != 4 || strcmp(argv[1], "-T")) {
		fprintf(stderr, "usage: fusefloor -T SECONDS MOUNTPOINT\n");
		return 2;
	}
	valid_seconds = strtoul(argv[2], NULL, 10);
	table = allocate(NULL, slots * sizeof *table);
	memset(table, 0, slots * sizeof *table);
	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (device < 0)
		fail("/dev/fuse");
	/* With the options of ffs mount, so that the kernel sends the same requests. */
	snprintf(options, sizeof options, "fd=%d,rootmode=40755,user_id=0,group_id=0,%s", device,
		 "default_permissions,allow_other");
	if (mount("fusefloor", argv[3], "fuse.fusefloor", MS_NOSUID | MS_NODEV, options))
		fail(argv[3]);
	serve();
	return 0;
}
