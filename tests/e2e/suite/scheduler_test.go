package suite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"berth.dev/tests/e2e/suite/bed"
	"berth.dev/tests/e2e/suite/internal/stub"
)

// With kube-scheduler's default sampling, which at 400 nodes offers fewer than
// half of them, a gang still gets the one rack of 100 that has room for it.
func TestDefaultSamplingFindsTheOneRack(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{Policy: racks, Sampling: bed.DefaultSampling})
		s.Nodes(400).GPUs(8).Racks(4).Create()
		const free = 77
		for i := range 100 {
			if i != free {
				s.Pod(fmt.Sprintf("b-%d", i)).GPUs(2).Scheduler("elsewhere").On(fmt.Sprintf("node-%03d", 4*i)).Create()
			}
		}
		gang := s.Pod("g").GPUs(2).Gang("g", 16).Within("rack").GatedIf(gated).CreateN(16)
		s.AllBoundWithin(2*bed.Timeout, gang...)
		for node, n := range s.NodesOf(gang) {
			var i int
			if _, err := fmt.Sscanf(node, "node-%d", &i); err != nil || i/4 != free {
				t.Errorf("%d members on %s", n, node)
			}
		}
	})
}

// Under default sampling a stream of single pods fills 400 nodes to the last GPU.
func TestDefaultSamplingFillsTheCluster(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{Sampling: bed.DefaultSampling})
		s.Nodes(400).GPUs(2).Create()
		s.AllBoundWithin(2*time.Minute, s.Pod("p").GPUs(1).GatedIf(gated).CreateN(800)...)
	})
}

// hiddenRule makes kube-scheduler refuse nodes for a reason that no planner
// outside of it can know: affinity that its own configuration adds to all pods.
const hiddenRule = `profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeAffinity
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeAffinityArgs
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions:
            - {key: closed.test, operator: DoesNotExist}
`

// A gang member that kube-scheduler's own filters refuse on its planned node is
// planned again, elsewhere.
func TestRefusedMemberIsReplanned(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{Policy: racks, SchedulerConfig: hiddenRule})
		s.Nodes(2).Prefix("a").GPUs(8).Label("closed.test", "true").Create()
		s.Nodes(2).Prefix("b").GPUs(8).Create()
		gang := s.Pod("g").GPUs(8).Gang("g", 2).GatedIf(gated).CreateN(2)
		s.AllBoundWithin(2*bed.Timeout, gang...)
		single := s.Pod("single").GPUs(8).GatedIf(gated).Create()
		s.NoneBound(single)
		s.DeleteNow(gang[0])
		s.AllBoundWithin(3*bed.Timeout, single)
	})
}

// A gang for which kube-scheduler leaves no plan says so, and holds no room that
// others could use.
func TestGangRefusedBySchedulerHoldsNothing(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{Policy: racks, SchedulerConfig: hiddenRule})
		s.Nodes(1).Prefix("a").GPUs(8).Label("closed.test", "true").Create()
		s.Nodes(1).Prefix("b").GPUs(8).Create()
		gang := s.Pod("g").GPUs(8).Gang("g", 2).GatedIf(gated).CreateN(2)
		s.WhyIs(gang[0], "RefusedByScheduler", "CoolingDown")
		s.AllBoundWithin(2*bed.Timeout, s.Pod("single").GPUs(4).CreateN(2)...)
		s.NoneBound(gang...)
	})
}

// A gang member whose volume can never be bound hangs inside kube-scheduler and
// does not reach the barrier. Its gang starts nobody, and its room serves others.
func TestUnbindableVolumeStopsOnlyItsGang(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: racks})
	s.Nodes(2).GPUs(8).Create()
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	_, err := s.Client.StorageV1().StorageClasses().Create(s.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "never"}, Provisioner: "test.invalid/never", VolumeBindingMode: &mode,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	class := "never"
	_, err = s.Client.CoreV1().PersistentVolumeClaims("default").Create(s.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stuck := s.Pod("stuck").GPUs(4).Gang("g", 4).Claim("data").Create()
	gang := append(s.Pod("g").GPUs(4).Gang("g", 4).CreateN(3), stuck)
	// kube-scheduler itself keeps the stuck member's four GPUs; twelve are left.
	s.AllBoundWithin(2*time.Minute, s.Pod("other").GPUs(4).CreateN(3)...)
	if n := s.EverBound(gang...); n != 0 {
		t.Errorf("%d members of an incomplete gang were bound", n)
	}
}

