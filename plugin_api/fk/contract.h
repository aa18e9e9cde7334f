/* SPDX-License-Identifier: Apache-2.0 */
/* Contract identity: what a plugin was compiled against, so that both sides can compare notes at load.
 *
 * A contract has four sections of slots (init, weights, forward, plan). Within a revision, optional slots
 * may be appended. `prefix[k]` is the chained hash of the first k slots, so host and plugin agree when the
 * hashes at the smaller of the two counts are equal; `lines` are the slots' canonical text, from which the
 * refusal names the slot. A frame that reaches a plugin has exactly the plugin's slot count: the host cuts
 * it (after checking that what is cut is at its default) or fills the tail with defaults.
 *
 * All of it is constant data of the plugin, valid until the process ends; fk-header writes it into
 * fk/ops/<op>.h from the contract of registry/ops. [any thread] */
#ifndef FK_CONTRACT_H
#define FK_CONTRACT_H
#include "abi.h"

typedef struct fk_section {
  uint32_t slots, required; /* how many slots; how many of the first ones are up to the last required */
  const uint64_t *prefix;   /* [slots + 1] hashes: FNV-1a of 64 bits over op, revision, section and lines */
  const char *const *lines; /* [slots] texts; null where there is no slot */
} fk_section;
FK_ASSERT(sizeof(fk_section) == 24, "layout");

typedef struct fk_contract {
  uint32_t struct_size, revision; /* another revision is another contract */
  const char *op;                 /* its name, as in the registry */
  fk_section init, weights, forward, plan;
} fk_contract;
FK_ASSERT(offsetof(fk_contract, op) == 8 && offsetof(fk_contract, plan) == 88, "layout");
#endif
