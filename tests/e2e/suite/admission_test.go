package suite

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"berth.dev/tests/e2e/suite/bed"
)

// dryRun creates a pod without keeping it and returns what the API server made
// of it.
func dryRun(s *bed.Scenario, pod *corev1.Pod) (*corev1.Pod, error) {
	return s.Client.CoreV1().Pods(pod.Namespace).Create(s.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func gatesOf(pod *corev1.Pod) (gates []string) {
	for _, gate := range pod.Spec.SchedulingGates {
		gates = append(gates, gate.Name)
	}
	slices.Sort(gates)
	return gates
}

// Files of admission policies.
const (
	gatePolicy     = baseFolder + "/admission.yaml"
	tenantPolicies = baseFolder + "/tenants.yaml"
)

// enforce puts a file's admission policies into force until the test ends. Both
// ends take the API server a few seconds, which are waited for: no later test may
// meet them. inForce says whether the last one is.
func enforce(t *testing.T, s *bed.Scenario, file string, inForce func() (bool, error)) {
	t.Helper()
	apply, objects := newApplier(t), readFile(t, file)
	t.Cleanup(func() {
		for _, o := range objects {
			if err := apply.delete(s.Context(), o); err != nil {
				t.Errorf("%s: %v", o, err)
			}
		}
		untilInForce(t, false, inForce)
	})
	for _, o := range objects {
		if err := apply.apply(s.Context(), o, false); err != nil {
			t.Fatalf("%s: %v", o, err)
		}
	}
	untilInForce(t, true, inForce)
}

func untilInForce(t *testing.T, want bool, inForce func() (bool, error)) {
	t.Helper()
	bed.Eventually(t, bed.Timeout, fmt.Sprintf("admission policies in force: %v", want), func() error {
		is, err := inForce()
		if err != nil {
			return err
		}
		return bed.Unless(is == want, "%v", is)
	})
}

// gates says whether the policy that gates pods is in force.
func gates(s *bed.Scenario) func() (bool, error) {
	return func() (bool, error) {
		pod, err := dryRun(s, s.Pod("probe").GPUs(1).Queue("default").Scheduler("berth").Build())
		return err == nil && len(gatesOf(pod)) > 0, err
	}
}

// servesGate says whether this Kubernetes knows the kind of policy that gates pods.
func servesGate(t *testing.T) bool {
	t.Helper()
	resources, err := control.Client.Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Kind == "MutatingAdmissionPolicy" })
}

// needsGate ends a test where it does not.
func needsGate(t *testing.T) {
	t.Helper()
	if !servesGate(t) {
		t.Skip("not run: MutatingAdmissionPolicy v1, of Kubernetes 1.36 and later, is not served")
	}
}

// admissionGate puts the policy that gates pods into force.
func admissionGate(t *testing.T, s *bed.Scenario) {
	t.Helper()
	needsGate(t)
	enforce(t, s, gatePolicy, gates(s))
}

// The shipped admission policy gates the pods that Berth releases, and no other:
// a gate that nobody takes off would hold its pod for ever.
func TestAdmissionPolicyGates(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true})
	s.Nodes(1).GPUs(8).Create()
	admissionGate(t, s)

	const ours, foreign = bed.AdmissionGate, "example.com/elsewhere"
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"a device pod with a queue":        {s.Pod("p").GPUs(1).Queue("default").Build(), []string{ours}},
		"of Berth's own scheduler name":    {s.Pod("p").GPUs(1).Queue("default").Scheduler("berth").Build(), []string{ours}},
		"device in an init container":      {s.Pod("p").InitGPUs(1).Queue("default").Build(), []string{ours}},
		"a gang member":                    {s.Pod("p").GPUs(1).Gang("g", 2).Build(), []string{ours}},
		"a gang member without a device":   {s.Pod("p").Gang("g", 2).Build(), []string{ours}},
		"a scheduler-plugins member":       {s.Pod("p").GPUs(1).Label("scheduling.x-k8s.io/pod-group", "g").Build(), []string{ours}},
		"an old scheduler-plugins member":  {s.Pod("p").GPUs(1).Label("pod-group.scheduling.sigs.k8s.io/name", "g").Build(), []string{ours}},
		"a foreign gate is kept":           {s.Pod("p").GPUs(1).Queue("default").Gate(foreign).Build(), []string{ours, foreign}},
		"the gate is there already":        {s.Pod("p").GPUs(1).Queue("default").Gated().Build(), []string{ours}},
		"both are there already":           {s.Pod("p").Gang("g", 2).Gate(foreign).Gated().Build(), []string{ours, foreign}},
		"no label":                         {s.Pod("p").GPUs(1).Build(), nil},
		"no label, a foreign gate":         {s.Pod("p").GPUs(1).Gate(foreign).Build(), []string{foreign}},
		"a queue, but no device":           {s.Pod("p").Queue("default").Build(), nil},
		"empty labels":                     {s.Pod("p").GPUs(1).Queue("").Label("berth.dev/gang", "").Build(), nil},
		"of another scheduler":             {s.Pod("p").GPUs(1).Gang("g", 2).Scheduler("elsewhere").Build(), nil},
		"bound at its creation, as static": {s.Pod("p").GPUs(1).Gang("g", 2).On("node-000").Build(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod, err := dryRun(s, c.pod)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(c.want)
			if got := gatesOf(pod); !slices.Equal(got, c.want) {
				t.Errorf("gates %v, want %v", got, c.want)
			}
		})
	}

	// Once the gate is off it stays off: the pod is scheduled, and later writes
	// to it pass.
	pod := s.Pod("one").GPUs(1).Queue("default").Create()
	if got := gatesOf(pod); !slices.Equal(got, []string{ours}) {
		t.Fatalf("gates %v", got)
	}
	s.RemoveGate(pod, ours)
	s.Relabel(pod, "example.com/touched", "true")
	s.AllBound(pod)
}

