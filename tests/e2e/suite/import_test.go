package suite

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/tests/e2e/suite/bed"
)

var (
	volcanoQueue = crd{"scheduling.volcano.sh", "v1beta1", "Queue", "queues", true}
	kaiQueue     = crd{"scheduling.run.ai", "v2", "Queue", "queues", true}
	kaiTopology  = crd{"kai.scheduler", "v1alpha1", "Topology", "topologies", true}
)

// Kueue's queues, imported from the live cluster, are a policy by which a job
// that names its LocalQueue runs.
func TestImportFromCluster(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: research})
	s.Namespace("team-a")
	s.Nodes(1).GPUs(8).Create()
	kueueLocalQueue.install(t, s)
	kueueClusterQueue.install(t, s)
	kueueClusterQueue.create(t, s, "", "imported", map[string]any{
		"resourceGroups": []any{map[string]any{
			"coveredResources": []any{"nvidia.com/gpu"},
			"flavors": []any{map[string]any{
				"name": "default-flavor", "resources": []any{map[string]any{"name": "nvidia.com/gpu", "nominalQuota": "2"}},
			}},
		}},
	})
	kueueLocalQueue.create(t, s, "team-a", "user-queue", map[string]any{"clusterQueue": "imported"})
	policy := s.RunBerth("import", "kueue", "--kubeconfig", "ADMIN")
	s.RunBerth("check", s.WriteFile("imported.yaml", policy))
	for _, want := range []string{`- name: "imported"`, `namespaces: ["team-a"]`, "quota: {nvidia.com/gpu: 2}", "limit: {nvidia.com/gpu: 2}"} {
		if !strings.Contains(policy, want) {
			t.Errorf("no %s in\n%s", want, policy)
		}
	}
	s.WritePolicy(policy)
	pods := s.Pod("p").Namespace("team-a").GPUs(1).Label("kueue.x-k8s.io/queue-name", "user-queue").CreateRange(0, 2)
	s.AllBound(pods...)
	s.WhyIs(s.Pod("over").Namespace("team-a").GPUs(1).Label("kueue.x-k8s.io/queue-name", "user-queue").Create(), "WaitingForQuota")
}

// closed lets no namespace in: what runs, runs by a policy that came later.
const closed = `apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
queues:
- name: nobody
`

// volcanoTree is a tree whose leaf deserves more than its capability, and says
// things that Berth has no equal for.
func volcanoTree(t *testing.T, s *bed.Scenario) {
	volcanoQueue.install(t, s)
	volcanoQueue.create(t, s, "", "root", map[string]any{"weight": 1, "reclaimable": true})
	volcanoQueue.create(t, s, "", "science", map[string]any{
		"parent": "root", "weight": 1,
		"deserved":   map[string]any{"cpu": "64", "memory": "128Gi", bed.GPU: "16"},
		"capability": map[string]any{bed.GPU: 24, "pods": "200"},
	})
	volcanoQueue.create(t, s, "", "alpha", map[string]any{
		"parent": "science", "weight": 4, "priority": 10, "reclaimable": false,
		"guarantee":  map[string]any{"resource": map[string]any{bed.GPU: "1"}},
		"deserved":   map[string]any{bed.GPU: "4"},
		"capability": map[string]any{bed.GPU: "2"},
		"affinity": map[string]any{"nodeGroupAffinity": map[string]any{
			"requiredDuringSchedulingIgnoredDuringExecution": []any{"h100"},
		}},
	})
	closed := map[string]any{
		"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": map[string]any{"name": "floor"},
		"spec": map[string]any{
			"parent": "science", "weight": 5000, "guarantee": map[string]any{"resource": map[string]any{bed.GPU: "1"}},
		},
		"status": map[string]any{"state": "Closed"},
	}
	if err := send(s, volcanoQueue.path(""), closed); err != nil {
		t.Fatal(err)
	}
}

