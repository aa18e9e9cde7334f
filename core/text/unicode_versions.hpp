// SPDX-License-Identifier: Apache-2.0
//
// Characters whose classes in the package `tokenizers` differ from the classes in utf8proc.

#pragma once

namespace fk::text {

bool punctuation_differs(char32_t code);
bool mark_differs(char32_t code);
bool nonspacing_differs(char32_t code);
bool control_differs(char32_t code);
/// The package has no compatibility decomposition of this character.
bool stays_whole(char32_t code);

}  // namespace fk::text
