/*
 * fusefloor: a FUSE server that does as little as it can. It measures the floor of what a FUSE
 * file system can reach: the kernel's work, two switches of context and one copy for each request.
 *
 * usage: fusefloor -T SECONDS MOUNTPOINT
 *
 * The server speaks the protocol of /dev/fuse itself, without libfuse, in one thread. It has a tree
 * of directories, files with content and symbolic links, all in memory. Names and attributes are
 * valid for SECONDS; with 0 the kernel sends every lookup to the server. It serves until the file
 * system is unmounted. It needs root, because it calls mount(2) itself. Node numbers are not used
 * again, and a removed file keeps its memory until the kernel forgets it.
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
#include <time.h>
#include <unistd.h>

enum { MAX_IO = 1 << 20, BUFFER = MAX_IO + 4096 };

/* A name in a directory. */
struct entry {
	uint64_t parent, node;
	struct entry *next; /* in its bucket */
	size_t at; /* in the directory's list */
	char name[];
};

struct node {
	uint32_t mode, uid, gid, links;
	struct timespec atime, mtime, ctime;
	uint64_t size, lookups;
	char *data; /* content, or target of a symbolic link */
	size_t capacity;
	struct entry **list; /* of a directory; a removed name leaves a hole */
	size_t listed, live;
};

static struct entry **buckets;
static uint64_t bucket_count = 1 << 10, names;
static struct node *nodes;
static uint64_t node_count = FUSE_ROOT_ID, node_space;
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

static uint64_t hash(uint64_t parent, const char *name)
{
	uint64_t h = 14695981039346656037u ^ parent; /* FNV-1a */
	for (const char *c = name; *c; c++)
		h = (h ^ (unsigned char)*c) * 1099511628211u;
	return h ^ h >> 29;
}

/* The pointer to the entry of a name; it points to NULL if there is none. */
static struct entry **find(uint64_t parent, const char *name)
{
	struct entry **link = &buckets[hash(parent, name) & (bucket_count - 1)];
	while (*link && ((*link)->parent != parent || strcmp((*link)->name, name)))
		link = &(*link)->next;
	return link;
}

static void grow(void)
{
	uint64_t old_count = bucket_count;
	struct entry **old = buckets, *entry, *next;

	if (names < bucket_count)
		return;
	bucket_count *= 4;
	buckets = calloc(bucket_count, sizeof *buckets);
	if (!buckets)
		fail("memory");
	for (uint64_t i = 0; i < old_count; i++)
		for (entry = old[i]; entry; entry = next) {
			uint64_t bucket = hash(entry->parent, entry->name) & (bucket_count - 1);
			next = entry->next;
			entry->next = buckets[bucket];
			buckets[bucket] = entry;
		}
	free(old);
}

static struct timespec now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME_COARSE, &t);
	return t;
}

static void insert(uint64_t parent, const char *name, uint64_t node)
{
	struct entry *entry = allocate(NULL, sizeof *entry + strlen(name) + 1), **link;
	struct node *dir = &nodes[parent];

	strcpy(entry->name, name);
	entry->parent = parent;
	entry->node = node;
	entry->next = NULL;
	entry->at = dir->listed;
	link = find(parent, name);
	*link = entry;
	/* The list doubles when its length is a power of two. */
	if (!(dir->listed & (dir->listed - 1)))
		dir->list = allocate(dir->list,
				     (dir->listed ? 2 * dir->listed : 1) * sizeof *dir->list);
	dir->list[dir->listed++] = entry;
	dir->live++;
	dir->mtime = dir->ctime = now();
	names++;
	grow();
}

static void release(uint64_t node)
{
	struct node *n = &nodes[node];
	if (node == FUSE_ROOT_ID || n->links || n->lookups)
		return;
	free(n->data);
	free(n->list);
	n->data = NULL;
	n->list = NULL;
}

static void drop_name(struct entry **link)
{
	struct entry *entry = *link;
	struct node *dir = &nodes[entry->parent], *n = &nodes[entry->node];

	*link = entry->next;
	dir->list[entry->at] = NULL;
	dir->live--;
	dir->mtime = dir->ctime = now();
	names--;
	n->links -= S_ISDIR(n->mode) ? n->links : 1;
	n->ctime = now();
	release(entry->node);
	free(entry);
}

