/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The kernel's types as far as the programs use them. Names and field names are
 * the kernel's; offsets come from the running kernel's BTF (CO-RE), so only the
 * fields that are read are listed and their order means nothing.
 */
#ifndef EBPFRECEIVER_VMLINUX_H
#define EBPFRECEIVER_VMLINUX_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

typedef __u8 u8;
typedef __u16 u16;
typedef __s16 s16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;

#define true 1
#define false 0

/* include/uapi/linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

enum {
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_MMAPABLE = 1U << 10,
};

enum {
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1ULL << 0,
};

enum {
	BPF_F_USER_STACK = 1ULL << 8,
};

enum {
	BPF_RB_NO_WAKEUP = 1ULL << 0,
	BPF_RB_FORCE_WAKEUP = 1ULL << 1,
};

enum {
	BPF_RB_AVAIL_DATA = 0,
};

#define TASK_COMM_LEN 16

/* include/linux/sched.h */
#define PF_IO_WORKER 0x00000010
#define PF_KTHREAD 0x00200000
#define TASK_DEAD 0x00000080

/* THREAD_SIZE with pages of 4 KiB and without KASAN. */
#define KERNEL_STACK_BYTES (16 << 10)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	int nr_threads;
	unsigned long long sum_sched_runtime;
};

struct inode {
	u16 i_mode;
};

typedef struct {
	s64 counter;
} atomic_long_t;

typedef struct {
	atomic_long_t refcnt;
} file_ref_t;

struct file {
	struct inode *f_inode;
	void *private_data;
	atomic_long_t f_count; /* before 6.13 */
	file_ref_t f_ref;      /* one less than there are */
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

/* A return that a uprobe waits for (include/linux/uprobes.h); the next one is first. */
struct return_instance {
	unsigned long func;  /* the function that was entered */
	unsigned long stack; /* the stack pointer then */
	unsigned long orig_ret_vaddr; /* where it would have returned to */
	struct return_instance *next;
};

struct uprobe_task {
	struct return_instance *return_instances;
	unsigned long vaddr;     /* of the instruction that is executed elsewhere */
	unsigned long xol_vaddr; /* there */
};

struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct {
	struct uprobes_state uprobes_state;
};

struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
	u64 prev_sum_exec_runtime;
};

struct sched_info {
	unsigned long long last_arrival;
};

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
	unsigned long fsbase;
};
#endif

struct task_struct {
	struct uprobe_task *utask;
	struct mm_struct *mm;
	s32 pid;
	s32 tgid;
	unsigned int flags;
	unsigned int __state;
	unsigned in_iowait : 1;
	void *stack;
	int pagefault_disabled;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned long nvcsw;
	u64 start_boottime;
	u64 self_exec_id;
	struct task_struct *group_leader;
	char comm[16]; /* TASK_COMM_LEN */
	struct signal_struct *signal;
	struct files_struct *files;
	struct io_uring_task *io_uring;
#if defined(__TARGET_ARCH_x86)
	struct thread_struct thread;
#endif
};

struct task_struct___before_5_14 {
	volatile long state;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

/* Its unions have no names, and so are left out. */
struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	unsigned long skc_flags; /* bits of enum sock_flags */
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	possible_net_t skc_net;
};

struct socket;

struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol;
	u16 sk_type;
	u8 sk_shutdown;
	int sk_err;
	int sk_err_soft;
	u32 sk_max_ack_backlog;
	struct socket *sk_socket;
	u8 sk_userlocks : 4;
};

/* include/uapi/linux/net.h */
typedef enum {
	SS_CONNECTING = 2,
} socket_state;

struct socket {
	socket_state state;
	struct sock *sk;
};

struct request_sock {
	struct sock_common __req_common;
};

struct tcp_request_sock {
	u32 rcv_isn; /* of the SYN */
};

struct inet_sock {
	__be16 inet_sport;
};

