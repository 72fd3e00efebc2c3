/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The socket of a file.
 */
#ifndef EBPFRECEIVER_NETWORK_FILE_H
#define EBPFRECEIVER_NETWORK_FILE_H

#include "network_socket.h"

/* include/uapi/linux/stat.h */
#define S_IFMT 0170000
#define S_IFSOCK 0140000

/*
 * Returns the socket of a file, as a pointer that socket storage accepts if it is used; 0: the file is no
 * socket.
 */
static __always_inline struct sock *network_sock_of_file(struct file *file)
{
	struct socket *socket;

	if (!socket_storage) {
		if ((file->f_inode->i_mode & S_IFMT) != S_IFSOCK)
			return 0;
		socket = BPF_CORE_READ(file, private_data);
		return BPF_CORE_READ(socket, sk);
	}
	socket = bpf_sock_from_file(file);
	return socket ? socket->sk : 0;
}

/* Returns the file of a descriptor of the running thread; 0: there is none. */
static __always_inline const struct file *network_file_of_descriptor(const struct task_struct *task, u32 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = 0;

	if (fd < BPF_CORE_READ(table, max_fds))
		bpf_probe_read_kernel(&file, sizeof(file), &files[fd]);
	return file;
}

/* Reports whether a file has one reference: it is freed when its descriptor is closed. */
static __always_inline bool network_is_last_of(const struct file *file)
{
	if (bpf_core_field_exists(file->f_ref))
		return !BPF_CORE_READ(file, f_ref.refcnt.counter);
	return BPF_CORE_READ(file, f_count.counter) == 1;
}

/* Returns the socket of a file that is an untyped address; 0: the file is no socket. */
static __always_inline const struct sock *network_sock_of_address(const struct file *file)
{
	struct socket *socket;

	if ((BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return 0;
	socket = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(socket, sk);
}

/* Returns the socket of a descriptor of the running thread; 0: it is no socket. */
static __always_inline const struct sock *network_sock_of_descriptor(const struct task_struct *task, u32 fd)
{
	return network_sock_of_address(network_file_of_descriptor(task, fd));
}

#endif
