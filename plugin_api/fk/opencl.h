/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins for OpenCL devices.
 *
 * fk_ctx.stream is a cl_command_queue, in order and with profiling. It has the context and the
 * device: clGetCommandQueueInfo(). prepare() gets the same kind of queue, in fk_memory.stream, so a
 * plugin compiles its kernels there. In create() there is no queue.
 *
 * The data of a view is a pointer that kernels take: clSetKernelArgSVMPointer(). It may point into
 * a block, at any multiple of fk_alignment(). */
#ifndef FK_OPENCL_H
#define FK_OPENCL_H

enum { FK_OPENCL = 4 }; /* device_type, as in DLPack */

#endif
