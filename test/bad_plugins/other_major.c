/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin of another ABI major: its note says so, and its entry has another name. */
#include "fk/plugin.h"
static const fk_note_plugin note FK_NOTE_SECTION = {FK_NOTE_BEGIN(fk_note_plugin, FK_NOTE_PLUGIN), 7, 0, "bad_major", "0", "", "", ""};
__attribute__((visibility("default"))) const fk_plugin *fk_plugin_v7(const fk_hello *hello);
const fk_plugin *fk_plugin_v7(const fk_hello *hello) {
  (void)hello;
  return NULL;
}
