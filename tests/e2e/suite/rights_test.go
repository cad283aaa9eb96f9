package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// leaderLabel is what the leader puts on its pod.
const leaderLabel = "berth.dev/leader"

// Rights are written "group/resource verb"; the core group is "". A right to one
// object of that kind only has its name after the resource.
type rights map[string]bool

func rightsOf(t *testing.T, rules []rbacv1.PolicyRule) rights {
	t.Helper()
	all := rights{}
	for _, rule := range rules {
		if len(rule.NonResourceURLs) > 0 || len(rule.ResourceNames) > 1 {
			t.Errorf("unexpected rule %+v", rule)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resource = strings.Join(append([]string{resource}, rule.ResourceNames...), "/")
				for _, verb := range rule.Verbs {
					right := fmt.Sprintf("%s/%s %s", group, resource, verb)
					if all[right] {
						t.Errorf("%s is given twice", right)
					}
					all[right] = true
				}
			}
		}
	}
	return all
}

// used lists every right that the service makes use of: what the informers,
// kube/writer, the policy's store and the leader's election send.
var (
	usedInCluster = []string{
		"/namespaces list", "/namespaces watch", "/nodes list", "/nodes watch",
		"/pods get", "/pods list", "/pods watch", "/pods patch",
		"/pods/binding create", "/pods/eviction create", "/pods/status patch",
		"events.k8s.io/events create", "events.k8s.io/events patch",
		"policy/poddisruptionbudgets list", "policy/poddisruptionbudgets watch",
		"scheduling.k8s.io/priorityclasses list", "scheduling.k8s.io/priorityclasses watch",
		"resource.k8s.io/deviceclasses list", "resource.k8s.io/deviceclasses watch",
		"resource.k8s.io/resourceslices list", "resource.k8s.io/resourceslices watch",
		"resource.k8s.io/resourceclaims list", "resource.k8s.io/resourceclaims watch",
		// Before evictions.
		"/persistentvolumeclaims get",
		"resource.k8s.io/resourceclaims get", "resource.k8s.io/resourceclaimtemplates get",
		// The dialects' objects, all of them where their APIs are served.
		"kueue.x-k8s.io/localqueues list", "kueue.x-k8s.io/localqueues watch",
		"scheduling.k8s.io/podgroups list", "scheduling.k8s.io/podgroups watch",
		"scheduling.run.ai/podgroups list", "scheduling.run.ai/podgroups watch",
		"scheduling.sigs.k8s.io/podgroups list", "scheduling.sigs.k8s.io/podgroups watch",
		"scheduling.volcano.sh/podgroups list", "scheduling.volcano.sh/podgroups watch",
		"scheduling.x-k8s.io/podgroups list", "scheduling.x-k8s.io/podgroups watch",
	}
	usedInOwnNamespace = []string{
		"/configmaps create", "/configmaps get", "/configmaps list", "/configmaps watch", "/configmaps/berth-last-policy update", "/configmaps/berth-usage update",
		"coordination.k8s.io/leases create", "coordination.k8s.io/leases/berth get", "coordination.k8s.io/leases/berth update",
	}
)

// Berth's rights are exactly those that it uses; the other tests show that they
// are enough.
func TestRightsAreMinimal(t *testing.T) {
	var (
		clusterRole    rbacv1.ClusterRole
		clusterBinding rbacv1.ClusterRoleBinding
		role           rbacv1.Role
		binding        rbacv1.RoleBinding
	)
	rbac := baseFolder + "/rbac.yaml"
	find(t, rbac, "ClusterRole", &clusterRole)
	find(t, rbac, "ClusterRoleBinding", &clusterBinding)
	find(t, rbac, "Role", &role)
	find(t, rbac, "RoleBinding", &binding)

	for _, c := range []struct {
		what string
		got  rights
		want []string
	}{
		{"ClusterRole", rightsOf(t, clusterRole.Rules), usedInCluster},
		{"Role", rightsOf(t, role.Rules), usedInOwnNamespace},
	} {
		slices.Sort(c.want)
		if got := slices.Sorted(maps.Keys(c.got)); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %v\nwant %v", c.what, got, c.want)
		}
	}
	if clusterRole.AggregationRule != nil {
		t.Error("the ClusterRole takes in others")
	}
	berth := rbacv1.Subject{Kind: "ServiceAccount", Name: "berth", Namespace: bed.SystemNamespace}
	for _, subjects := range [][]rbacv1.Subject{clusterBinding.Subjects, binding.Subjects} {
		if len(subjects) != 1 || subjects[0] != berth {
			t.Errorf("bound to %v", subjects)
		}
	}
	if clusterBinding.RoleRef.Name != clusterRole.Name || binding.RoleRef.Name != role.Name ||
		role.Namespace != bed.SystemNamespace || binding.Namespace != bed.SystemNamespace {
		t.Error("the bindings do not lead to the roles, or not in Berth's namespace")
	}
}

// What the API server makes of those rights: nothing that would let a stolen
// token read secrets, run a pod, or touch what is not Berth's.
func TestRightsInForce(t *testing.T) {
	for attributes, want := range map[authorizationv1.ResourceAttributes]bool{
		{Verb: "create", Resource: "pods", Subresource: "binding", Namespace: "team-a"}:                                   true,
		{Verb: "patch", Resource: "pods", Subresource: "status", Namespace: "team-a"}:                                     true,
		{Verb: "update", Resource: "configmaps", Name: "berth-last-policy", Namespace: bed.SystemNamespace}:               true,
		{Verb: "update", Resource: "configmaps", Name: "berth-usage", Namespace: bed.SystemNamespace}:                     true,
		{Verb: "update", Resource: "configmaps", Name: "berth-policy", Namespace: bed.SystemNamespace}:                    false,
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "berth", Namespace: bed.SystemNamespace}: true,
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "other", Namespace: bed.SystemNamespace}: false,
		{Verb: "create", Resource: "pods", Namespace: bed.SystemNamespace}:                                                false,
		{Verb: "update", Resource: "pods", Namespace: "team-a"}:                                                           false,
		{Verb: "delete", Resource: "pods", Namespace: "team-a"}:                                                           false,
		{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: "team-a"}:                                      false,
		{Verb: "get", Resource: "secrets", Namespace: bed.SystemNamespace}:                                                false,
		{Verb: "list", Resource: "configmaps", Namespace: "team-a"}:                                                       false,
		{Verb: "patch", Resource: "nodes"}:                                                                                false,
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: metav1.NamespaceSystem}:             false,
		{Verb: "update", Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}:                    false,
		{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "roles", Namespace: bed.SystemNamespace}:         false,
		{Verb: "impersonate", Resource: "serviceaccounts", Namespace: metav1.NamespaceSystem}:                             false,
	} {
		review, err := control.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + bed.SystemNamespace + ":berth",
				Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + bed.SystemNamespace, "system:authenticated"},
				ResourceAttributes: &attributes,
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != want {
			t.Errorf("allowed is %v: %+v", review.Status.Allowed, attributes)
		}
	}
}
