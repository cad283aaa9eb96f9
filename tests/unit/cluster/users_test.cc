// Who a pod is of, and what users have of a queue. Numbers are GPUs.
#include "cluster/users.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cluster/plan_claim.h"
#include "cluster/store.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

using config::FairWithin;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

constexpr const char* kUser = "berth.dev/user";

TEST_CASE("a pod is of the user that its label names, else of its namespace", "[unit][cluster]") {
  const std::string longest(63, 'u');
  struct Row {
    const char* what;
    std::string label;
    std::string user;
  };
  const std::vector<Row> rows{
      {"a label", "ann", "ann"},
      {"an empty one", "", "lab"},
      {"with marks inside", "A_n.n-1", "A_n.n-1"},
      {"one character", "a", "a"},
      {"a mark at the end", "ann-", "lab"},
      {"a mark at the beginning", ".ann", "lab"},
      {"what would end the claim's field", "ann;queue=b", "lab"},
      {"the longest", longest, longest},
      {"longer", longest + "u", "lab"},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(UserOf(MakePod("p").Ns("lab").Label(kUser, row.label).Build()) == row.user);
  }
  CHECK(UserOf(MakePod("p").Ns("lab").Build()) == "lab");
}

TEST_CASE("a bound pod is of the user in the claim of its Binding", "[unit][cluster]") {
  const auto user = [](const PlanClaim& claim) {
    return UserOfBound(MakePod("p")
                           .Ns("lab")
                           .Label(kUser, "bob")
                           .On("n")
                           .Annotation(std::string(kPlanAnnotation), EncodePlanClaim(claim)));
  };
  CHECK(user({.plan = "x", .node = "n", .queue = "q", .user = "ann"}) == "ann");
  CHECK(user({.plan = "x", .node = "n", .queue = "q"}) == "lab");
  CHECK(user({.plan = "x", .node = "other", .queue = "q", .user = "ann"}) == "bob");
  CHECK(user({.plan = "x", .node = "n", .queue = "q", .user = "-"}) == "lab");
  CHECK(UserOfBound(MakePod("p").Ns("lab").Label(kUser, "bob").On("n")) == "bob");
}

using Shares = std::map<std::string, std::int64_t>;
using Jobs = std::map<std::string, std::map<std::string, int>>;

/// Queue q on a node of 64.
struct Users {
  explicit Users(FairWithin within, int most_jobs = 2) : store(Policy(within, most_jobs)) {
    store.UpsertNode(MakeNode("n").Gpu(64));
  }
  static config::PolicyConfiguration Policy(FairWithin within, int most_jobs) {
    auto policy = MakePolicy({MakeQueue("q", {"*"}), MakeQueue("other", {"*"})});
    policy.queues[0].fair_within = within;
    policy.queues[0].max_jobs_per_user = most_jobs;
    return policy;
  }
  static testing::PodBuilder Of(const std::string& user, const std::string& name, int gpus) {
    auto pod = MakePod(name).Gpu(gpus).Queue("q");
    if (!user.empty()) pod.Label(kUser, user);
    return pod;
  }
  void Add(const kube::Pod& pod) {
    store.UpsertPod(pod);
    store.Refresh();
  }
  const PodInfo& pod(const std::string& name) const { return *store.FindPod("uid-" + name); }
  void Plan(const std::string& name) { store.SetCharge(pod(name), 0, Charge::kPlanned); }
  Shares shares() const {
    Shares all;
    for (const auto& [name, share] : store.queue(store.FindQueue("q")).shares) {
      all[name] = share.used[store.device_ids().front()] / 1000;
    }
    return all;
  }
  Jobs jobs() const {
    Jobs all;
    for (const auto& [user, jobs] : store.queue(store.FindQueue("q")).jobs) {
      for (const auto& [job, pods] : jobs) all[user][job] = pods;
    }
    return all;
  }

  Store store;
};

TEST_CASE("what each user has of a queue, in devices and jobs", "[unit][cluster]") {
  Users u(FairWithin::kUser);
  u.Add(Users::Of("ann", "a1", 2).On("n"));
  u.Add(Users::Of("ann", "a2", 3).On("n"));
  u.Add(Users::Of("bob", "b1", 1).On("n"));
  u.Add(Users::Of("", "x", 4).On("n"));
  u.Add(MakePod("elsewhere").Gpu(8).Queue("other").Label(kUser, "ann").On("n"));
  u.Add(Users::Of("ann", "waits", 5));
  CHECK(u.shares() == Shares{{"ann", 5}, {"bob", 1}, {"default", 4}});
  CHECK(u.jobs() == Jobs{{"ann", {{"default/pod/a1", 1}, {"default/pod/a2", 1}}},
                         {"bob", {{"default/pod/b1", 1}}},
                         {"default", {{"default/pod/x", 1}}}});
  u.Add(Users::Of("ann", "a2", 3).On("n").Terminating());  // still there
  CHECK(u.shares()["ann"] == 5);
  CHECK(u.jobs()["ann"].size() == 2);
  u.store.DeletePod("uid-a2");
  u.store.DeletePod("uid-b1");
  CHECK(u.shares() == Shares{{"ann", 2}, {"default", 4}});
  CHECK(u.jobs() == Jobs{{"ann", {{"default/pod/a1", 1}}}, {"default", {{"default/pod/x", 1}}}});
}

