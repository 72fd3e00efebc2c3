/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * In place of libbpf's header: helpers and maps of BPF programs as functions of a program in user space, see ../host.c.
 * Programs include it as <bpf/bpf_helpers.h>.
 */
#ifndef HOSTED_BPF_HELPERS_H
#define HOSTED_BPF_HELPERS_H

#define SEC(name)
#define __uint(name, val) int(*name)[val]
#define __type(name, val) __typeof__(val) *name
#define __array(name, val) __typeof__(val) *name[]
#define __ksym
#define __kconfig
#define __weak __attribute__((weak))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define barrier_var(var) __asm__ volatile("" : "+r"(var))

/* A map: where it is declared, its enum bpf_map_type, and the sizes of its keys and values. */
struct host_map {
	const void *map;
	unsigned type, entries, key_bytes, value_bytes;
};

void *host_lookup(struct host_map map, const void *key);
long host_update(struct host_map map, const void *key, const void *value, __u64 flags);
long host_delete(struct host_map map, const void *key);
void *host_storage(struct host_map map, const void *owner, __u64 flags);

#define HOST_UINT(field) (sizeof(*(field)) / sizeof(int))
#define HOST_MAP(m) ((struct host_map){ (m), HOST_UINT((m)->type), HOST_UINT((m)->max_entries), sizeof(*(m)->key), sizeof(*(m)->value) })
#define HOST_STORAGE(m) ((struct host_map){ (m), HOST_UINT((m)->type), 0, sizeof(void *), sizeof(*(m)->value) })

#define bpf_map_lookup_elem(m, key) host_lookup(HOST_MAP(m), key)
#define bpf_map_update_elem(m, key, value, flags) host_update(HOST_MAP(m), key, value, flags)
#define bpf_map_delete_elem(m, key) host_delete(HOST_MAP(m), key)
#define bpf_sk_storage_get(m, sk, value, flags) host_storage(HOST_STORAGE(m), sk, flags)
#define bpf_task_storage_get(m, task, value, flags) host_storage(HOST_STORAGE(m), task, flags)
/* Queues are empty, rings go to standard output. */
#define bpf_map_pop_elem(m, value) (-2L)
#define bpf_map_push_elem(m, value, flags) (-7L)
#define bpf_ringbuf_output(m, data, size, flags) host_output(m, data, size)
#define bpf_ringbuf_query(m, flags) 0UL
#define bpf_ringbuf_reserve(m, size, flags) ((void *)0)
#define bpf_ringbuf_submit(data, flags) ((void)(data))

long host_output(const void *ring, const void *data, __u64 size);
long bpf_probe_read_user(void *to, __u32 size, const void *from);
long bpf_probe_read_kernel(void *to, __u32 size, const void *from);
long bpf_probe_read_user_str(void *to, __u32 size, const void *from);
long bpf_probe_read_kernel_str(void *to, __u32 size, const void *from);
__u64 bpf_ktime_get_ns(void);
__u32 bpf_get_prandom_u32(void);
__u64 bpf_get_current_pid_tgid(void);
__u32 bpf_get_smp_processor_id(void);
__u64 bpf_get_current_task(void);
struct task_struct *bpf_get_current_task_btf(void);
long bpf_task_pt_regs(struct task_struct *task);
long bpf_get_current_comm(void *to, __u32 size);
long bpf_loop(__u32 times, void *call, void *with, __u64 flags);

#endif
