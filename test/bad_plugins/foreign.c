/* SPDX-License-Identifier: Apache-2.0 */
/* A library that no candidate may link. */
int fk_foreign(void);
int fk_foreign(void) { return 0; }
