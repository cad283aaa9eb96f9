// What queues have borrowed and lent. Numbers are devices.
#include "policy/loans.h"

#include <catch2/catch.hpp>

namespace berth::policy {
namespace {

struct User {
  const char* what;
  int parent;
  int quota;
  int used;  ///< With those below it.
  int kept;
  int borrowed;
  int lent;
};

void Check(int pool, const std::vector<User>& users, bool borrowing = true) {
  FairTree tree{.total = {pool}, .pool = {pool}, .borrowing = borrowing};
  for (const User& user : users) {
    tree.queues.push_back({.name = user.what,
                           .parent = user.parent,
                           .quota = {user.quota},
                           .limit = {kNoLimit},
                           .kept = {user.kept},
                           .used = {user.used}});
  }
  const std::vector<Loan> loans = LoansOf(tree);
  REQUIRE(loans.size() == users.size());
  for (std::size_t i = 0; i < users.size(); ++i) {
    INFO(users[i].what);
    CHECK(loans[i].borrowed == DeviceAmounts{users[i].borrowed});
    CHECK(loans[i].lent == DeviceAmounts{users[i].lent});
  }
}

TEST_CASE("borrowed is the use above quota, lent what others have of it", "[unit][policy]") {
  // Of 16, 8 are promised to nobody: these are used first.
  Check(16, {{"idle", -1, 8, 0, 0, 0, 0}, {"uses no promise", -1, 0, 8, 0, 8, 0}});
  Check(16, {{"lends 3", -1, 8, 0, 0, 0, 3}, {"borrows", -1, 0, 11, 0, 11, 0}});
  // min(8 - 6, 12 - 8)
  Check(16, {{"lends what it does not use", -1, 8, 6, 0, 0, 2}, {"borrows", -1, 8, 10, 0, 2, 0}});
  // min(8 - 5, 11 - 8)
  Check(16, {{"keeps 5", -1, 8, 0, 5, 0, 3}, {"borrows", -1, 0, 11, 0, 11, 0}});
  // The one that keeps 5 has been given back a part: min(8 - 5, 11 - 8).
  Check(16, {{"keeps 5 and uses 2", -1, 8, 2, 5, 0, 3}, {"borrows", -1, 0, 11, 0, 11, 0}});
  // Each of them may be the one that has lent the 4 that are borrowed.
  Check(16, {{"one", -1, 8, 0, 0, 0, 4}, {"two", -1, 4, 0, 0, 0, 4}, {"b", -1, 4, 8, 0, 4, 0}});
  // Nodes were lost: quotas are more than there is.
  Check(8, {{"one", -1, 8, 4, 0, 0, 0}, {"two", -1, 8, 4, 0, 0, 0}});
  Check(8, {});
}

TEST_CASE("loans go through the tree", "[unit][policy]") {
  // a lends 6 to b: 14 - 8 above b's quota. x's quota is all that a has to lend.
  Check(16, {{"a", -1, 8, 2, 0, 0, 6},
             {"x", 0, 8, 2, 0, 0, 6},
             {"y", 0, 0, 0, 0, 0, 0},
             {"b", -1, 8, 14, 0, 6, 0}});
  // Of a's 8, 4 are promised to nobody below it: of the 6 that b has, x lends 2.
  Check(16, {{"a", -1, 8, 2, 0, 0, 6}, {"x", 0, 4, 2, 0, 0, 2}, {"b", -1, 8, 14, 0, 6, 0}});
  // y borrows from x inside a, and a is within its quota.
  Check(16, {{"a", -1, 8, 8, 0, 0, 0}, {"x", 0, 4, 1, 0, 0, 3}, {"y", 0, 4, 7, 0, 3, 0}});
  // a's own work, 7 of 8, uses what is promised to x.
  Check(16, {{"a", -1, 8, 8, 0, 0, 0}, {"x", 0, 4, 1, 0, 0, 3}});
  // a has borrowed 4 for y, who takes nothing from x but what it does not use of a's quota.
  Check(16, {{"a", -1, 8, 12, 0, 4, 0}, {"x", 0, 4, 0, 0, 0, 4}, {"y", 0, 0, 12, 0, 12, 0}});
}

TEST_CASE("the loans in the example of docs/queues.md", "[unit][policy]") {
  Check(16, {{"science", -1, 8, 3, 0, 0, 5},
             {"lab", 0, 0, 3, 0, 3, 0},
             {"field", 0, 0, 0, 0, 0, 0},
             {"web", -1, 4, 2, 0, 0, 2},
             {"guests", -1, 0, 11, 0, 11, 0}});
}

TEST_CASE("without borrowing nothing is lent", "[unit][policy]") {
  Check(16,
        {{"up to a limit above its quota", -1, 4, 12, 0, 8, 0},
         {"idle", -1, 8, 0, 0, 0, 0},
         {"nothing promised", -1, 0, 4, 0, 0, 0}},
        /*borrowing=*/false);
}

}  // namespace
}  // namespace berth::policy