// boundClaim creates a claim that is bound to a volume, as the controllers leave it.
func boundClaim(t *testing.T, s *bed.Scenario, name string) {
	t.Helper()
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim, err := s.Client.CoreV1().PersistentVolumeClaims("default").Create(s.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(string), VolumeName: name, AccessModes: once,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Client.CoreV1().PersistentVolumes().Create(s.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: once,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: name, UID: claim.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Client.CoreV1().PersistentVolumes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// Nobody is evicted for a pod whose volume claim or resource claim does not
// exist: kube-scheduler would not place it. For one whose claim exists others are.
func TestNobodyIsEvictedForPodsWithoutTheirClaims(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.PriorityClass("high", 100_000)
	s.Nodes(2).GPUs(8).Create()
	low := s.Pod("low").GPUs(8).CreateN(2)
	s.AllBound(low...)

	volume := s.Pod("volume").GPUs(8).Priority("high").Gang("volume", 2).Claim("missing").Gated().CreateN(2)
	devices := s.Pod("devices").GPUs(8).Priority("high").ClaimTemplate("missing").Gated().Create()
	for pod, what := range map[*corev1.Pod]string{volume[0]: "PersistentVolumeClaim missing", devices: "ResourceClaimTemplate missing"} {
		bed.Eventually(t, bed.Timeout, "why "+pod.Name+" names what is missing", func() error {
			why, err := s.Why(pod)
			if err != nil {
				return err
			}
			return bed.Unless(strings.Contains(why.Raw, "its pods name the "+what), "%s", why.Raw)
		})
	}
	s.StayBound(low...)
	s.NoneBound(append(volume, devices)...)

	boundClaim(t, s, "data")
	s.AllBound(s.Pod("other").GPUs(8).Priority("high").Claim("data").Gated().Create())
	if s.Evicted(low[0]) == s.Evicted(low[1]) {
		t.Error("not exactly one pod was evicted")
	}
}

// Upstream's own integration case with Berth in the middle of three extenders:
// the first and the last filter and score, Berth filters by its devices and
// binds. The pod lands where the others' scores point, within what Berth allows.
func TestAmongOtherExtenders(t *testing.T) {
	const device = "foo.com/bar"
	machine := func(i int) string { return fmt.Sprintf("machine-%03d", i) }
	for _, c := range []struct {
		returned int
		want     []string
	}{
		{5, []string{machine(1)}},             // the others' scores choose
		{1, []string{machine(1), machine(2)}}, // Berth chooses
	} {
		t.Run(fmt.Sprintf("maxNodesReturned %d", c.returned), func(t *testing.T) {
			accept := func(node string) bool { return slices.Contains([]string{machine(0), machine(1), machine(2)}, node) }
			first := (&stub.Extender{Accept: accept, Score: scoreOf(machine(1), 10)}).Start()
			defer first.Close()
			last := (&stub.Extender{Accept: accept, Score: scoreOf(machine(1), 50)}).Start()
			defer last.Close()
			s := control.Scenario(t, bed.Options{
				Policy: fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
resources:
  devices:
  - {name: %s}
placement:
  maxNodesReturned: %d
`, device, c.returned),
				Extenders: func(berth string) []configv1.Extender {
					middle := bed.BerthExtender(berth, bed.Options{HTTPTimeout: bed.Timeout})
					middle.Weight = 4
					middle.ManagedResources = []configv1.ExtenderManagedResource{{Name: device, IgnoredByScheduler: true}}
					return []configv1.Extender{
						{URLPrefix: first.URL(), FilterVerb: "filter", PrioritizeVerb: "prioritize", Weight: 3},
						middle,
						{URLPrefix: last.URL(), FilterVerb: "filter", PrioritizeVerb: "prioritize", Weight: 10, NodeCacheCapable: true},
					}
				},
			})
			s.Nodes(5).Prefix("machine").Create()
			for _, i := range []int{1, 2, 4} {
				s.SetCapacity(machine(i), device, 1)
			}
			pod := s.Pod("one").Resource(device, "1").Create()
			s.AllBound(pod)
			if node := s.NodeOf(pod); !slices.Contains(c.want, node) {
				t.Errorf("the pod runs on %s", node)
			}
			s.Delete(pod)
			s.AllGone(pod)
		})
	}
}

func scoreOf(preferred string, score int64) func(string) int64 {
	return func(node string) int64 {
		if node == preferred {
			return score
		}
		return 0
	}
}