const volcanoPolicy = "# Imported by `berth import volcano` from the cluster. Comments name the settings that have no equivalent in Berth." + `
apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
resources:
  # The first one is what pods are placed by.
  devices:
  - {name: nvidia.com/gpu}
borrowing: on
queues:
# Queue alpha
# reclaimable: false: not carried over
# priority 10: it decides between queues that are as far above what they are entitled to
# affinity: not carried over
# quota of nvidia.com/gpu: 4, cut to the limit
- name: "alpha"
  parent: "science"
  namespaces: ["team-a", "*"]
  quota: {nvidia.com/gpu: 2}
  limit: {nvidia.com/gpu: 2}
  weight: 4.000
  lendingLimit: {nvidia.com/gpu: 1}
  priority: 10
# Queue floor
# weight 5000: 1 to 1000 are possible
- name: "floor"
  parent: "science"
  namespaces: ["*"]
  quota: {nvidia.com/gpu: 1}
  lendingLimit: {nvidia.com/gpu: 0}
  hold: hold
# Queue root
- name: "root"
  namespaces: ["*"]
# Queue science
# capability of pods: not counted by Berth
- name: "science"
  parent: "root"
  namespaces: ["*"]
  quota: {cpu: 64, memory: 128Gi, nvidia.com/gpu: 16}
  limit: {nvidia.com/gpu: 24}
`

// kaiTree is a department without bounds and its one project.
func kaiTree(t *testing.T, s *bed.Scenario) {
	kaiQueue.install(t, s)
	kaiTopology.install(t, s)
	boundless := map[string]any{"quota": -1, "limit": -1, "overQuotaWeight": 1}
	kaiQueue.create(t, s, "", "science", map[string]any{
		"resources": map[string]any{"cpu": boundless, "gpu": boundless, "memory": boundless},
	})
	kaiQueue.create(t, s, "", "alpha", map[string]any{
		"displayName": "Alpha lab", "parentQueue": "science", "priority": 200, "preemptMinRuntime": "10m",
		"resources": map[string]any{
			"cpu":    map[string]any{"quota": 8000, "limit": -1, "overQuotaWeight": 2},
			"gpu":    map[string]any{"quota": 1.5, "limit": 2, "overQuotaWeight": 2.5},
			"memory": map[string]any{"quota": 4096, "limit": -1, "overQuotaWeight": 1},
		},
	})
	kaiTopology.create(t, s, "", "network", map[string]any{
		"levels": []any{map[string]any{"nodeLabel": "cloud.provider.com/topology-rack"}},
	})
}

const kaiPolicy = "# Imported by `berth import kai` from the cluster. Comments name the settings that have no equivalent in Berth." + `
apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
resources:
  # The first one is what pods are placed by.
  devices:
  - {name: nvidia.com/gpu}
# Topology network
topology:
  levels:
  - {name: rack, nodeLabel: cloud.provider.com/topology-rack}
  - {name: host, nodeLabel: kubernetes.io/hostname}
borrowing: on
queues:
# Queue alpha (Alpha lab)
# quota of nvidia.com/gpu: 1500m rounded down to whole devices
# overQuotaWeight of cpu: that of GPUs is the weight
# priority 200: it decides between queues that are as far above what they are entitled to
- name: "alpha"
  parent: "science"
  namespaces: ["team-a", "*"]
  quota: {cpu: 8, memory: 4000000Ki, nvidia.com/gpu: 1}
  limit: {nvidia.com/gpu: 2}
  weight: 2.500
  priority: 200
  minRunTime: 10m0s
# Queue science
# quota of nvidia.com/gpu: unlimited in KAI, none here
# quota of cpu: unlimited in KAI, none here
# quota of memory: unlimited in KAI, none here
- name: "science"
`

