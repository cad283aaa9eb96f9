package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"berth.dev/tests/e2e/suite/bed"
)

const overlayFolder = "../../../manifests/overlays"

// over makes a folder of an overlay and more lines of a kustomization, in which
// MANIFESTS stands for their folder.
func over(t *testing.T, overlay, more string) string {
	t.Helper()
	folder := t.TempDir()
	relative := func(path string) string {
		absolute, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		from, err := filepath.EvalSymlinks(folder)
		if err != nil {
			t.Fatal(err)
		}
		short, err := filepath.Rel(from, absolute)
		if err != nil {
			t.Fatal(err)
		}
		return short
	}
	text := fmt.Sprintf("resources: [%s]\n%s", relative(overlay), strings.ReplaceAll(more, "MANIFESTS", relative("../../../manifests")))
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Changes to an overlay that its head names: for a Kubernetes that has no
// MutatingAdmissionPolicy, and for Services of IPv6.
const (
	withoutGate = "components: [MANIFESTS/components/gate-in-template]\n"
	withIPv6    = `patches:
- target: {kind: Service, name: berth}
  patch: |
    - {op: replace, path: /spec/clusterIP, value: "fd00:10:96::c8"}
`
)

// install renders an overlay and applies it, as `kubectl apply -k` does, until
// the test ends; what the bed installs itself stays.
func install(t *testing.T, s *bed.Scenario, overlay string) []object {
	t.Helper()
	gated := servesGate(t)
	folder := filepath.Join(overlayFolder, overlay)
	if !gated {
		folder = over(t, folder, withoutGate)
	}
	if overlay == "kubeadm" && bed.IPv6() {
		folder = over(t, folder, withIPv6)
	}
	rendered, err := bed.Render(folder)
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
	untilInForce(t, gated, gates(s))
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

// issuers sign for both sides: Berth believes clients', kube-scheduler servers'.
type issuers struct{ servers, clients *bed.Issuer }

func newIssuers(s *bed.Scenario) issuers { return issuers{bed.NewIssuer(s.T), bed.NewIssuer(s.T)} }

// startBerth runs the only replica of Berth with its shipped flags under its
// account's own token, and returns where its verbs are.
func startBerth(t *testing.T, s *bed.Scenario, tls issuers, berth *appsv1.Deployment) string {
	t.Helper()
	pod := replica(t, s, berth)
	verbs, ops := s.Ports()
	health := s.FreePort()
	args := slices.Clone(berth.Spec.Template.Spec.Containers[0].Args)
	if !bed.IPv6() { // where loopback is all that there is
		for i, arg := range args {
			args[i] = strings.Replace(arg, "listen=:", "listen=127.0.0.1:", 1) // of every address, loopback
		}
	}
	s.Container(berth.Name, args,
		"/etc/berth/tls", s.Secret("berth-tls", tls.servers, "berth.berth-system.svc", tls.clients),
		":8443", fmt.Sprintf(":%d", verbs), ":9090", fmt.Sprintf(":%d", ops), ":8081", fmt.Sprintf(":%d", health)).
		Env("POD_NAME="+pod.Name, "POD_NAMESPACE="+pod.Namespace).
		Start(s.Berth(), bed.Loopback("http", health, "/readyz"), "--kubeconfig", s.AccountKubeconfig(pod.Namespace, "berth"))
	return bed.Loopback("https", verbs, "")
}

// startSecondScheduler runs what the second-scheduler install consists of, one
// replica of each, with the shipped flags, configuration, accounts and
// certificates.
func startSecondScheduler(t *testing.T, s *bed.Scenario, objects []object) {
	t.Helper()
	var berth, scheduler appsv1.Deployment
	var config corev1.ConfigMap
	pick(t, objects, "Deployment", "berth", &berth)
	pick(t, objects, "Deployment", "berth-scheduler", &scheduler)
	pick(t, objects, "ConfigMap", "berth-scheduler-config", &config)
	volumes := scheduler.Spec.Template.Spec.Volumes
	if len(volumes) != 2 || volumes[0].ConfigMap == nil || volumes[0].ConfigMap.Name != config.Name {
		t.Errorf("the scheduler's volumes are %+v", volumes)
	}

	replica(t, s, &scheduler)
	tls := newIssuers(s)
	port, verbs := s.FreePort(), startBerth(t, s, tls, &berth)
	text := s.Replace("the scheduler's configuration", config.Data["kube-scheduler-config.yaml"],
		"clientConnection:", "clientConnection:\n  kubeconfig: "+s.AccountKubeconfig(bed.SystemNamespace, "berth-scheduler"),
		"https://berth.berth-system.svc:443", verbs,
		"/etc/berth-scheduler/tls", s.Secret("berth-scheduler-tls", tls.clients, "berth-scheduler", tls.servers))
	s.Container(scheduler.Name, scheduler.Spec.Template.Spec.Containers[0].Args,
		"/etc/berth-scheduler/config/kube-scheduler-config.yaml", s.WriteFile("second/kube-scheduler-config.yaml", text),
		"10259", fmt.Sprint(port)).
		Start(s.KubeScheduler(), bed.Loopback("https", port, "/readyz"), "--bind-address="+bed.LoopbackIP())
}

// A second scheduler, from nothing: with the shipped flags, configuration, rights
// and certificates, pods that name it are planned, bound and gated by Berth; the
// cluster's own scheduler, which nobody has touched, goes on with all others.
func TestSecondSchedulerFromNothing(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true, OpsTLS: true})
	s.Nodes(2).GPUs(8).Create()
	before := s.Pod("before").GPUs(2).Create()
	s.AllBound(before)

	objects := install(t, s, "second-scheduler")
	service, err := s.Client.CoreV1().Services(bed.SystemNamespace).Get(s.Context(), "berth", bed.GetOptions)
	if err != nil || !sameFamily(service.Spec.ClusterIP) {
		t.Errorf("the Service has the address %q, %v", service.Spec.ClusterIP, err)
	}
	startSecondScheduler(t, s, objects)

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

// kubeadmScheduler is the static pod that kubeadm writes (v1.36), its probes left
// out.
const kubeadmScheduler = `
apiVersion: v1
kind: Pod
metadata:
  labels: {component: kube-scheduler, tier: control-plane}
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-scheduler
    - --authentication-kubeconfig=/etc/kubernetes/scheduler.conf
    - --authorization-kubeconfig=/etc/kubernetes/scheduler.conf
    - --bind-address=127.0.0.1
    - --kubeconfig=/etc/kubernetes/scheduler.conf
    - --leader-elect=true
    image: registry.k8s.io/kube-scheduler:v1.36.3
    name: kube-scheduler
    volumeMounts:
    - {mountPath: /etc/kubernetes/scheduler.conf, name: kubeconfig, readOnly: true}
  hostNetwork: true
  priorityClassName: system-node-critical
  volumes:
  - {hostPath: {path: /etc/kubernetes/scheduler.conf, type: FileOrCreate}, name: kubeconfig}
`

// kubeadm's own scheduler, from nothing: its static pod, patched as kubeadm does,
// finds Berth at the Service's fixed address under the shipped configuration, and
// a gang of pods that name no scheduler starts through Berth.
func TestKubeadmFromNothing(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true, OpsTLS: true})
	s.StopScheduler() // as the kubelet does when the static pod changes
	s.Nodes(2).GPUs(8).Create()
	objects := install(t, s, "kubeadm")
	var berth appsv1.Deployment
	var service corev1.Service
	pick(t, objects, "Deployment", "berth", &berth)
	pick(t, objects, "Service", "berth", &service)
	if given, err := s.Client.CoreV1().Services(service.Namespace).Get(s.Context(), service.Name, bed.GetOptions); err != nil || given.Spec.ClusterIP != service.Spec.ClusterIP || given.Spec.ClusterIP == "" {
		t.Errorf("the Service has the address %+v, %v", given.Spec.ClusterIP, err)
	}

	patch, err := os.ReadFile(overlayFolder + "/kubeadm/patches/kube-scheduler+json.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pod := patched(t, kubeadmScheduler, patch)
	if mount := pod.Spec.Containers[0].VolumeMounts[1]; mount.Name != pod.Spec.Volumes[1].Name || mount.MountPath != pod.Spec.Volumes[1].HostPath.Path {
		t.Errorf("mounts %+v of %+v", mount, pod.Spec.Volumes[1])
	}

	tls := newIssuers(s)
	verbs := startBerth(t, s, tls, &berth)
	shipped, err := os.ReadFile(schedulerConfig)
	if err != nil {
		t.Fatal(err)
	}
	// What the overlay's text says of the file, and then what is elsewhere here.
	address := service.Spec.ClusterIP
	if bed.IPv6() {
		address = "[" + address + "]"
	}
	text := s.Replace("the shipped configuration", string(shipped), "berth.berth-system.svc:443", address+":443")
	text = s.Replace("the shipped configuration", text,
		"https://"+address+":443", verbs,
		"/etc/kubernetes/scheduler.conf", s.SchedulerKubeconfig(),
		"/etc/kubernetes/berth", s.Secret("host", tls.clients, "system:kube-scheduler", tls.servers))
	port := s.FreePort()
	command := pod.Spec.Containers[0].Command
	s.Container("kube-scheduler", command[1:],
		"/etc/kubernetes/berth/kube-scheduler-config.yaml", s.WriteFile("host/kube-scheduler-config.yaml", text),
		"/etc/kubernetes/scheduler.conf", s.SchedulerKubeconfig(), "--bind-address=127.0.0.1", "--bind-address="+bed.LoopbackIP()).
		Start(s.KubeScheduler(), bed.Loopback("https", port, "/readyz"), fmt.Sprintf("--secure-port=%d", port))

	gang := s.Pod("g").GPUs(4).Gang("g", 4).CreateN(4)
	late := s.Pod("late").GPUs(4).Gang("late", 2).CreateN(2)
	s.AllBound(append(gang, s.Pod("plain").Create())...)
	if s.Now(gang[0]).Annotations["berth.dev/plan"] == "" {
		t.Error("not bound by Berth")
	}
	s.WhyIs(late[0], "InsufficientDevices")
	s.NoneBound(late...)
	s.DeleteNow(gang...)
	s.AllBound(late...)
}

