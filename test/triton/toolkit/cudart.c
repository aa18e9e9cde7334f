/* SPDX-License-Identifier: Apache-2.0 */
/* libcudart for tests: loads nothing and launches nothing, but notes what was asked. The device's compute capability,
 * and the sizes of the next launch's arguments, are the test's. */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_runtime_api.h"

#define KERNELS 256
struct note {
  char kernel[64];
  unsigned grid[3], block, shared, attributes;
  uint64_t stream, arguments[48];
};
struct CUkern_st {
  char name[64];
  unsigned most_shared, loaded;
};
struct CUlib_st {
  const uint8_t *image;
  struct CUkern_st kernel;
};
int fk_test_sm = 90, fk_test_loads, fk_test_unloads, fk_test_launches, fk_test_first;
char fk_test_sizes[4][48]; /* bytes of each argument of the launches from number fk_test_first on; 0 ends */
struct note fk_test_notes[KERNELS];

const char *cudaGetErrorString(cudaError_t status) { return status == cudaErrorNotFound ? "not found" : "invalid value"; }
cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int device) {
  (void)device;
  *value = what == cudaDevAttrComputeCapabilityMajor ? fk_test_sm / 10 : fk_test_sm % 10;
  return cudaSuccess;
}
cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, void *a, void **b, unsigned c, void *d, void **e, unsigned f) {
  const Elf64_Ehdr *head = code;
  if (a || b || c || d || e || f) return cudaErrorInvalidValue;
  if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_machine != 190 /* CUDA */) return cudaErrorInvalidValue;
  *library = calloc(1, sizeof **library);
  (*library)->image = code;
  ++fk_test_loads;
  return cudaSuccess;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) { return free(library), ++fk_test_unloads, cudaSuccess; }
cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
  const Elf64_Ehdr *head = (const void *)library->image;
  const Elf64_Shdr *sections = (const void *)(library->image + head->e_shoff);
  const char *names = (const char *)library->image + sections[head->e_shstrndx].sh_offset;
  for (int i = 0; i < head->e_shnum; ++i) {
    const char *section = names + sections[i].sh_name;
    if (strncmp(section, ".text.", 6) != 0 || strcmp(section + 6, name) != 0) continue;
    strncpy(library->kernel.name, name, sizeof library->kernel.name - 1);
    return *kernel = &library->kernel, cudaSuccess;
  }
  return cudaErrorNotFound;
}
cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute what, int value) {
  struct CUkern_st *kernel = (void *)(uintptr_t)function;
  if (what == cudaFuncAttributeMaxDynamicSharedMemorySize) kernel->most_shared = (unsigned)value;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *function) {
  ((struct CUkern_st *)(uintptr_t)function)->loaded = 1;
  return out->sharedSizeBytes = 0, cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
  const struct CUkern_st *kernel = function;
  const char *sizes = fk_test_sizes[(fk_test_launches - fk_test_first) % 4];
  struct note *note = &fk_test_notes[fk_test_launches++ % KERNELS];
  const unsigned usual = 48 << 10;
  if (!kernel->loaded || config->dynamicSmemBytes > (kernel->most_shared > usual ? kernel->most_shared : usual)) return cudaErrorInvalidValue;
  memset(note, 0, sizeof *note);
  memcpy(note->kernel, kernel->name, sizeof note->kernel);
  note->grid[0] = config->gridDim.x, note->grid[1] = config->gridDim.y, note->grid[2] = config->gridDim.z;
  note->block = config->blockDim.x;
  note->shared = (unsigned)config->dynamicSmemBytes;
  note->attributes = config->numAttrs;
  note->stream = (uint64_t)(uintptr_t)config->stream;
  for (int i = 0; sizes[i]; ++i) memcpy(&note->arguments[i], arguments[i], (size_t)sizes[i]);
  return cudaSuccess;
}
