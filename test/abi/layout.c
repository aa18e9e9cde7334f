/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and offsets of every struct of the boundary, in numbers. A change here breaks every plugin that exists:
 * members are appended, never moved. */
#include "fk/plugin.h"

#define AT(T, member, offset) _Static_assert(offsetof(T, member) == (offset), #T "." #member)
#define END(T, last, size) _Static_assert(FK_END(T, last) == (size), "end of " #T)

AT(fk_error, struct_size, 0); AT(fk_error, code, 4); AT(fk_error, native, 8); AT(fk_error, line, 12); AT(fk_error, text, 16);
END(fk_error, text, 256);
AT(fk_dtype, code, 0); AT(fk_dtype, bits, 1); AT(fk_dtype, lanes, 2);
AT(fk_in, data, 0); AT(fk_in, device_type, 8); AT(fk_in, device_id, 12); AT(fk_in, ndim, 16); AT(fk_in, dtype, 20);
AT(fk_in, shape, 24); AT(fk_in, strides, 32); AT(fk_in, byte_offset, 40); AT(fk_in, nbytes, 48); AT(fk_in, flags, 56);
_Static_assert(sizeof(fk_in) == 64 && sizeof(fk_out) == 64 && sizeof(fk_host_in) == 64 && sizeof(fk_slot) == 8, "views and slots");
_Static_assert(sizeof(fk_opt_in) == 8 && sizeof(fk_in_list) == 16 && sizeof(fk_ints) == 16, "optionals and lists");
AT(fk_section, slots, 0); AT(fk_section, required, 4); AT(fk_section, prefix, 8); AT(fk_section, lines, 16);
AT(fk_contract, struct_size, 0); AT(fk_contract, revision, 4); AT(fk_contract, op, 8); AT(fk_contract, init, 16);
AT(fk_contract, weights, 40); AT(fk_contract, forward, 64); AT(fk_contract, plan, 88);
END(fk_contract, plan, 112);
AT(fk_comm, rank, 4); AT(fk_comm, size, 8); AT(fk_comm, self, 16); AT(fk_comm, all_reduce, 24); AT(fk_comm, all_gather, 32);
AT(fk_comm, reduce_scatter, 40); AT(fk_comm, all_to_all, 48);
AT(fk_comm, barrier, 56); AT(fk_comm, symmetric, 64); AT(fk_comm, error, 72);
END(fk_comm, error, 80);
AT(fk_symmetric, size, 4); AT(fk_symmetric, bytes, 8); AT(fk_symmetric, buffers, 16); AT(fk_symmetric, signals, 24);
END(fk_symmetric, signals, 32);
AT(fk_need, scratch, 8); AT(fk_need, packed, 16); AT(fk_need, persistent, 24); AT(fk_need, plan, 32);
END(fk_need, plan, 40);
AT(fk_memory, packed_ready, 4); AT(fk_memory, packed, 8); AT(fk_memory, packed_bytes, 16); AT(fk_memory, persistent, 24);
AT(fk_memory, persistent_bytes, 32);
END(fk_memory, persistent_bytes, 40);
AT(fk_ctx, device_id, 4); AT(fk_ctx, stream, 8); AT(fk_ctx, scratch, 16); AT(fk_ctx, scratch_bytes, 24); AT(fk_ctx, plan, 32);
AT(fk_ctx, plan_bytes, 40); AT(fk_ctx, error, 48);
END(fk_ctx, error, 56);
AT(fk_host, minor, 4); AT(fk_host, self, 8); AT(fk_host, device_type, 16); AT(fk_host, device_id, 20); AT(fk_host, cpu_threads, 24);
AT(fk_host, log, 32); AT(fk_host, child, 40); AT(fk_host, child_plan, 48); AT(fk_host, child_forward, 56);
END(fk_host, child_forward, 64);
AT(fk_claims, device_type, 4); AT(fk_claims, graph, 8); AT(fk_claims, deterministic, 12); AT(fk_claims, batch_invariant, 16);
AT(fk_claims, accumulate, 20); AT(fk_claims, side_streams, 24); AT(fk_claims, sm_count, 28); AT(fk_claims, sm, 32);
END(fk_claims, sm, 40);
AT(fk_op, contract, 8); AT(fk_op, claims, 16); AT(fk_op, supports, 24); AT(fk_op, create, 32); AT(fk_op, prepare, 40);
AT(fk_op, plan_or_null, 48); AT(fk_op, forward, 56); AT(fk_op, destroy, 64); AT(fk_op, reset_or_null, 72);
END(fk_op, reset_or_null, 80);
AT(fk_plugin, minor, 4); AT(fk_plugin, name, 8); AT(fk_plugin, version, 16); AT(fk_plugin, ops_begin, 24); AT(fk_plugin, ops_end, 32);
END(fk_plugin, ops_end, 40);
AT(fk_hello, minor, 4); AT(fk_hello, host_name, 8); AT(fk_hello, host_version, 16); AT(fk_hello, error, 24);
END(fk_hello, error, 32);
_Static_assert(sizeof(fk_note_plugin) == 344 && sizeof(fk_note_op) == 132, "notes");
AT(fk_note_op, op, 16); AT(fk_note_op, revision, 80); AT(fk_note_op, slots, 84); AT(fk_note_op, hash, 100);
_Static_assert(FK_F32 == 0x2002 && FK_BF16 == 0x1004 && FK_F16 == 0x1002 && FK_I64 == 0x4000 && FK_U8 == 0x0801, "dtypes");
_Static_assert(FK_OK == 0 && FK_UNSUPPORTED == 1 && FK_INVALID == 2 && FK_FAILED == 3 && FK_CPU == 1 && FK_CUDA == 2, "values");

int fk_layout_is_pinned(void);
int fk_layout_is_pinned(void) { return 1; }
