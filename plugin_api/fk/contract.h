/* SPDX-License-Identifier: Apache-2.0 */
/* Contract identity: the contract that a plugin was compiled against. The host compares it with its
 * own when it loads the plugin.
 *
 * A contract has four sections of slots: init, weights, forward and plan. A revision may append
 * optional slots, so the two sides can have different slot counts. `prefix[k]` is the chained hash
 * of the first k slots. Host and plugin agree if their hashes at the smaller count are equal.
 * Otherwise the host refuses the op, and names the first slot that differs from `lines`.
 *
 * A plugin's frames always have the plugin's own slot count. The host fills missing slots with
 * defaults. It drops extra slots, and refuses the case if one of them is not at its default.
 *
 * These structs are constant data of the plugin, valid until the process ends. fk-header generates
 * them into fk/ops/<op>.h from the contract in registry/ops. [any thread] */
#ifndef FK_CONTRACT_H
#define FK_CONTRACT_H
#include "abi.h"

typedef struct fk_section {
  uint32_t slots, required; /* number of slots; index of the last required slot plus 1, 0: none */
  const uint64_t *prefix;   /* [slots + 1] 64-bit FNV-1a hashes of op, revision, section, lines */
  const char *const *lines; /* [slots] canonical texts of the slots; null if slots is 0 */
} fk_section;
FK_ASSERT(sizeof(fk_section) == 24, "layout");

typedef struct fk_contract {
  uint32_t struct_size, revision; /* contracts of different revisions never agree */
  const char *op;                 /* the op's name in the registry */
  fk_section init, weights, forward, plan;
} fk_contract;
FK_ASSERT(offsetof(fk_contract, op) == 8 && offsetof(fk_contract, plan) == 88, "layout");
#endif