// Pods that a controller makes are gated as well.
func TestAdmissionPolicyGatesPodsOfJobs(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true, Controllers: true})
	s.Nodes(1).GPUs(8).Create()
	admissionGate(t, s)
	s.Pod("train").GPUs(1).Gang("train", 2).Job(2)
	bed.Eventually(t, bed.Timeout, "the Job's pods exist", func() error {
		pods, err := s.Client.CoreV1().Pods(metav1.NamespaceDefault).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if got := gatesOf(&pod); !slices.Equal(got, []string{bed.AdmissionGate}) {
				t.Fatalf("%s: gates %v", pod.Name, got)
			}
		}
		return bed.Unless(len(pods.Items) == 2, "%d pods", len(pods.Items))
	})
}

// The admission policy must not name a gate that Berth does not remove, and must
// let pods through when it cannot be evaluated.
func TestAdmissionPolicyFailsOpen(t *testing.T) {
	var policy admissionv1.MutatingAdmissionPolicy
	find(t, gatePolicy, "MutatingAdmissionPolicy", &policy)
	if policy.Spec.FailurePolicy == nil || *policy.Spec.FailurePolicy != admissionv1.Ignore {
		t.Error("a failing policy would refuse users' pods")
	}
	for _, mutation := range policy.Spec.Mutations {
		if mutation.PatchType != admissionv1.PatchTypeApplyConfiguration || !strings.Contains(mutation.ApplyConfiguration.Expression, bed.AdmissionGate) {
			t.Errorf("mutation %+v", mutation)
		}
	}
}

// Both files of admission policies repeat what the shipped policy.yaml says of
// schedulers and devices, and name the account that Berth has.
func TestAdmissionPoliciesKnowThePolicy(t *testing.T) {
	var config corev1.ConfigMap
	find(t, baseFolder+"/configmap.yaml", "ConfigMap", &config)
	var policy struct {
		SchedulerNames []string
		Resources      struct{ Devices []struct{ Name string } }
	}
	if err := yaml.Unmarshal([]byte(config.Data["policy.yaml"]), &policy); err != nil {
		t.Fatal(err)
	}
	list := func(names []string) string { return "['" + strings.Join(names, "', '") + "']" }
	var devices []string
	for _, device := range policy.Resources.Devices {
		devices = append(devices, device.Name)
	}
	for _, file := range []string{gatePolicy, tenantPolicies} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{list(policy.SchedulerNames), list(devices)} {
			if strings.Count(string(data), want) != 1 {
				t.Errorf("%s does not say %s once", file, want)
			}
		}
	}
	data, err := os.ReadFile(tenantPolicies)
	if err != nil {
		t.Fatal(err)
	}
	const account = "'system:serviceaccount:" + bed.SystemNamespace + ":berth'"
	if by, all := strings.Count(string(data), account), strings.Count(string(data), "request.userInfo.username"); by != all || by == 0 {
		t.Errorf("Berth's account is named %d of %d times", by, all)
	}
}

// `berth check` compares the lists of devices in files and in the cluster: a device
// that the policy has and an admission policy lacks is named with both.
func TestCheckComparesLists(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true})
	shipped := s.WriteFile("shipped.yaml", "apiVersion: berth.dev/v1alpha1\nkind: PolicyConfiguration\n")
	two := s.WriteFile("two.yaml", "apiVersion: berth.dev/v1alpha1\nkind: PolicyConfiguration\n"+
		"resources: {devices: [{name: nvidia.com/gpu}, {name: amd.com/gpu}]}\n")
	check := func(code int, says []string, args ...string) {
		t.Helper()
		out, got := s.TryBerth(append([]string{"check"}, args...)...)
		if got != code {
			t.Errorf("check %v ends with %d, want %d: %s", args, got, code, out)
		}
		for _, want := range says {
			if !strings.Contains(out, want) {
				t.Errorf("check %v does not say %q: %s", args, want, out)
			}
		}
	}
	// --manifests takes any number of files: what else there is comes before.
	check(0, []string{"admission policies: ok"}, shipped, "--manifests", gatePolicy, tenantPolicies)
	lacks := []string{"berth-releases-it] lacks amd.com/gpu", "variables[devices] lacks amd.com/gpu"}
	check(1, lacks, two, "--manifests", gatePolicy, tenantPolicies)
	check(1, []string{"managedResources", "amd.com/gpu"}, two, "--scheduler-config", "../../../manifests/scheduler/kube-scheduler-config.yaml")

	check(0, []string{"none that gates pods", "none that sends pods"}, shipped, "--live", "--kubeconfig", "ADMIN")
	needsGate(t)
	enforce(t, s, gatePolicy, gates(s))
	check(0, []string{"none that sends pods"}, shipped, "--live", "--kubeconfig", "ADMIN")
	keepApart(t, s)
	check(0, []string{"admission policies: ok"}, shipped, "--live", "--kubeconfig", "ADMIN")
	check(1, lacks, two, "--live", "--kubeconfig", "ADMIN")
}
