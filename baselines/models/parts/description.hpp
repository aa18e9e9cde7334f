// SPDX-License-Identifier: Apache-2.0
// Descriptions of models as data. A description is resolved first: what it takes from the
// configuration is put into it. Then it is read like any configuration, so a misspelt key of it is
// an error with the nearest one. registry/models/README.md has the grammar.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"

namespace fk::parts {

// `config.KEY` becomes the value of that key, {if: KEY, then: A, else: B} A where the key is true,
// {if: KEY, is: VALUE, ...} where it has the value.
Config resolved(const Config& description, const Config& config);
// A part of a description, empty where it is absent.
Config part_of(const Config& description, const char* key);
// The value of a size. The description has a number, or names of keys in the configuration; the
// first key that the configuration has counts.
int64_t read_described(const Config& sizes, const char* name, const char* usual,
                       const Config& config, int64_t most);
// One of a few words, of which the first is the default.
std::string word(const Config& from, const char* key, const std::vector<std::string>& words);
// Error for a key of the configuration that has another value than `only` of the description.
void need_only(const Config& description, const Config& config);

}  // namespace fk::parts
