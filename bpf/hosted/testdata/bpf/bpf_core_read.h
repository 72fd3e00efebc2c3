/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* In place of libbpf's header: types have the layout that the compiler gives them here. */
#ifndef HOSTED_BPF_CORE_READ_H
#define HOSTED_BPF_CORE_READ_H

#define HOST_READ_1(from, a) ((from)->a)
#define HOST_READ_2(from, a, b) ((from)->a->b)
#define HOST_READ_3(from, a, b, c) ((from)->a->b->c)
#define HOST_READ_4(from, a, b, c, d) ((from)->a->b->c->d)
#define HOST_PICK(one, two, three, four, name, ...) name
#define BPF_CORE_READ(from, ...) HOST_PICK(__VA_ARGS__, HOST_READ_4, HOST_READ_3, HOST_READ_2, HOST_READ_1)(from, __VA_ARGS__)
#define BPF_CORE_READ_BITFIELD_PROBED(from, field) ((from)->field)
#define BPF_CORE_READ_INTO(to, from, ...) \
	(__builtin_memcpy((to), &BPF_CORE_READ(from, __VA_ARGS__), sizeof(*(to))), 0)
#define bpf_core_field_exists(...) 1
#define bpf_core_type_exists(type) 1
#define bpf_core_enum_value_exists(type, value) 1
#define bpf_core_enum_value(type, value) (value)
#define bpf_core_type_size(type) sizeof(type)
#define bpf_core_field_offset(type, field) __builtin_offsetof(type, field)

#endif
