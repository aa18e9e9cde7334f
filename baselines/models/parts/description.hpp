// SPDX-License-Identifier: Apache-2.0
// Descriptions of models as data. A description is resolved first: values from the configuration
// replace its references. Then it is read like any configuration, so a misspelt key is an error
// with the nearest key. registry/models/README.md has the grammar.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"

namespace fk::parts {

// `config.KEY` becomes the value of this key. `{if: KEY, then: A, else: B}` becomes A if the key is
// true, else B. `{if: KEY, is: VALUE, ...}` becomes A if the key has this value.
Config resolved(const Config& description, const Config& config);
// A part of a description, empty where it is absent.
Config part_of(const Config& description, const char* key);
// The value of a size, at most `most`. The description has a number, or names of keys in the
// configuration. The first present key counts, and `usual` is the key without a description.
int64_t read_described(const Config& sizes, const char* name, const char* usual,
                       const Config& config, int64_t most);
// The key's value, which must be one of `words`. The first word is the default.
std::string word(const Config& from, const char* key, const std::vector<std::string>& words);
// Error if a key of the configuration has another value than `only` in the description.
void need_only(const Config& description, const Config& config);

}  // namespace fk::parts