// Volcano's and KAI's trees, imported from the live cluster: the policy says what
// it could not carry over, berth check takes it, and the jobs of both kinds of
// user run by it: those whose namespace has a queue, and those who name one.
func TestImportTreeFromCluster(t *testing.T) {
	for _, peer := range []struct {
		name   string
		tree   func(*testing.T, *bed.Scenario)
		ns     string // what makes alpha the queue of team-a
		policy string
		mark   func(*bed.PodBuilder) *bed.PodBuilder
	}{
		{
			"volcano", volcanoTree, `"annotations": {"scheduling.volcano.sh/queue-name": "alpha"}`, volcanoPolicy,
			func(b *bed.PodBuilder) *bed.PodBuilder {
				return b.Annotation("scheduling.volcano.sh/queue-name", "alpha")
			},
		},
		{
			"kai", kaiTree, `"labels": {"runai/queue": "alpha"}`, kaiPolicy,
			func(b *bed.PodBuilder) *bed.PodBuilder { return b.Label("kai.scheduler/queue", "alpha") },
		},
	} {
		t.Run(peer.name, func(t *testing.T) {
			s := control.Scenario(t, bed.Options{Policy: closed})
			s.Namespace("team-a")
			s.Nodes(1).GPUs(8).Create()
			patch := fmt.Appendf(nil, `{"metadata": {%s}}`, peer.ns)
			if _, err := s.Client.CoreV1().Namespaces().Patch(s.Context(), "team-a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			peer.tree(t, s)
			policy := s.RunBerth("import", peer.name, "--kubeconfig", "ADMIN")
			if policy != peer.policy {
				t.Fatalf("the imported policy is\n%s\nwant\n%s", policy, peer.policy)
			}
			s.RunBerth("check", s.WriteFile("imported.yaml", policy))

			s.WritePolicy(policy)
			s.AllBound(s.Pod("of-its-namespace").Namespace("team-a").GPUs(1).Create(), peer.mark(s.Pod("by-name").GPUs(1)).Create())
			over := s.WhyIs(s.Pod("over").Namespace("team-a").GPUs(1).Create(), "WaitingForQuota")
			if !strings.Contains(over.Raw, `"queue":"alpha"`) {
				t.Errorf("it waits for another queue: %s", over.Raw)
			}
		})
	}
}

// Who may not list a project's queues, or the namespaces that they are for, is
// told so and gets no policy, least of all one without the tenants. Where the
// project is not installed there is nothing to import, which is said too.
func TestImportWithoutRights(t *testing.T) {
	for _, peer := range []struct {
		name  string
		kinds []crd
		rest  string // what is read besides
		none  string
	}{
		{"kueue", []crd{kueueClusterQueue, kueueLocalQueue}, "localqueues.kueue.x-k8s.io", "no ClusterQueue of kueue.x-k8s.io"},
		{"volcano", []crd{volcanoQueue}, "namespaces", "no Queue of scheduling.volcano.sh"},
		{"kai", []crd{kaiQueue}, "topologies.kai.scheduler", "no Queue of scheduling.run.ai"},
	} {
		t.Run(peer.name, func(t *testing.T) {
			s := control.Scenario(t, bed.Options{})
			account := s.Account("default", "importer")
			kubeconfig := account.Kubeconfig()
			fails := func(what, kubeconfig string, code int, says string) {
				t.Helper()
				bed.Eventually(t, bed.Timeout, what, func() error {
					out, got := s.TryBerth("import", peer.name, "--kubeconfig", kubeconfig)
					said := got == code && strings.HasPrefix(out, "berth import: ") && strings.Contains(out, says) &&
						!strings.Contains(out, "PolicyConfiguration")
					return bed.Unless(said, "exit code %d, %s", got, out)
				})
			}
			fails("the project is not installed", "ADMIN", 1, "the cluster: "+peer.none)
			for _, kind := range peer.kinds {
				kind.install(t, s)
			}
			fails("there are no queues", "ADMIN", 1, "the cluster: "+peer.none)

			queues := peer.kinds[0]
			queues.create(t, s, "", "alpha", map[string]any{"weight": 1})
			forbidden := func(resource string) string {
				return resource + ` is forbidden: User "system:serviceaccount:default:importer" cannot list resource`
			}
			fails("no rights", kubeconfig, 3, forbidden(queues.name()))
			account.May(s.ClusterRole("queues-only", rbacv1.PolicyRule{APIGroups: []string{queues.group}, Resources: []string{queues.plural}, Verbs: []string{"list"}}))
			fails("rights to the queues alone", kubeconfig, 3, forbidden(peer.rest))
			account.May(s.ClusterRole("all-of-it", rbacv1.PolicyRule{APIGroups: []string{queues.group, "kai.scheduler", ""}, Resources: []string{"*"}, Verbs: []string{"list"}}))
			bed.Eventually(t, bed.Timeout, "the rights suffice", func() error {
				out, code := s.TryBerth("import", peer.name, "--kubeconfig", kubeconfig)
				return bed.Unless(code == 0 && strings.Contains(out, `- name: "alpha"`), "exit code %d, %s", code, out)
			})
		})
	}
}
