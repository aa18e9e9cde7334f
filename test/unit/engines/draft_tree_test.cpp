// SPDX-License-Identifier: Apache-2.0
// If this fails, the target checks other guesses than the most probable ones, or a node without the
// path that leads to it.
#include "core/engines/speculate/draft_tree.hpp"

#include <cmath>

#include "core/tensor/random.hpp"
#include "test/catch.hpp"

TEST_CASE("draft_tree_keeps_the_most_probable_nodes_and_their_paths") {
  fk::DraftTree tree;
  tree.begin(7);
  tree.add_child(0, 10, -0.1F);
  tree.add_child(0, 11, -3.F);
  tree.add_child(0, 12, -0.5F);
  REQUIRE(tree.expand(2) == std::vector<int32_t>{1, 3});
  tree.add_child(1, 20, -0.2F);  // -0.3
  tree.add_child(1, 21, -4.F);   // -4.1
  tree.add_child(3, 22, -0.1F);  // -0.6
  CHECK(tree.expand(1) == std::vector<int32_t>{4});
  CHECK(tree.expanded() == std::vector<int32_t>{1, 3, 4});
  CHECK(tree[4].place == 2);
  CHECK(tree.leads_to(1, 4));
  CHECK(tree.leads_to(4, 4));
  CHECK_FALSE(tree.leads_to(3, 4));
  tree.prune(5);  // the root, 10, 12, 20, 22
  REQUIRE(tree.size() == 5);
  CHECK(tree.child(0, 10) == 1);
  CHECK(tree.child(0, 11) == -1);
  CHECK(tree.child(1, 20) == 3);
  CHECK(tree.child(2, 22) == 4);
  CHECK(tree[4].depth == 2);
}

TEST_CASE("draft_tree_is_a_tree_after_any_pruning") {
  fk::Random random(3);
  for (int round = 0; round < 50; ++round) {
    fk::DraftTree tree;
    tree.begin(0);
    for (int level = 0; level < 4; ++level) {
      const std::vector<int32_t> parents = level == 0 ? std::vector<int32_t>{0} : tree.expand(3);
      for (const int32_t p : parents)
        for (int64_t k = 0; k < 4; ++k)
          tree.add_child(p, k, k == 3 ? NAN : -static_cast<float>(random.integer(0, 4)));
    }
    tree.prune(9);
    CHECK(tree.size() == 9);
    for (int32_t i = 1; i < tree.size(); ++i) {
      CHECK(tree[i].parent < i);
      CHECK(tree[i].depth == tree[tree[i].parent].depth + 1);
    }
  }
}
