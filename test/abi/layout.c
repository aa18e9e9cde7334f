/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and offsets of every struct of the boundary, in numbers. A change here breaks every plugin that exists:
 * members are appended, never moved. */
#include "fk/comm_library.h"
#include "fk/device.h"
#include "fk/opencl.h"
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
_Static_assert(sizeof(fk_dtype) == 4 && sizeof(fk_opt_out) == 8 && sizeof(fk_out_list) == 16 && sizeof(fk_opt_in_list) == 8 &&
                   sizeof(fk_opt_out_list) == 8, "optionals and lists");
AT(fk_out, data, 0); AT(fk_out, flags, 56); AT(fk_host_in, host, 0); AT(fk_host_in, flags, 56);
AT(fk_in_list, n, 0); AT(fk_in_list, at, 8); AT(fk_out_list, n, 0); AT(fk_out_list, at, 8); AT(fk_ints, n, 0); AT(fk_ints, at, 8);
AT(fk_slot, i, 0); AT(fk_slot, f, 0); AT(fk_slot, p, 0);
AT(fk_temp, view, 0); AT(fk_temp, dims, 64);
AT(fk_section, slots, 0); AT(fk_section, required, 4); AT(fk_section, prefix, 8); AT(fk_section, lines, 16);
AT(fk_contract, struct_size, 0); AT(fk_contract, revision, 4); AT(fk_contract, op, 8); AT(fk_contract, init, 16);
AT(fk_contract, weights, 40); AT(fk_contract, forward, 64); AT(fk_contract, plan, 88);
END(fk_contract, plan, 112);
AT(fk_comm, struct_size, 0); AT(fk_comm, rank, 4); AT(fk_comm, size, 8); AT(fk_comm, facts, 12); AT(fk_comm, self, 16); AT(fk_comm, all_reduce, 24); AT(fk_comm, all_gather, 32);
AT(fk_comm, reduce_scatter, 40); AT(fk_comm, all_to_all, 48);
AT(fk_comm, barrier, 56); AT(fk_comm, symmetric, 64); AT(fk_comm, error, 72);
END(fk_comm, error, 80);
AT(fk_symmetric, struct_size, 0); AT(fk_symmetric, size, 4); AT(fk_symmetric, bytes, 8); AT(fk_symmetric, buffers, 16); AT(fk_symmetric, signals, 24);
END(fk_symmetric, signals, 32);
AT(fk_need, struct_size, 0); AT(fk_need, reserved, 4); AT(fk_need, scratch, 8); AT(fk_need, packed, 16); AT(fk_need, persistent, 24); AT(fk_need, plan, 32);
END(fk_need, plan, 40);
AT(fk_memory, struct_size, 0); AT(fk_memory, packed_ready, 4); AT(fk_memory, packed, 8); AT(fk_memory, packed_bytes, 16); AT(fk_memory, persistent, 24);
AT(fk_memory, persistent_bytes, 32); AT(fk_memory, stream, 40);
END(fk_memory, stream, 48);
AT(fk_ctx, struct_size, 0); AT(fk_ctx, device_id, 4); AT(fk_ctx, stream, 8); AT(fk_ctx, scratch, 16); AT(fk_ctx, scratch_bytes, 24); AT(fk_ctx, plan, 32);
AT(fk_ctx, plan_bytes, 40); AT(fk_ctx, error, 48);
END(fk_ctx, error, 56);
AT(fk_host, struct_size, 0); AT(fk_host, reserved, 28); AT(fk_host, minor, 4); AT(fk_host, self, 8); AT(fk_host, device_type, 16); AT(fk_host, device_id, 20); AT(fk_host, cpu_threads, 24);
AT(fk_host, log, 32); AT(fk_host, child, 40); AT(fk_host, child_plan, 48); AT(fk_host, child_forward, 56);
END(fk_host, child_forward, 64);
AT(fk_claims, struct_size, 0); AT(fk_claims, device_type, 4); AT(fk_claims, graph, 8); AT(fk_claims, deterministic, 12); AT(fk_claims, batch_invariant, 16);
AT(fk_claims, accumulate, 20); AT(fk_claims, side_streams, 24); AT(fk_claims, sm_count, 28); AT(fk_claims, sm, 32);
END(fk_claims, sm, 40);
AT(fk_op, struct_size, 0); AT(fk_op, reserved, 4); AT(fk_op, contract, 8); AT(fk_op, claims, 16); AT(fk_op, supports, 24); AT(fk_op, create, 32); AT(fk_op, prepare, 40);
AT(fk_op, plan_or_null, 48); AT(fk_op, forward, 56); AT(fk_op, destroy, 64); AT(fk_op, reset_or_null, 72);
END(fk_op, reset_or_null, 80);
AT(fk_plugin, struct_size, 0); AT(fk_plugin, minor, 4); AT(fk_plugin, name, 8); AT(fk_plugin, version, 16); AT(fk_plugin, ops_begin, 24); AT(fk_plugin, ops_end, 32);
END(fk_plugin, ops_end, 40);
AT(fk_hello, struct_size, 0); AT(fk_hello, minor, 4); AT(fk_hello, host_name, 8); AT(fk_hello, host_version, 16); AT(fk_hello, error, 24);
END(fk_hello, error, 32);
_Static_assert(sizeof(fk_note_plugin) == 344 && sizeof(fk_note_op) == 132, "notes");
AT(fk_note_plugin, name_bytes, 0); AT(fk_note_plugin, desc_bytes, 4); AT(fk_note_plugin, type, 8); AT(fk_note_plugin, owner, 12);
AT(fk_note_plugin, abi_major, 16); AT(fk_note_plugin, abi_minor, 20); AT(fk_note_plugin, name, 24); AT(fk_note_plugin, version, 88);
AT(fk_note_plugin, compiler, 120); AT(fk_note_plugin, sm, 216); AT(fk_note_plugin, build, 280);
AT(fk_note_op, op, 16); AT(fk_note_op, revision, 80); AT(fk_note_op, slots, 84); AT(fk_note_op, hash, 100);
_Static_assert(FK_F32 == 0x2002 && FK_BF16 == 0x1004 && FK_F16 == 0x1002 && FK_I64 == 0x4000 && FK_U8 == 0x0801, "dtypes");
_Static_assert(FK_F64 == 0x4002 && FK_F8E4M3 == 0x080a && FK_F8E5M2 == 0x080c && FK_I32 == 0x2000 && FK_I8 == 0x0800 && FK_BOOL == 0x0806, "dtypes");
_Static_assert(FK_ABI_MAJOR == 1 && FK_ABI_MINOR == 0 && FK_NOTE_PLUGIN == 1 && FK_NOTE_OP == 2 && FK_ALIGNMENT == 16, "versions");
_Static_assert(FK_GRAPH_NEVER == 0 && FK_GRAPH_UNIFORM_DECODE == 1 && FK_GRAPH_UNIFORM_BATCH == 2 && FK_GRAPH_ALWAYS == 3, "graph");
_Static_assert(FK_ACCUMULATE_F32 == 0 && FK_ACCUMULATE_F64 == 1 && FK_ACCUMULATE_REDUCED == 2, "accumulate");
_Static_assert(FK_LOG_DEBUG == 0 && FK_LOG_INFO == 1 && FK_LOG_WARNING == 2 && FK_LOG_ERROR == 3, "log");
_Static_assert(FK_SUM == 0 && FK_MAX == 1 && FK_MIN == 2 && FK_SIGNALS == 1024, "ranks");
_Static_assert(FK_LIBRARY_NONE == 0 && FK_LIBRARY_NCCL == 1 && FK_COMM_APART == 256 && FK_OPENCL == 4, "facts and kinds of devices");
_Static_assert(FK_OK == 0 && FK_UNSUPPORTED == 1 && FK_INVALID == 2 && FK_FAILED == 3 && FK_CPU == 1 && FK_CUDA == 2, "values");
/* Device backends. */
AT(fk_device_info, cpu_threads, 4); AT(fk_device_info, memory_bytes, 8); AT(fk_device_info, flags, 16); AT(fk_device_info, name, 24);
AT(fk_device_info, identity, 152); END(fk_device_info, driver, 408);
AT(fk_part, bytes, 8); AT(fk_span, bytes, 8);
AT(fk_node, kind, 0); AT(fk_node, mark, 4); AT(fk_node, name, 8); AT(fk_node, span_count, 16); AT(fk_node, spans, 24); AT(fk_node, after_count, 32);
AT(fk_node, after, 40); AT(fk_node, threads, 48); AT(fk_node, registers, 56); AT(fk_node, local_bytes, 64); AT(fk_node, shared_bytes, 72);
AT(fk_node, occupancy, 80); _Static_assert(sizeof(fk_node) == 88, "nodes");
AT(fk_nodes, node_bytes, 4); AT(fk_nodes, count, 8); END(fk_nodes, nodes, 24);
AT(fk_state, stopped, 4); AT(fk_state, clock_mhz, 8); AT(fk_state, memory_mhz, 16); AT(fk_state, slowed, 24); END(fk_state, used_bytes, 40);
AT(fk_needs, compiles, 4); AT(fk_needs, devices, 8); AT(fk_needs, read, 16); AT(fk_needs, execute, 24); END(fk_needs, folder_variable, 40);
AT(fk_backend, struct_size, 0); AT(fk_backend, minor, 4); AT(fk_backend, kind, 8); AT(fk_backend, version, 16);
AT(fk_backend, device_type, 24); AT(fk_backend, reserved, 28); AT(fk_backend, type_words, 32);
AT(fk_backend, peaks, 40); AT(fk_backend, needs, 48); AT(fk_backend, count, 56); AT(fk_backend, describe, 64);
AT(fk_backend, open, 72); AT(fk_backend, close, 80); AT(fk_backend, allocate, 88); AT(fk_backend, release, 96);
AT(fk_backend, allocate_host, 104); AT(fk_backend, release_host, 112); AT(fk_backend, allocate_parts_or_null, 120);
AT(fk_backend, free_bytes_or_null, 128); AT(fk_backend, upload, 136); AT(fk_backend, upload_later, 144);
AT(fk_backend, uploads_enqueued, 152); AT(fk_backend, wait_for_uploads, 160); AT(fk_backend, download, 168);
AT(fk_backend, download_later, 176); AT(fk_backend, copy, 184); AT(fk_backend, fill, 192);
AT(fk_backend, copy_rows_or_null, 200); AT(fk_backend, copy_tokens_or_null, 208);
AT(fk_backend, fill_random_or_null, 216); AT(fk_backend, fill_normal_or_null, 224);
AT(fk_backend, checksums_or_null, 232); AT(fk_backend, gather_or_null, 240); AT(fk_backend, share_or_null, 248);
AT(fk_backend, open_shared_or_null, 256); AT(fk_backend, close_shared_or_null, 264);
AT(fk_backend, accept_mapping_or_null, 272); AT(fk_backend, drop_mapping_or_null, 280); AT(fk_backend, stream, 288);
AT(fk_backend, synchronize, 296); AT(fk_backend, synchronize_all, 304); AT(fk_backend, lost_or_null, 312);
AT(fk_backend, left_behind_or_null, 320); AT(fk_backend, profile_or_null, 328);
AT(fk_backend, share_cores_or_null, 336); AT(fk_backend, hold_or_null, 344); AT(fk_backend, let_go_or_null, 352);
AT(fk_backend, peek_or_null, 360); AT(fk_backend, begin_capture_or_null, 368);
AT(fk_backend, capture_is_whole_or_null, 376); AT(fk_backend, mark_capture_or_null, 384);
AT(fk_backend, separate_calls_or_null, 392); AT(fk_backend, end_capture_or_null, 400);
AT(fk_backend, launch_or_null, 408); AT(fk_backend, free_graph_or_null, 416); AT(fk_backend, watch_open, 424);
AT(fk_backend, watch_close, 432); AT(fk_backend, watch_flush, 440); AT(fk_backend, watch_passes_or_null, 448);
AT(fk_backend, watch_evict_or_null, 456); AT(fk_backend, watch_start, 464); AT(fk_backend, watch_stop, 472);
AT(fk_backend, watch_seconds, 480); AT(fk_backend, sense_open_or_null, 488); AT(fk_backend, sense_close_or_null, 496);
AT(fk_backend, sense_look_or_null, 504);
END(fk_backend, sense_look_or_null, 512);
AT(fk_note_backend, major, 16); AT(fk_note_backend, minor, 20); AT(fk_note_backend, kind, 24); AT(fk_note_backend, version, 56);
AT(fk_note_backend, compiler, 88); AT(fk_note_backend, build, 184); _Static_assert(sizeof(fk_note_backend) == 248, "note");
_Static_assert(FK_NODE_KERNEL == 0 && FK_NODE_UNKNOWN == 10 && FK_DEVICE_HOST_READS == 1 && FK_SLOWED_HEAT == 0x40, "values");

int fk_layout_is_pinned(void);
int fk_layout_is_pinned(void) { return 1; }
