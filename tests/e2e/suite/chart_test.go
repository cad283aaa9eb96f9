package suite

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/tests/e2e/suite/bed"
)

const (
	chartFolder     = "../../../manifests/charts/berth"
	componentFolder = "../../../manifests/components"
)

// parse reads the objects of a text.
func parse(t *testing.T, text string) []object {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return readFile(t, path)
}

// helm runs a command of Helm's on the chart without a cluster.
func helm(command []string, arguments ...string) (string, error) {
	return control.Helm(nil, append(append(command, chartFolder, "--kube-version", "v1.36.3"), arguments...)...)
}

// helmTemplate renders the chart for Berth's own namespace.
func helmTemplate(t *testing.T, arguments ...string) []object {
	t.Helper()
	out, err := helm([]string{"template", "berth"}, append(arguments, "-n", bed.SystemNamespace)...)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, out)
}

// byName makes objects comparable: what each is, without the hash in the name of
// the second scheduler's configuration, which Helm and kustomize compute each in
// its way.
func byName(t *testing.T, objects []object) map[string]map[string]any {
	t.Helper()
	hash := regexp.MustCompile(`"berth-scheduler-config-[0-9a-z]{10}"`)
	all := map[string]map[string]any{}
	for _, o := range objects {
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var content map[string]any
		if err := json.Unmarshal(hash.ReplaceAll(text, []byte(`"berth-scheduler-config"`)), &content); err != nil {
			t.Fatal(err)
		}
		name := content["metadata"].(map[string]any)["name"].(string)
		key := strings.Join([]string{o.GetKind(), o.GetNamespace(), name}, " ")
		if all[key] != nil {
			t.Errorf("two of %s", key)
		}
		all[key] = content
	}
	return all
}

