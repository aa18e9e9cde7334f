/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object that is no plugin. */
int fk_nothing(void);
int fk_nothing(void) { return 0; }
