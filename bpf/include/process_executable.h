/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reads the path of a program's executable and its arguments when its exec ends: the process may exit before
 * user space can read /proc/PID/exe and /proc/PID/cmdline, and selectors need both.
 */
#ifndef EBPFRECEIVER_PROCESS_EXECUTABLE_H
#define EBPFRECEIVER_PROCESS_EXECUTABLE_H

#include "process.h"

enum {
	/* Steps from an executable to the root: one for each name of its path and for each mount. */
	EXECUTABLE_STEPS = 32,
	/* Maximum length of a path, as names that each have a NUL; and of a name with its NUL, NAME_MAX + 1. */
	EXECUTABLE_PATH = 1024,
	EXECUTABLE_NAME = 256,
	/* Bytes of arguments that are read, each with its NUL. */
	EXECUTABLE_ARGUMENTS = 1024,
};

/* The members of kernel types that are read here. */
struct dentry___executable {
	struct {
		const unsigned char *name;
	} d_name;
	struct dentry___executable *d_parent;
} __attribute__((preserve_access_index));

struct vfsmount___executable {
	struct dentry___executable *mnt_root;
} __attribute__((preserve_access_index));

struct mount___executable {
	struct mount___executable *mnt_parent;
	struct dentry___executable *mnt_mountpoint;
	struct vfsmount___executable mnt;
} __attribute__((preserve_access_index));

struct path___executable {
	struct vfsmount___executable *mnt;
	struct dentry___executable *dentry;
} __attribute__((preserve_access_index));

struct file___executable {
	struct path___executable f_path;
} __attribute__((preserve_access_index));

struct mm_struct___executable {
	unsigned long arg_start;
	unsigned long arg_end;
	struct file___executable *exe_file;
} __attribute__((preserve_access_index));

/*
 * Progress of a walk to the root. It is in memory rather than in registers, so that the verifier merges the
 * steps.
 */
struct executable_walk {
	u64 dentry; /* struct dentry * */
	u64 mount;  /* struct mount * */
	u32 used;  /* bytes of names so far */
	u32 whole; /* 1: the walk has reached the root */
};

/* Continues above a mount; false at the root. */
static __always_inline bool executable_leave_mount(struct executable_walk *walk)
{
	struct mount___executable *mount = (void *)walk->mount;
	struct mount___executable *parent = BPF_CORE_READ(mount, mnt_parent);

	if (parent == mount) {
		walk->whole = 1;
		return false;
	}
	walk->dentry = (u64)BPF_CORE_READ(mount, mnt_mountpoint);
	walk->mount = (u64)parent;
	return true;
}

/*
 * Takes one step: a name of the path, the last one first, or from a mount to its mount point. False at the
 * end of the walk.
 */
static __always_inline bool executable_step(struct executable_walk *walk, char *names)
{
	struct mount___executable *mount = (void *)walk->mount;
	struct dentry___executable *dentry = (void *)walk->dentry;
	struct dentry___executable *parent;
	long length;

	if (dentry == BPF_CORE_READ(mount, mnt.mnt_root))
		return executable_leave_mount(walk);
	if (walk->used >= EXECUTABLE_PATH)
		return false;
	length = bpf_probe_read_kernel_str(names + (walk->used & (EXECUTABLE_PATH - 1)), EXECUTABLE_NAME, BPF_CORE_READ(dentry, d_name.name));
	if (length <= 0)
		return false;
	walk->used += length;
	parent = BPF_CORE_READ(dentry, d_parent);
	if (parent == dentry) { /* a file without a directory, as of memfd_create */
		walk->whole = 1;
		return false;
	}
	walk->dentry = (u64)parent;
	return true;
}

/*
 * Reads the names of the path of an executable, the last one first, as in /proc/PID/exe. names has
 * EXECUTABLE_PATH + EXECUTABLE_NAME bytes. Returns the number of bytes, 0 if the path is too long.
 */
static __always_inline u32 executable_path(struct task_struct *task, struct executable_walk *walk, char *names)
{
	struct mm_struct___executable *mm = (void *)BPF_CORE_READ(task, mm);
	struct file___executable *file = BPF_CORE_READ(mm, exe_file);
	struct vfsmount___executable *mount = BPF_CORE_READ(file, f_path.mnt);

	walk->dentry = (u64)BPF_CORE_READ(file, f_path.dentry);
	walk->mount = (u64)mount - bpf_core_field_offset(struct mount___executable, mnt);
	walk->used = walk->whole = 0;
	for (u32 i = 0; i < EXECUTABLE_STEPS; i++)
		if (!executable_step(walk, names))
			break;
	return walk->whole && walk->used <= EXECUTABLE_PATH ? walk->used : 0;
}

/* Reads the first EXECUTABLE_ARGUMENTS bytes of the arguments. Returns the number of bytes. */
static __always_inline u32 executable_arguments(struct task_struct *task, char *arguments)
{
	struct mm_struct___executable *mm = (void *)BPF_CORE_READ(task, mm);
	u64 start = BPF_CORE_READ(mm, arg_start);
	u64 length = BPF_CORE_READ(mm, arg_end) - start;

	if (length > EXECUTABLE_ARGUMENTS)
		length = EXECUTABLE_ARGUMENTS;
	barrier_var(length); /* the verifier of Linux 5.10 needs the bound in the register that is used */
	length &= 2 * EXECUTABLE_ARGUMENTS - 1;
	if (bpf_probe_read_user(arguments, length, (void *)start))
		return 0;
	return length;
}

#endif