TEST_CASE("by namespace only devices are shared: jobs are counted by user", "[unit][cluster]") {
  Users u(FairWithin::kNamespace);
  u.Add(Users::Of("ann", "a1", 2).Ns("lab").On("n"));
  u.Add(Users::Of("ann", "a2", 3).Ns("web").On("n"));
  u.Add(Users::Of("bob", "b1", 1).Ns("web").On("n"));
  CHECK(u.shares() == Shares{{"lab", 2}, {"web", 4}});
  CHECK(u.jobs() ==
        Jobs{{"ann", {{"lab/pod/a1", 1}, {"web/pod/a2", 1}}}, {"bob", {{"web/pod/b1", 1}}}});
}

TEST_CASE("a gang is one job, and of its first member's user", "[unit][cluster]") {
  Users u(FairWithin::kUser);
  const auto member = [](const char* user, const char* name, int gpus) {
    return Users::Of(user, name, gpus).Gang("g", 3);
  };
  u.Add(member("ann", "m0", 4).Created(1));
  u.Add(member("bob", "m1", 4).Created(2));
  u.Add(member("", "m2", 0).Created(3));
  for (const char* name : {"m0", "m1", "m2"}) u.Plan(name);
  CHECK(u.shares() == Shares{{"ann", 8}});
  CHECK(u.jobs() == Jobs{{"ann", {{"default/gang/g", 2}}}});  // a launcher is no part of the count
  // While a member holds room it is the gang's user that counts for one that comes later.
  u.store.SetCharge(u.pod("m1"), 0, Charge::kBinding);
  u.store.DeletePod("uid-m0");
  u.Add(member("eve", "m3", 1).Created(4));
  u.Plan("m3");
  CHECK(u.shares() == Shares{{"ann", 5}});
}

TEST_CASE("a label edit moves no charge", "[unit][cluster]") {
  Users u(FairWithin::kUser);
  u.Add(Users::Of("ann", "p", 2));
  u.Plan("p");
  u.Add(Users::Of("bob", "p", 2));
  CHECK(u.shares() == Shares{{"ann", 2}});
  CHECK(u.pod("p").workload->user == "ann");
  SECTION("it counts as soon as the pod has given up its place") {
    u.store.Unreserve(u.pod("p"));
    u.store.Refresh();
    CHECK(u.shares().empty());
    CHECK(u.jobs().empty());
    CHECK(u.pod("p").workload->user == "bob");
    u.Plan("p");
    CHECK(u.shares() == Shares{{"bob", 2}});
  }
  SECTION("the Binding says who was charged, also to the next process") {
    const PlanClaim claim{.plan = "x", .node = "n", .queue = "q", .user = "ann"};
    const kube::Pod bound = Users::Of("bob", "p", 2)
                                .On("n")
                                .Annotation(std::string(kPlanAnnotation), EncodePlanClaim(claim));
    u.Add(bound);
    CHECK(u.jobs() == Jobs{{"ann", {{"default/pod/p", 1}}}});
    Users restarted(FairWithin::kUser);
    restarted.Add(bound);
    CHECK(restarted.store.LedgerString() == u.store.LedgerString());
  }
  SECTION("bound by somebody else: its label") {
    u.Add(Users::Of("bob", "p", 2).On("n"));
    CHECK(u.shares() == Shares{{"bob", 2}});
    CHECK(u.jobs() == Jobs{{"bob", {{"default/pod/p", 1}}}});
  }
}

TEST_CASE("the tables follow the policy", "[unit][cluster]") {
  Users u(FairWithin::kNone, 0);
  u.Add(Users::Of("ann", "a", 2).Ns("lab").On("n"));
  u.Add(Users::Of("ann", "ends", 1).Ns("lab").Gang("g", 1).On("n"));
  u.Add(Users::Of("ann", "ends", 1).Ns("lab").Gang("g", 1).On("n").Terminating());
  CHECK(u.shares().empty());
  CHECK(u.jobs().empty());
  CHECK(u.store.SetPolicy(Users::Policy(FairWithin::kUser, 2)));
  CHECK(u.shares() == Shares{{"ann", 3}});
  CHECK(u.jobs() == Jobs{{"ann", {{"lab/gang/g", 1}, {"lab/pod/a", 1}}}});
  CHECK_FALSE(u.store.SetPolicy(Users::Policy(FairWithin::kUser, 1)));  // nothing is read again
  CHECK(u.store.SetPolicy(Users::Policy(FairWithin::kNamespace, 1)));
  CHECK(u.shares() == Shares{{"lab", 3}});
  CHECK(u.store.SetPolicy(Users::Policy(FairWithin::kNone, 0)));
  CHECK(u.shares().empty());
  CHECK(u.jobs().empty());
}

TEST_CASE("which shares have changed is news, up to a number of them", "[unit][cluster]") {
  Users u(FairWithin::kUser);
  u.Add(Users::Of("ann", "a", 1).On("n"));
  u.Add(MakePod("elsewhere").Gpu(1).Queue("other").On("n"));
  const QueueId q = u.store.FindQueue("q");
  CHECK(u.store.TakeShareNews().changed == std::set{std::pair(q, std::string("ann"))});
  CHECK(u.store.TakeShareNews().changed.empty());
  for (int i = 0; i < 5'000; ++i) {
    const std::string name = "p" + std::to_string(i);
    u.store.UpsertPod(Users::Of(name, name, 0).Gang("g" + name, 1).On("n"));
  }
  const Store::ShareNews news = u.store.TakeShareNews();
  CHECK(news.all);
  CHECK(news.changed.empty());
  CHECK_FALSE(u.store.TakeShareNews().all);
}

}  // namespace
}  // namespace berth::cluster
