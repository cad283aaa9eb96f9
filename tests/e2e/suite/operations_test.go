package suite

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// Images that the page names.
const (
	firstImage = "registry.example.com/berth:0.1.0"
	nextImage  = "registry.example.com/berth:0.2.0"
)

// mine describes a pod of the second scheduler.
func (h *handbook) mine(namespace, name string) *bed.PodBuilder {
	return h.s.Pod(name).Namespace(namespace).GPUs(1).Scheduler("berth")
}

// kubectl runs a command that is not on the page.
func (h *handbook) kubectl(args ...string) string {
	h.t.Helper()
	command := exec.CommandContext(h.s.Context(), filepath.Join(h.dir, "bin", "kubectl"), args...)
	command.Dir, command.Env = h.dir, h.env
	out, err := command.CombinedOutput()
	if err != nil {
		h.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// heldToBerth waits until the API server refuses device pods of other schedulers
// in a namespace, or does not.
func (h *handbook) heldToBerth(namespace string, want bool) {
	h.t.Helper()
	probe := h.s.Pod("probe").Namespace(namespace).GPUs(1).Build()
	bed.Eventually(h.t, bed.Timeout, "device pods are held to Berth in "+namespace, func() error {
		_, err := dryRun(h.s, probe)
		return bed.Unless(apierrors.IsForbidden(err) == want, "%v", err)
	})
}

// eventually waits until a metric has a value on each replica.
func (h *handbook) eventually(series string, fine func(float64) bool) {
	h.t.Helper()
	bed.Eventually(h.t, bed.Timeout, series, func() error {
		for _, value := range h.eachReplica(series) {
			if !fine(value) {
				return bed.Unless(false, "%v", value)
			}
		}
		return nil
	})
}

func is(want float64) func(float64) bool { return func(got float64) bool { return got == want } }

// The life of an installation in the order of docs/operations.md, from nothing to
// nothing, beside a scheduler that nobody has touched.
func TestOperationsFromInstallToUninstall(t *testing.T) {
	h := openHandbook(t, map[string]string{firstImage: berthProgram(t)})
	h.s.Namespace("team-a")
	h.s.Namespace("team-b")
	h.s.Nodes(4).GPUs(8).Create()
	running := []*corev1.Pod{h.s.Pod("before").Namespace("team-a").GPUs(2).Create()}
	h.s.AllBound(running...)
	h.install()
	running = append(running, h.s.Pod("elsewhere").Namespace("team-a").GPUs(1).Create())
	h.s.AllBound(running...)

	gang, next := h.canary()
	h.policy(next)
	h.queues(append(gang, next))
	h.renewCertificates()
	h.breakGlass()
	h.backup()
	h.uninstall(running)
}

// canary brings in one namespace, then another. It leaves a gang that fills its
// queue's limit, and a pod that waits behind it.
func (h *handbook) canary() (gang []*corev1.Pod, next *corev1.Pod) {
	h.t.Helper()
	h.heldToBerth("team-a", false)
	h.run("canary")
	h.heldToBerth("team-a", true)
	h.heldToBerth("team-b", false)
	gang = h.mine("team-a", "g").GPUs(2).Gang("g", 4).CreateN(4)
	h.s.AllBound(gang...)
	if h.s.Now(gang[0]).Annotations["berth.dev/plan"] == "" {
		h.t.Error("not bound by Berth")
	}
	next = h.mine("team-a", "next").GPUs(4).Queue("team-a").Create()
	h.s.WhyIs(next, "WaitingForQuota")
	h.s.NoneBound(next)

	h.run("widen")
	h.heldToBerth("team-b", true)
	h.s.AllBound(h.mine("team-b", "b").Create())
	return gang, next
}

// policy raises a limit, and then fails to bring in a mistake.
func (h *handbook) policy(next *corev1.Pod) {
	h.t.Helper()
	const reload = "berth_policy_last_reload_successful"
	h.run("policy")
	h.s.AllBound(next)

	file := filepath.Join(h.dir, "cluster", "policy.yaml")
	good, err := os.ReadFile(file)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write("cluster/policy.yaml", string(good)+"queeus: []\n")
	out, err := h.try("policy")
	if err == nil {
		h.t.Error("a policy with a mistake goes through")
	}
	contains(h.t, "berth check", out, "cluster/policy.yaml:", "queeus")
	h.eventually(reload, is(1))

	h.kubectl("apply", "-k", "cluster")
	h.eventually(reload, is(0))
	bed.Eventually(h.t, bed.Timeout, "an Event says so", func() error {
		out := h.run("policy-refused")
		return bed.Unless(strings.Contains(out, "queeus"), "%s", out)
	})
	h.write("cluster/policy.yaml", string(good))
	h.kubectl("apply", "-k", "cluster")
	h.eventually(reload, is(1))
}

// queues renames a queue under running work, of 12 GPUs.
func (h *handbook) queues(running []*corev1.Pod) {
	h.t.Helper()
	used := func(queue string, want float64) {
		h.t.Helper()
		bed.Eventually(h.t, bed.Timeout, "what "+queue+" uses", func() error {
			leader, _ := h.s.Leader()
			metrics, err := leader.Metrics()
			got, _ := metrics.Sum("berth_queue_used", `queue="`+queue+`"`)
			return bed.Unless(err == nil && got == want, "%v, %v", got, err)
		})
	}
	used("team-a", 12)
	h.run("queues")
	fresh := h.mine("team-a", "fresh").Create()
	h.s.AllBound(fresh)
	used("team-a-train", 1)
	used("team-a", 12)
	old := h.mine("team-a", "old").Queue("team-a").Create()
	h.s.WhyIs(old, "ExceedsLimit")
	h.s.StayBound(running...)

	h.s.DeleteNow(running...)
	used("team-a", 0)
	h.run("queue-removed")
	h.s.WhyIs(old, "UnknownQueue")
	h.s.StayBound(fresh)
	used("team-a-train", 1)
	h.s.DeleteNow(old)
}

// renewCertificates renews both sides', one after the other.
func (h *handbook) renewCertificates() {
	h.t.Helper()
	const expiry = `berth_tls_certificate_expiry_timestamp_seconds{listener="verbs"}`
	before := h.eachReplica(expiry)[0]
	h.run("berth-certificate")
	h.eventually(expiry, func(now float64) bool { return now > before })
	h.s.AllBound(h.mine("team-b", "after-berths").Create())
	h.run("scheduler-certificate")
	h.s.AllBoundWithin(2*bed.Timeout, h.mine("team-b", "after-schedulers").Create())
}

// waiting makes a part of a gang, which waits for the rest, gated.
func (h *handbook) waiting(name string) []*corev1.Pod {
	h.t.Helper()
	pods := h.mine("team-b", name).Gang(name, 100).CreateN(2)
	for _, pod := range pods {
		if len(pod.Spec.SchedulingGates) == 0 {
			h.t.Errorf("%s came without a gate", pod.Name)
		}
	}
	h.s.WhyIs(pods[0], "WaitingForMembers")
	h.s.NoneBound(pods...)
	return pods
}

// breakGlass has pods started that Berth would hold, with its help and without.
func (h *handbook) breakGlass() {
	h.t.Helper()
	first := h.waiting("first")
	h.run("passthrough")
	h.s.AllBound(first...)
	h.run("enforce")
	second := h.waiting("second")
	h.withoutBerth(second)
	h.run("with-berth")
	untilInForce(h.t, true, gates(h.s))
	h.s.AllBound(h.mine("team-b", "second-late").Gang("second", 100).Create()) // its gang has started
	h.waiting("third")
}

// withoutBerth takes Berth out of the way of pods that wait, and of new ones.
func (h *handbook) withoutBerth(waiting []*corev1.Pod) {
	h.t.Helper()
	h.run("without-berth")
	h.s.AllBoundWithin(2*bed.Timeout, waiting...)
	bed.Eventually(h.t, bed.Timeout, "no replica is left", func() error {
		n := len(h.s.Deployed.Berths())
		return bed.Unless(n == 0, "%d run", n)
	})
	untilInForce(h.t, false, gates(h.s))
	pod := h.mine("team-b", "free").Queue("team-b").Create()
	h.s.AllBound(pod)
	h.s.DeleteNow(pod)
}

func (h *handbook) backup() {
	h.t.Helper()
	h.run("backup")
	for file, want := range map[string]string{"policy-backup.yaml": "cluster/policy.yaml"} {
		got, err := os.ReadFile(filepath.Join(h.dir, file))
		if err != nil {
			h.t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(h.dir, want))
		if err != nil || string(text) != string(got) {
			h.t.Errorf("%s is\n%s\n%s is\n%s%v", file, got, want, text, err)
		}
	}
}

// uninstall leaves pods that run, and nothing of Berth's.
func (h *handbook) uninstall(running []*corev1.Pod) {
	h.t.Helper()
	last := h.waiting("last")
	h.withoutBerth(last)
	bed.Eventually(h.t, bed.Timeout, "no pod waits", func() error {
		out := strings.TrimSpace(h.run("still-waiting"))
		return bed.Unless(out == "", "%s", out)
	})
	contains(h.t, "uninstall", h.run("uninstall"), "0 pod(s) ungated, 0 failed")
	kinds := "clusterroles,clusterrolebindings,roles,rolebindings,deployments,services,configmaps," +
		"networkpolicies,poddisruptionbudgets,serviceaccounts,flowschemas,prioritylevelconfigurations," +
		"mutatingadmissionpolicies,mutatingadmissionpolicybindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
	if left := h.kubectl("get", kinds, "-A", "-l", "app.kubernetes.io/part-of=berth", "-o", "name"); left != "" {
		h.t.Errorf("left behind: %s", left)
	}
	if _, err := h.s.Client.CoreV1().Namespaces().Get(h.s.Context(), bed.SystemNamespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		h.t.Errorf("the namespace: %v", err)
	}
	h.heldToBerth("team-a", false)
	h.s.StayBound(append(running, last...)...)
	h.s.AllBound(h.s.Pod("after").Namespace("team-a").GPUs(1).Queue("team-a").Create())
}

func berthProgram(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(os.Getenv("BERTH_BIN"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