static uint64_t make_node(const struct fuse_in_header *in, uint32_t mode)
{
	if (node_count >= node_space) {
		node_space = node_space ? 2 * node_space : 1 << 10;
		nodes = allocate(nodes, node_space * sizeof *nodes);
	}
	nodes[node_count] = (struct node){
		.mode = mode, .uid = in->uid, .gid = in->gid, .links = S_ISDIR(mode) ? 2 : 1,
		.atime = now(), .mtime = now(), .ctime = now(),
	};
	return node_count++;
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

static void set_attributes(struct fuse_attr *attr, uint64_t node)
{
	const struct node *n = &nodes[node];
	*attr = (struct fuse_attr){
		.ino = node, .size = n->size, .blocks = (n->size + 511) / 512,
		.atime = n->atime.tv_sec, .atimensec = n->atime.tv_nsec,
		.mtime = n->mtime.tv_sec, .mtimensec = n->mtime.tv_nsec,
		.ctime = n->ctime.tv_sec, .ctimensec = n->ctime.tv_nsec,
		.mode = n->mode, .nlink = n->links, .uid = n->uid, .gid = n->gid, .blksize = 4096,
	};
}

static void set_entry(struct fuse_entry_out *out, uint64_t node)
{
	memset(out, 0, sizeof *out);
	out->nodeid = node;
	out->entry_valid = out->attr_valid = valid_seconds;
	set_attributes(&out->attr, node);
	nodes[node].lookups++;
}

static void reply_attributes(const struct fuse_in_header *in)
{
	struct fuse_attr_out out = { .attr_valid = valid_seconds };
	set_attributes(&out.attr, in->nodeid);
	reply(in, 0, &out, sizeof out);
}

static void reply_entry(const struct fuse_in_header *in, uint64_t node)
{
	struct fuse_entry_out out;
	set_entry(&out, node);
	reply(in, 0, &out, sizeof out);
}

static void lookup(const struct fuse_in_header *in, const char *name)
{
	struct entry *entry = *find(in->nodeid, name);
	struct fuse_entry_out none = { .entry_valid = valid_seconds };

	if (entry)
		reply_entry(in, entry->node);
	else if (valid_seconds)
		reply(in, 0, &none, sizeof none);
	else
		reply(in, ENOENT, NULL, 0);
}

static void create(const struct fuse_in_header *in, const struct fuse_create_in *args)
{
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out = { 0 };
	const char *name = (const char *)(args + 1);

	if (*find(in->nodeid, name)) {
		reply(in, EEXIST, NULL, 0);
		return;
	}
	uint64_t node = make_node(in, S_IFREG | (args->mode & 07777));
	insert(in->nodeid, name, node);
	set_entry(&out.entry, node);
	out.open.open_flags = FOPEN_KEEP_CACHE;
	reply(in, 0, &out, sizeof out);
}

static void make(const struct fuse_in_header *in, const char *name, uint32_t mode,
		 const char *target)
{
	if (*find(in->nodeid, name)) {
		reply(in, EEXIST, NULL, 0);
		return;
	}
	uint64_t node = make_node(in, mode);
	if (target) {
		nodes[node].data = strdup(target);
		nodes[node].size = strlen(target);
	}
	insert(in->nodeid, name, node);
	reply_entry(in, node);
}

static void make_link(const struct fuse_in_header *in, const struct fuse_link_in *args)
{
	nodes[args->oldnodeid].links++;
	insert(in->nodeid, (const char *)(args + 1), args->oldnodeid);
	reply_entry(in, args->oldnodeid);
}

static void rename_entry(const struct fuse_in_header *in, uint64_t to, const char *old_name)
{
	const char *new_name = old_name + strlen(old_name) + 1;
	struct entry **old = find(in->nodeid, old_name), **new;

	if (!*old) {
		reply(in, ENOENT, NULL, 0);
		return;
	}
	uint64_t node = (*old)->node;
	nodes[node].links++;
	drop_name(old);
	nodes[node].links = S_ISDIR(nodes[node].mode) ? 2 : nodes[node].links;
	new = find(to, new_name);
	if (*new)
		drop_name(new);
	insert(to, new_name, node);
	reply(in, 0, NULL, 0);
}

static void remove_entry(const struct fuse_in_header *in, const char *name)
{
	struct entry **link = find(in->nodeid, name);

	if (!*link) {
		reply(in, ENOENT, NULL, 0);
	} else if (in->opcode == FUSE_RMDIR && nodes[(*link)->node].live) {
		reply(in, ENOTEMPTY, NULL, 0);
	} else {
		drop_name(link);
		reply(in, 0, NULL, 0);
	}
}

static void resize(struct node *n, uint64_t size)
{
	if (size > n->capacity) {
		n->capacity = size > 2 * n->capacity ? size : 2 * n->capacity;
		n->data = allocate(n->data, n->capacity);
	}
	if (size > n->size)
		memset(n->data + n->size, 0, size - n->size);
	n->size = size;
}

static void set_attributes_of(const struct fuse_in_header *in, const struct fuse_setattr_in *args)
{
	struct node *n = &nodes[in->nodeid];

	if (args->valid & FATTR_MODE)
		n->mode = (n->mode & S_IFMT) | (args->mode & 07777);
	if (args->valid & FATTR_UID)
		n->uid = args->uid;
	if (args->valid & FATTR_GID)
		n->gid = args->gid;
	if (args->valid & FATTR_SIZE)
		resize(n, args->size);
	if (args->valid & FATTR_ATIME)
		n->atime = (struct timespec){ args->atime, args->atimensec };
	if (args->valid & FATTR_MTIME)
		n->mtime = (struct timespec){ args->mtime, args->mtimensec };
	n->ctime = now();
	reply_attributes(in);
}

static void read_file(const struct fuse_in_header *in, const struct fuse_read_in *args)
{
	const struct node *n = &nodes[in->nodeid];
	uint64_t left = args->offset < n->size ? n->size - args->offset : 0;
	reply(in, 0, n->data + args->offset, left < args->size ? left : args->size);
}

static void write_file(const struct fuse_in_header *in, const struct fuse_write_in *args)
{
	struct node *n = &nodes[in->nodeid];
	struct fuse_write_out out = { .size = args->size };

	if (args->offset + args->size > n->size)
		resize(n, args->offset + args->size);
	memcpy(n->data + args->offset, args + 1, args->size);
	n->mtime = n->ctime = now();
	reply(in, 0, &out, sizeof out);
}

/* The offset of a record is the number of the next place in the list. */
static void read_directory(const struct fuse_in_header *in, const struct fuse_read_in *args)
{
	static char out[MAX_IO];
	int plus = in->opcode == FUSE_READDIRPLUS;
	size_t head = plus ? sizeof(struct fuse_entry_out) : 0;
	size_t bytes = 0, limit = args->size < sizeof out ? args->size : sizeof out;
	const struct node *dir = &nodes[in->nodeid];

	for (uint64_t i = args->offset; i < dir->listed; i++) {
		const struct entry *entry = dir->list[i];
		if (!entry)
			continue;
		struct fuse_dirent record = {
			.ino = entry->node, .off = i + 1, .namelen = strlen(entry->name),
			.type = nodes[entry->node].mode >> 12,
		};
		size_t size = FUSE_DIRENT_ALIGN(head + FUSE_NAME_OFFSET + record.namelen);
		if (bytes + size > limit)
			break;
		memset(out + bytes, 0, size);
		if (plus)
			set_entry((struct fuse_entry_out *)(out + bytes), entry->node);
		memcpy(out + bytes + head, &record, FUSE_NAME_OFFSET);
		memcpy(out + bytes + head + FUSE_NAME_OFFSET, entry->name, record.namelen);
		bytes += size;
	}
	reply(in, 0, out, bytes);
}

static void forget(uint64_t node, uint64_t count)
{
	struct node *n = &nodes[node];
	n->lookups -= count < n->lookups ? count : n->lookups;
	release(node);
}

static void forget_all(const struct fuse_batch_forget_in *args)
{
	const struct fuse_forget_one *one = (const struct fuse_forget_one *)(args + 1);
	for (uint32_t i = 0; i < args->count; i++)
		forget(one[i].nodeid, one[i].nlookup);
}

static void start(const struct fuse_in_header *in, const struct fuse_init_in *args)
{
	uint32_t minor = FUSE_KERNEL_MINOR_VERSION;
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION, .minor = args->minor < minor ? args->minor : minor,
		.max_readahead = args->max_readahead, .max_write = MAX_IO, .time_gran = 1,
		.max_pages = MAX_IO / 4096, .max_background = 64, .congestion_threshold = 48,
		.flags = args->flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_PARALLEL_DIROPS |
					FUSE_MAX_PAGES | FUSE_DO_READDIRPLUS |
					FUSE_READDIRPLUS_AUTO | FUSE_NO_OPEN_SUPPORT |
					FUSE_NO_OPENDIR_SUPPORT | FUSE_CACHE_SYMLINKS),
	};
	reply(in, 0, &out, sizeof out);
}