// The chart is the manifests: each install renders what kustomize does, but for
// the Namespace, which has to be there before a release.
func TestChartRendersTheManifests(t *testing.T) {
	if out, err := helm([]string{"lint"}, "--strict"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for install, folder := range map[string]string{
		"":                 overlayFolder + "/second-scheduler",
		"second-scheduler": overlayFolder + "/second-scheduler",
		"kubeadm":          overlayFolder + "/kubeadm",
		"managed":          overlayFolder + "/managed",
		"base":             baseFolder,
	} {
		arguments := []string{"--set", "monitoring.enabled=true"}
		if install != "" {
			arguments = append(arguments, "--set", "install="+install)
		}
		rendered, err := bed.Render(folder)
		if err != nil {
			t.Fatal(err)
		}
		want := byName(t, append(parse(t, string(rendered)), monitoring(t)...))
		delete(want, "Namespace  "+bed.SystemNamespace)
		got := byName(t, helmTemplate(t, arguments...))
		if len(want) < 20 {
			t.Fatalf("%s: kustomize renders %v", install, slices.Sorted(maps.Keys(want)))
		}
		for key := range want {
			if !reflect.DeepEqual(got[key], want[key]) {
				t.Errorf("%q: %s: the chart has\n%s\nkustomize\n%s", install, key, asJSON(t, got[key]), asJSON(t, want[key]))
			}
			delete(got, key)
		}
		if len(got) > 0 {
			t.Errorf("%q: the chart alone has %v", install, slices.Sorted(maps.Keys(got)))
		}
	}
	for _, o := range helmTemplate(t) {
		if o.GroupVersionKind().Group == "monitoring.coreos.com" || o.GetName() == "berth-metrics" {
			t.Errorf("%s is there by default", o)
		}
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Values beside the defaults: what is said once comes to every place that must
// know it, and the policy and the scheduler's configuration fit each other.
func TestChartValues(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true})
	values := s.WriteFile("values.yaml", `
image: {repository: registry.example.com/berth, tag: v9}
imagePullSecrets: [mirror]
replicas: 3
resources: {limits: {memory: 2Gi}}
nodeSelector: {pool: system}
tolerations: [{key: system, operator: Exists}]
scheduler: {image: {repository: registry.example.com/kube-scheduler, tag: v1.36.9}}
schedulerNames: [berth, berth-night]
policy:
  resources: {devices: [{name: example.com/gpu}, {name: rdma/nic, kind: handles}]}
  queues:
  - {name: research, namespaces: ["*"], quota: {example.com/gpu: 16}}
tenants: {enabled: false}
monitoring: {enabled: true, labels: {release: prom}, namespace: observability}
clusterIP: 10.96.0.77
`)
	objects := helmTemplate(t, "-f", values)
	text := map[string]string{}
	for key, o := range byName(t, objects) {
		text[key] = asJSON(t, o)
	}
	for key, wanted := range map[string][]string{
		"Deployment berth-system berth": {`"image": "registry.example.com/berth:v9"`, `"replicas": 3`, `"memory": "2Gi"`,
			`"pool": "system"`, `"key": "system"`, `"name": "mirror"`},
		"Deployment berth-system berth-scheduler": {`"image": "registry.example.com/kube-scheduler:v1.36.9"`, `"replicas": 2`,
			`"pool": "system"`, `"key": "system"`, `"name": "mirror"`},
		"MutatingAdmissionPolicy  berth-admission-gate": {`object.spec.schedulerName in ['berth', 'berth-night']`,
			`['example.com/gpu', 'rdma/nic'].exists(device`},
		"NetworkPolicy berth-system berth":  {`"kubernetes.io/metadata.name": "observability"`},
		"ServiceMonitor berth-system berth": {`"release": "prom"`, `"app.kubernetes.io/part-of": "berth"`},
		"PrometheusRule berth-system berth": {`"release": "prom"`},
		"Service berth-system berth":        {`"clusterIP": "10.96.0.77"`},
	} {
		for _, want := range wanted {
			if !strings.Contains(text[key], want) {
				t.Errorf("%s has not %s:\n%s", key, want, text[key])
			}
		}
	}
	for key := range text {
		if strings.HasPrefix(key, "ValidatingAdmissionPolicy") {
			t.Errorf("%s is there", key)
		}
	}

	var policy, config corev1.ConfigMap
	pick(t, objects, "ConfigMap", "berth-policy", &policy)
	pick(t, objects, "ConfigMap", "berth-scheduler-config", &config)
	if !strings.Contains(policy.Data["policy.yaml"], "berth-night") || !strings.Contains(config.Data["kube-scheduler-config.yaml"], "schedulerName: berth-night") {
		t.Errorf("%s\n%s", policy.Data, config.Data)
	}
	s.RunBerth("check", s.WriteFile("policy.yaml", policy.Data["policy.yaml"]),
		"--scheduler-config", s.WriteFile("kube-scheduler-config.yaml", config.Data["kube-scheduler-config.yaml"]))

	// The lists of the tenants' policies, which were left out above.
	tenants := byName(t, helmTemplate(t, "-f", values, "--set", "tenants.enabled=true", "--set", "tenants.deviceClasses={gpu.example.com}", "--set", "admissionGate.enabled=false"))
	device := asJSON(t, tenants["ValidatingAdmissionPolicy  berth-device-pods"])
	if !strings.Contains(device, `"['berth', 'berth-night']"`) || !strings.Contains(device, `"['example.com/gpu', 'rdma/nic']"`) {
		t.Error(device)
	}
	if claims := asJSON(t, tenants["ValidatingAdmissionPolicy  berth-device-claims"]); !strings.Contains(claims, `"['gpu.example.com']"`) {
		t.Error(claims)
	}
	if tenants["MutatingAdmissionPolicy  berth-admission-gate"] != nil {
		t.Error("the gate is there")
	}

	// Another namespace: everything moves, names in certificates and CEL too.
	out, err := helm([]string{"template", "berth"}, "-n", "elsewhere", "--set", "monitoring.enabled=true")
	if err != nil || strings.Contains(out, bed.SystemNamespace) || !strings.Contains(out, "https://berth.elsewhere.svc:443") {
		t.Errorf("in another namespace: %v", err)
	}
}

// A value changes what it says, and nothing else: each is rendered alone and compared with
// the defaults, object by object and place by place.
func TestChartValuesChangeNothingElse(t *testing.T) {
	const pods, schedulerPods = "Deployment berth-system berth: spec.template.", "Deployment berth-system berth-scheduler: spec.template."
	const args = pods + "spec.containers.0.args"
	shipped := helmTemplate(t)
	var berth appsv1.Deployment
	pick(t, shipped, "Deployment", "berth", &berth)
	given := berth.Spec.Template.Spec.Containers[0].Args
	replaced := slices.DeleteFunc(slices.Clone(given), func(arg string) bool {
		return strings.HasPrefix(arg, "--log-format=") || arg == "--leader-elect"
	})
	if len(replaced) != len(given)-2 {
		t.Fatalf("shipped arguments are %q", given)
	}
	preferred := `{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[` +
		`{"preference":{"matchExpressions":[{"key":"pool","operator":"Exists"}]},"weight":1}]}}`
	inList := func(list []string, more ...string) string { return compact(t, append(slices.Clone(list), more...)) }
	for value, want := range map[string]map[string]string{
		"logLevel: 2": {args: inList(given, "-v", "2")},
		"logLevel: 0": {},
		`extraArgs: ["--decision-log=-", "--decision-log-inputs"]`: {args: inList(given, "--decision-log=-", "--decision-log-inputs")},
		// Flags that are shipped with another value: given twice, Berth would not start.
		`extraArgs: ["--log-format=text", "--leader-elect=false"]`: {args: inList(replaced, "--log-format=text", "--leader-elect=false")},
		"affinity: " + preferred:                                   {pods + "spec.affinity": preferred, schedulerPods + "spec.affinity": preferred},
		"priorityClassName: platform": {
			pods + "spec.priorityClassName": `"platform"`, schedulerPods + "spec.priorityClassName": `"platform"`,
			"ResourceQuota berth-system berth-critical-pods: spec.scopeSelector.matchExpressions.0.values": `["platform"]`,
		},
		`podAnnotations: {example.com/team: platform}`: {
			pods + "metadata.annotations": `{"example.com/team":"platform"}`, schedulerPods + "metadata.annotations": `{"example.com/team":"platform"}`,
		},
		"networkPolicy: {enabled: false}": {"NetworkPolicy berth-system berth": "none"},
	} {
		name, _, _ := strings.Cut(value, ":")
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
			before, after := byName(t, shipped), byName(t, helmTemplate(t, "-f", path))
			got := map[string]string{}
			for key := range after {
				if before[key] == nil {
					t.Errorf("%s is new", key)
				}
			}
			for key := range before {
				if after[key] == nil {
					got[key] = "none"
					continue
				}
				noteChanges(t, key+": ", before[key], after[key], got)
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s changes\n%s\nwanted\n%s", value, asJSON(t, got), asJSON(t, want))
			}
		})
	}

	// A component adds the objects of its folder, and changes nothing else.
	for _, component := range []string{"evict-by-delete", "suspend-jobs"} {
		want := byName(t, append(slices.Clone(shipped), readFile(t, filepath.Join(componentFolder, component, "rbac.yaml"))...))
		if got := byName(t, helmTemplate(t, "--set", "components={"+component+"}")); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", component, slices.Sorted(maps.Keys(got)))
		}
	}

	if out, err := helm([]string{"template", "berth"}, "--set", "components={suspend-jobs},tenants.enabled=false"); err == nil {
		t.Errorf("rights without the policies that limit them:\n%.200s", out)
	}

	// Every install can do without the NetworkPolicy, those that patch it too.
	for _, install := range []string{"base", "kubeadm", "managed"} {
		objects := byName(t, helmTemplate(t, "--set", "install="+install, "--set", "networkPolicy.enabled=false"))
		if len(objects) < 15 || objects["NetworkPolicy berth-system berth"] != nil {
			t.Errorf("%s: %v", install, slices.Sorted(maps.Keys(objects)))
		}
	}
}