struct tcp_sock {
	u32 srtt_us; /* eight times the smoothed round-trip time, µs */
	u32 rcv_nxt;    /* of the next byte that is expected */
	u32 copied_seq; /* of the first byte that was not read yet */
	u32 write_seq;  /* of the next byte that is written */
	u32 snd_una;    /* of the first byte that was not acknowledged */
	u64 bytes_acked;    /* of a client the SYN is one */
	u64 bytes_received; /* a FIN is one */
	u32 data_segs_in;   /* segments with data */
	u32 data_segs_out;  /* also those that were sent again */
	u8 fastopen_connect : 1;
};

struct mptcp_sock {
	struct sock *first; /* subflow */
};

struct tcp_skb_cb {
	u16 tcp_gso_segs;
};

struct sk_buff {
	struct sock *sk;
	char cb[48];
	unsigned int len;
};

enum iter_type {
	ITER_IOVEC = 0,
	ITER_UBUF = 1,
};

/* By their names, each of which is known by some kernels: type before 5.14, iov before 6.4, ubuf since 6.0. */
struct iov_iter {
	u8 iter_type;
	unsigned int type;
	u64 iov_offset;
	u64 count;
	const void *iov;
	const void *__iov;
	void *ubuf;
	unsigned long nr_segs;
};

struct msghdr {
	void *msg_name;
	int msg_namelen;
	struct iov_iter msg_iter;
};

/* Of io_uring (include/linux/io_uring_types.h and io_uring/); members of its anonymous structs and unions are listed as their parent's. */
struct io_cqe {
	int fd;
};

struct io_submit_link {
	struct io_kiocb *head;
};

struct io_submit_state {
	struct io_submit_link link;
};

struct io_rsrc_node {
	unsigned long file_ptr;
};

struct io_rsrc_data {
	unsigned int nr;
	struct io_rsrc_node **nodes;
};

struct io_file_table {
	struct io_rsrc_data data;
};

struct io_ring_ctx {
	struct io_submit_state submit_state;
	struct io_file_table file_table; /* its data since 6.13 */
};

struct io_kiocb {
	struct file *file;
	u8 opcode;
	u32 flags; /* the lower half: IOSQE_ of the request */
	struct io_cqe cqe;
	struct io_ring_ctx *ctx;
	void *async_data;
	struct io_kiocb *link;
};

struct io_sr_msg {
	void *buf;
	unsigned int done_io;
};

struct io_rw {
	u64 addr;
};

struct io_async_msghdr {
	struct msghdr msg;
};

struct io_async_rw {
	struct iov_iter iter;
};

struct bpf_map;

struct bpf_iter__bpf_sk_storage_map {
	struct sock *sk;
	void *value;
};

struct bpf_iter__task {
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct task_struct *task;
	u32 fd;
	struct file *file;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, sp;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	u64 regs[31];
	u64 sp, pc, pstate;
	u64 orig_x0;
	s32 syscallno;
};
#endif

#pragma clang attribute pop

/* Helpers that not every kernel has: BTF shows whether they exist. */
enum bpf_func_id {
	BPF_FUNC_get_current_task_btf = 158,
	BPF_FUNC_task_pt_regs = 175,
};

/* include/net/dropreason-core.h; the values are those of the running kernel's BTF. */
enum skb_drop_reason {
	SKB_DROP_REASON_NOT_SPECIFIED,
	SKB_DROP_REASON_QUEUE_PURGE,
};

/*
 * The context of perf event programs (include/uapi/linux/bpf_perf_event.h). Its
 * layout is fixed: bpf_user_pt_regs_t of the architecture comes first.
 */
#if defined(__TARGET_ARCH_x86)
struct bpf_user_pt_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct bpf_user_pt_regs {
	u64 regs[31];
	u64 sp, pc, pstate;
};
#endif

struct bpf_perf_event_data {
	struct bpf_user_pt_regs regs;
	u64 sample_period;
	u64 addr;
};

#endif