static void handle(const struct fuse_in_header *in)
{
	const void *args = in + 1;
	const struct fuse_mkdir_in *mkdir_in = args;
	const struct fuse_mknod_in *mknod_in = args;
	struct fuse_statfs_out volume = {
		.st = { .bsize = 4096, .frsize = 4096, .namelen = 255, .blocks = 1 << 22,
			.bfree = 1 << 22, .bavail = 1 << 22, .files = 1 << 24, .ffree = 1 << 24 },
	};

	switch (in->opcode) {
	case FUSE_INIT: start(in, args); break;
	case FUSE_LOOKUP: lookup(in, args); break;
	case FUSE_GETATTR: reply_attributes(in); break;
	case FUSE_SETATTR: set_attributes_of(in, args); break;
	case FUSE_CREATE: create(in, args); break;
	case FUSE_MKNOD: make(in, (const char *)(mknod_in + 1), mknod_in->mode, NULL); break;
	case FUSE_MKDIR:
		make(in, (const char *)(mkdir_in + 1), S_IFDIR | (mkdir_in->mode & 07777), NULL);
		break;
	case FUSE_SYMLINK:
		make(in, args, S_IFLNK | 0777, (const char *)args + strlen(args) + 1);
		break;
	case FUSE_READLINK: reply(in, 0, nodes[in->nodeid].data, nodes[in->nodeid].size); break;
	case FUSE_LINK: make_link(in, args); break;
	case FUSE_UNLINK:
	case FUSE_RMDIR: remove_entry(in, args); break;
	case FUSE_RENAME:
		rename_entry(in, ((const struct fuse_rename_in *)args)->newdir,
			     args + sizeof(struct fuse_rename_in));
		break;
	case FUSE_RENAME2:
		rename_entry(in, ((const struct fuse_rename2_in *)args)->newdir,
			     args + sizeof(struct fuse_rename2_in));
		break;
	case FUSE_READ: read_file(in, args); break;
	case FUSE_WRITE: write_file(in, args); break;
	case FUSE_READDIR:
	case FUSE_READDIRPLUS: read_directory(in, args); break;
	case FUSE_STATFS: reply(in, 0, &volume, sizeof volume); break;
	case FUSE_FSYNC:
	case FUSE_FSYNCDIR:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR: reply(in, 0, NULL, 0); break;
	/* These have no reply. */
	case FUSE_FORGET: forget(in->nodeid, ((const struct fuse_forget_in *)args)->nlookup); break;
	case FUSE_BATCH_FORGET: forget_all(args); break;
	case FUSE_INTERRUPT: break;
	/* OPEN, FLUSH, GETXATTR and others: the kernel does without and sends no more of them. */
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
	struct fuse_in_header root = { 0 };

	if (argc != 4 || strcmp(argv[1], "-T")) {
		fprintf(stderr, "usage: fusefloor -T SECONDS MOUNTPOINT\n");
		return 2;
	}
	valid_seconds = strtoul(argv[2], NULL, 10);
	buckets = calloc(bucket_count, sizeof *buckets);
	if (!buckets)
		fail("memory");
	make_node(&root, S_IFDIR | 0755);
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