// With a scheduler that nobody has touched, from nothing: gangs are let go whole,
// in their queue's limit and onto their planned nodes, and single device pods wait
// for their turn.
func TestManagedFromNothing(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true, OpsTLS: true})
	s.Nodes(2).GPUs(8).Create()
	objects := install(t, s, "managed")
	var berth appsv1.Deployment
	pick(t, objects, "Deployment", "berth", &berth)
	container := berth.Spec.Template.Spec.Containers[0]
	if len(container.Ports) != 2 || !slices.Contains(container.Args, "--listen=127.0.0.1:8443") {
		t.Errorf("ports %+v, arguments %q", container.Ports, container.Args)
	}
	startBerth(t, s, newIssuers(s), &berth)

	byTemplate := !servesGate(t)
	// Two of the gangs have room; neither takes the other's half of it.
	var gangs [][]*corev1.Pod
	for _, name := range []string{"a", "b", "c"} {
		gangs = append(gangs, s.Pod(name).GPUs(2).Gang(name, 4).GatedIf(byTemplate).CreateN(4))
	}
	s.AllBound(append(gangs[0], gangs[1]...)...)
	for _, pod := range append(gangs[0], gangs[1]...) {
		if node := s.NodeOf(pod); node != s.Nominated(pod) {
			t.Errorf("%s was nominated to %q and runs on %q", pod.Name, s.Nominated(pod), node)
		}
	}
	s.NoneBound(gangs[2]...)
	s.WhyIs(gangs[2][0], "InsufficientDevices")
	s.DeleteNow(gangs[0]...)
	s.AllBound(gangs[2]...)

	one := s.Pod("one").GPUs(1).GatedIf(byTemplate).Create()
	if got := gatesOf(one); !slices.Equal(got, []string{bed.AdmissionGate}) {
		t.Errorf("a device pod without any label has the gates %v", got)
	}
	s.WhyIs(one, "InsufficientDevices")
	s.NoneBound(one)
	s.DeleteNow(gangs[1][0])
	s.AllBound(one)
}

// patched applies a JSON patch, both in YAML, as kubeadm does to a static pod.
func patched(t *testing.T, manifest string, patch []byte) (pod corev1.Pod) {
	t.Helper()
	object, err := yaml.ToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	if patch, err = yaml.ToJSON(patch); err != nil {
		t.Fatal(err)
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	if object, err = operations.Apply(object); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(object, &pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// The second scheduler's extender entry is the shipped one but for its files.
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