// noteChanges says where two trees differ, and what is there in the second one. Lists
// whose lengths differ, or that hold no objects, are taken as a whole.
func noteChanges(t *testing.T, place string, before, after any, into map[string]string) {
	t.Helper()
	if reflect.DeepEqual(before, after) {
		return
	}
	if a, ok := before.(map[string]any); ok {
		if b, ok := after.(map[string]any); ok {
			keys := maps.Clone(a)
			maps.Copy(keys, b)
			for key := range keys {
				noteChanges(t, place+"."+key, a[key], b[key], into)
			}
			return
		}
	}
	if a, ok := before.([]any); ok {
		if b, ok := after.([]any); ok && len(a) == len(b) && len(a) > 0 && reflect.TypeOf(a[0]).Kind() == reflect.Map {
			for i := range a {
				noteChanges(t, fmt.Sprintf("%s.%d", place, i), a[i], b[i], into)
			}
			return
		}
	}
	into[strings.Replace(place, ": .", ": ", 1)] = compact(t, after)
}

func compact(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What is misspelled or impossible is refused before anything is installed. That
// the policy is held to config/schema.json is compared in tests/unit/config.
func TestChartRefusesWrongValues(t *testing.T) {
	for _, wrong := range []string{
		"imagee=x", "image.tagg=x", "install=everywhere", "replicas=0", "replicas=two", "monitoring.enabld=true", "tenants=false",
		"scheduler.image.tag=", "policy.schedulerNames={x}", "policy.modus=enforce", "policy.mode=off",
		"policy.queues[0].name=No_Label", "policy.gang.maxStanding=0", "resources.memory=1Gi", "schedulerNames=berth", "clusterIP=here",
		"admissionGate=null", "logLevel=6", "logLevel=debug", "extraArgs={-v}", "extraArgs={decision-log}", "extraArgs=--decision-log=-",
		"affinity.nodeAfinity.x=y", "affinity={x}", "priorityClassName=", "priorityClassName=No_Class", "podAnnotations.number=1",
		"components={everything}", "components=suspend-jobs", "networkPolicy=false", "networkPolicy.enabled=no", "networkPolicy.enable=true",
	} {
		if out, err := helm([]string{"template", "berth"}, "--set", wrong); err == nil || !strings.Contains(err.Error(), "values don't meet") {
			t.Errorf("%s: %v\n%.200s", wrong, err, out)
		}
	}
}

// Berth by Helm, from nothing: the release is installed as docs say, runs a gang
// through its own scheduler, is upgraded and rolled back, and leaves nothing of itself
// behind.
func TestChartFromNothing(t *testing.T) {
	needsGate(t)
	s := control.Scenario(t, bed.Options{NoExtender: true, OpsTLS: true})
	s.Nodes(2).GPUs(8).Create()
	withoutRights(t, s)
	label := func(standard string) {
		patch := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":` + standard + `}}}`
		if _, err := s.Client.CoreV1().Namespaces().Patch(s.Context(), bed.SystemNamespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	label(`"restricted"`)
	t.Cleanup(func() { label("null") })

	inCluster := func(arguments ...string) string {
		t.Helper()
		out, err := control.Helm(s, append(arguments, "-n", bed.SystemNamespace)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	inCluster("install", "berth", chartFolder)
	installed := true
	t.Cleanup(func() {
		if installed {
			inCluster("uninstall", "berth")
		}
	})
	objects := parse(t, inCluster("get", "manifest", "berth"))
	untilInForce(t, true, gates(s))
	untilInForce(t, true, apart(t, s))
	startSecondScheduler(t, s, objects)

	mine := func(name string) *bed.PodBuilder { return s.Pod(name).GPUs(4).Scheduler("berth").Queue("default") }
	gang := mine("g").Gang("g", 4).CreateN(4)
	late := mine("late").Gang("late", 2).CreateN(2)
	s.AllBound(gang...)
	if got := gatesOf(late[0]); !slices.Equal(got, []string{bed.AdmissionGate}) || s.Now(gang[0]).Annotations["berth.dev/plan"] == "" {
		t.Errorf("gates %v, plan %q", got, s.Now(gang[0]).Annotations["berth.dev/plan"])
	}
	s.WhyIs(late[0], "InsufficientDevices")

	// An upgrade to another policy is taken by the running Berth: break-glass here,
	// which opens the gates of what waits.
	inCluster("upgrade", "berth", chartFolder, "--set", "policy.mode=passthrough")
	bed.Eventually(t, bed.Timeout, "the gates are open", func() error {
		return bed.Unless(len(gatesOf(s.Now(late[0]))) == 0, "gated")
	})

	// A rollback brings the policy before it back, and gates hold again.
	inCluster("rollback", "berth")
	bed.Eventually(t, bed.Timeout, "the policy before is in force", func() error {
		return bed.Unless(strings.Contains(string(s.Get("/configz")), "mode: enforce"), "passthrough")
	})
	again := mine("again").Gang("again", 2).Create()
	s.WhyIs(again, "WaitingForMembers")
	if got := gatesOf(s.Now(again)); !slices.Equal(got, []string{bed.AdmissionGate}) {
		t.Errorf("gates %v", got)
	}

	inCluster("uninstall", "berth")
	installed = false
	untilInForce(t, false, gates(s))
	apply := newApplier(t)
	for _, o := range objects {
		path, err := apply.path(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Client.Discovery().RESTClient().Get().AbsPath(path...).Do(s.Context()).Error(); !apierrors.IsNotFound(err) {
			t.Errorf("%s is still there: %v", o, err)
		}
	}
	releases := inCluster("list", "--all", "--short")
	if secrets, err := s.Client.CoreV1().Secrets(bed.SystemNamespace).List(s.Context(), metav1.ListOptions{}); err != nil || len(secrets.Items) > 0 || releases != "" {
		t.Errorf("%v, releases %q, %v", secrets, releases, err)
	}
}

// withoutRights takes away what the bed has installed of Berth's, until the test
// ends.
func withoutRights(t *testing.T, s *bed.Scenario) {
	t.Helper()
	apply := newApplier(t)
	objects := append(readFile(t, baseFolder+"/rbac.yaml"), readFile(t, baseFolder+"/ops-access.yaml")...)
	objects = slices.DeleteFunc(objects, func(o object) bool { return o.GetKind() == "ServiceAccount" })
	t.Cleanup(func() {
		for _, o := range objects {
			if err := apply.apply(s.Context(), o, false); err != nil {
				t.Errorf("%s: %v", o, err)
			}
		}
		untilInForce(t, false, apart(t, s)) // asked for with these rights
	})
	for _, o := range objects {
		if err := apply.delete(s.Context(), o); err != nil {
			t.Fatalf("%s: %v", o, err)
		}
	}
}
