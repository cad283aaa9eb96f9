package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/tests/e2e/suite/bed"
)

const overlayFolder = "../../../manifests/overlays"

// install renders an overlay and applies it, as `kubectl apply -k` does, until
// the test ends; what the bed installs itself stays.
func install(t *testing.T, s *bed.Scenario, overlay string) []object {
	t.Helper()
	rendered, err := bed.Render(filepath.Join(overlayFolder, overlay))
	if err != nil {
		t.Fatal(err)
	}
	objects := readFile(t, s.WriteFile(overlay+".yaml", string(rendered)))
	kept := map[string]bool{"Namespace berth-system": true}
	for _, o := range readFile(t, baseFolder+"/rbac.yaml") {
		kept[o.GetKind()+" "+o.GetName()] = o.GetKind() != "ServiceAccount"
	}
	apply := newApplier(t)
	t.Cleanup(func() {
		// The namespace of the bed is not held to a standard.
		patch := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":null}}}`
		if _, err := s.Client.CoreV1().Namespaces().Patch(s.Context(), bed.SystemNamespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
		for _, o := range objects {
			if kept[o.GetKind()+" "+o.GetName()] {
				continue
			}
			if err := apply.delete(s.Context(), o); err != nil {
				t.Errorf("%s: %v", o, err)
			}
		}
		untilInForce(t, false, gates(s))
		untilInForce(t, false, apart(t, s))
	})
	for _, o := range objects {
		if err := apply.apply(s.Context(), o, false); err != nil {
			t.Fatalf("%s: %v", o, err)
		}
	}
	untilInForce(t, true, gates(s))
	untilInForce(t, true, apart(t, s))
	return objects
}

// replica makes a Deployment's pod as its controller would, in a namespace that
// holds it to its standard; the process runs here.
func replica(t *testing.T, s *bed.Scenario, deployment *appsv1.Deployment) *corev1.Pod {
	t.Helper()
	template := deployment.Spec.Template
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: deployment.Name + "-0", Namespace: deployment.Namespace, Labels: template.Labels},
		Spec:       template.Spec,
	}
	pod.Spec.NodeName = "elsewhere"
	pod, err := s.Client.CoreV1().Pods(pod.Namespace).Create(s.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// pick is the only object of a kind with a name, or with a name that starts so.
func pick(t *testing.T, objects []object, kind, name string, into any) {
	t.Helper()
	i := slices.IndexFunc(objects, func(o object) bool {
		return o.GetKind() == kind && (o.GetName() == name || strings.HasPrefix(o.GetName(), name+"-") && kind == "ConfigMap")
	})
	if i < 0 {
		t.Fatalf("no %s %s", kind, name)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[i].Object, into, true); err != nil {
		t.Fatalf("%s: %v", objects[i], err)
	}
}

// A second scheduler, from nothing: with the shipped flags, configuration, rights
// and certificates, pods that name it are planned, bound and gated by Berth; the
// cluster's own scheduler, which nobody has touched, goes on with all others.
func TestSecondSchedulerFromNothing(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true})
	s.Nodes(2).GPUs(8).Create()
	before := s.Pod("before").GPUs(2).Create()
	s.AllBound(before)

	objects := install(t, s, "second-scheduler")
	var berth, scheduler appsv1.Deployment
	var config corev1.ConfigMap
	pick(t, objects, "Deployment", "berth", &berth)
	pick(t, objects, "Deployment", "berth-scheduler", &scheduler)
	pick(t, objects, "ConfigMap", "berth-scheduler-config", &config)
	volumes := scheduler.Spec.Template.Spec.Volumes
	if len(volumes) != 2 || volumes[0].ConfigMap == nil || volumes[0].ConfigMap.Name != config.Name {
		t.Errorf("the scheduler's volumes are %+v", volumes)
	}

	servers, clients := s.Issuer("servers"), s.Issuer("clients")
	verbs, ops := s.Ports()
	replica(t, s, &scheduler)
	pod := replica(t, s, &berth)
	s.Container(&berth,
		"/etc/berth/tls", servers.Secret("berth-tls", "berth.berth-system.svc", clients),
		"0.0.0.0:8443", fmt.Sprintf("127.0.0.1:%d", verbs), "0.0.0.0:9090", fmt.Sprintf("127.0.0.1:%d", ops)).
		Env("POD_NAME="+pod.Name, "POD_NAMESPACE="+pod.Namespace).
		Start(s.Berth(), bed.Loopback("http", ops, "/readyz"), "--kubeconfig", s.AccountKubeconfig(bed.SystemNamespace, "berth"))

	port := s.FreePort()
	text := config.Data["kube-scheduler-config.yaml"]
	for _, pair := range [][2]string{
		{"clientConnection:", "clientConnection:\n  kubeconfig: " + s.AccountKubeconfig(bed.SystemNamespace, "berth-scheduler")},
		{"https://berth.berth-system.svc:443", bed.Loopback("https", verbs, "")},
		{"/etc/berth-scheduler/tls", clients.Secret("berth-scheduler-tls", "berth-scheduler", servers)},
	} {
		if !strings.Contains(text, pair[0]) {
			t.Fatalf("no %q in the scheduler's configuration", pair[0])
		}
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	s.Container(&scheduler,
		"/etc/berth-scheduler/config/kube-scheduler-config.yaml", s.WriteFile("second/kube-scheduler-config.yaml", text),
		"10259", fmt.Sprint(port)).
		Start(s.KubeScheduler(), bed.Loopback("https", port, "/readyz"), "--bind-address=127.0.0.1")

	// 14 GPUs are left: one gang fits, the next one waits whole, gated.
	mine := func(name string) *bed.PodBuilder {
		return s.Pod(name).GPUs(2).Scheduler("berth").Queue("default")
	}
	gang := mine("g").Gang("g", 5).CreateN(5)
	s.AllBound(gang...)
	for _, pod := range gang {
		if s.Now(pod).Annotations["berth.dev/plan"] == "" {
			t.Errorf("%s was not bound by Berth", pod.Name)
		}
	}
	late := mine("late").Gang("late", 5).CreateN(5)
	s.WhyIs(late[0], "InsufficientDevices")

	// The cluster's scheduler takes what is its own, GPUs too, ungated.
	after := s.Pod("after").GPUs(2).Queue("default").Create()
	s.AllBound(after)
	if pod := s.Now(after); len(pod.Annotations) > 0 {
		t.Errorf("Berth has written on another scheduler's pod: %v", pod.Annotations)
	}
	s.NoneBound(late...)
	s.DeleteNow(append(gang, after)...)
	s.AllBound(late...)

	lease, err := s.Client.CoordinationV1().Leases(bed.SystemNamespace).Get(s.Context(), "berth-scheduler", bed.GetOptions)
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Errorf("the second scheduler's Lease: %+v, %v", lease, err)
	}

	// Device pods are held to Berth in namespaces that are marked for it.
	s.Namespace("team-a")
	elsewhere := s.Pod("p").Namespace("team-a").GPUs(1)
	if _, err := dryRun(s, elsewhere.Build()); err != nil {
		t.Errorf("in a namespace that is not marked: %v", err)
	}
	patch := `{"metadata":{"labels":{"berth.dev/devices-through-berth":"true"}}}`
	if _, err := s.Client.CoreV1().Namespaces().Patch(s.Context(), "team-a", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	bed.Eventually(t, bed.Timeout, "device pods are held to Berth", func() error {
		_, err := dryRun(s, elsewhere.Build())
		return bed.Unless(apierrors.IsForbidden(err) && strings.Contains(err.Error(), "set spec.schedulerName to berth,"), "%v", err)
	})
}

// Each overlay's files are all in use, and its extender entry is the shipped one
// but for where Berth is.
func TestOverlaysFitTogether(t *testing.T) {
	shipped, err := os.ReadFile(schedulerConfig)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(overlayFolder + "/second-scheduler/kube-scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	entry := func(text []byte) (lines []string) {
		_, extenders, _ := strings.Cut(string(text), "\nextenders:\n")
		for _, line := range strings.Split(extenders, "\n") {
			line, _, _ = strings.Cut(line, "#")
			line = strings.TrimRight(line, " ")
			if line != "" && !strings.Contains(line, "File:") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	if got, want := entry(second), entry(shipped); len(want) < 15 || !slices.Equal(got, want) {
		t.Errorf("second-scheduler's extender entry is\n%s\nshipped is\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
