package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/restmapper"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"berth.dev/tests/e2e/suite/bed"
	"berth.dev/tests/e2e/suite/internal/stub"
)

// The shipped manifests and examples, from this folder.
const (
	baseFolder      = "../../../manifests/base"
	schedulerConfig = "../../../manifests/scheduler/kube-scheduler-config.yaml"
	exampleFolder   = "../../../examples"
	recordedCluster = exampleFolder + "/clusters/three-racks.yaml"
)

// object is one shipped object and the file it is in.
type object struct {
	*unstructured.Unstructured
	file string
}

func (o object) String() string { return fmt.Sprintf("%s: %s %s", o.file, o.GetKind(), o.GetName()) }

// readFile returns the objects of a YAML file; Lists are taken apart.
func readFile(t *testing.T, path string) (objects []object) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 1<<16)
	for {
		o := object{&unstructured.Unstructured{}, path}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		switch {
		case len(o.Object) == 0: // comments only
		case o.IsList():
			if err := o.EachListItem(func(item runtime.Object) error {
				objects = append(objects, object{item.(*unstructured.Unstructured), path})
				return nil
			}); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		default:
			objects = append(objects, o)
		}
	}
}

// readFolder returns the objects of all YAML files in a folder and below that
// are meant for an API server.
func readFolder(t *testing.T, folder string) (objects []object) {
	t.Helper()
	if err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".yaml" {
			objects = append(objects, readFile(t, path)...)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objects, func(o object) bool {
		return o.GetKind() == "Kustomization" || o.GetKind() == "PolicyConfiguration"
	})
}

// find returns the only object of a kind in a file.
func find(t *testing.T, path, kind string, into any) {
	t.Helper()
	var found []object
	for _, o := range readFile(t, path) {
		if o.GetKind() == kind {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s: %d objects of kind %s", path, len(found), kind)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(found[0].Object, into, true); err != nil {
		t.Fatalf("%s: %v", found[0], err)
	}
}

// applier does what `kubectl apply --server-side` does.
type applier struct{ mapper meta.RESTMapper }

func newApplier(t *testing.T) applier {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(control.Client.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	return applier{restmapper.NewDiscoveryRESTMapper(groups)}
}

// path is where the object is in the API.
func (a applier) path(o object) ([]string, error) {
	kind := o.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	path := []string{"/api", kind.Version}
	if kind.Group != "" {
		path = []string{"/apis", kind.Group, kind.Version}
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		path = append(path, "namespaces", namespace)
	}
	return append(path, mapping.Resource.Resource, o.GetName()), nil
}

// apply sends an object; fields that the API server does not know are errors.
func (a applier) apply(ctx context.Context, o object, dryRun bool) error {
	path, err := a.path(o)
	if err != nil {
		return err
	}
	body, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	request := control.Client.Discovery().RESTClient().Patch(types.ApplyPatchType).
		AbsPath(path...).
		Param("fieldManager", "manifests-test").Param("force", "true").Param("fieldValidation", "Strict")
	if dryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	return request.Body(body).Do(ctx).Error()
}

// delete removes an object that may be gone already.
func (a applier) delete(ctx context.Context, o object) error {
	path, err := a.path(o)
	if err != nil {
		return err
	}
	err = control.Client.Discovery().RESTClient().Delete().AbsPath(path...).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// The API server takes every manifest and example, with no field that it does
// not know. The recorded cluster goes through it too, without what only a server
// writes: it is in the shape that kubectl prints.
func TestManifestsAreAccepted(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true})
	for _, namespace := range []string{"notebooks", "product", "research"} {
		s.Namespace(namespace)
	}
	apply := newApplier(t)
	gated := servesGate(t)
	for _, folder := range []string{baseFolder, exampleFolder} {
		objects := readFolder(t, folder)
		if len(objects) == 0 {
			t.Errorf("%s: nothing there", folder)
		}
		for _, o := range objects {
			if !gated && strings.HasPrefix(o.GetKind(), "MutatingAdmissionPolicy") {
				continue // components/gate-in-template leaves it out
			}
			recorded := o.GetUID() != ""
			for _, field := range []string{"uid", "resourceVersion", "creationTimestamp"} {
				unstructured.RemoveNestedField(o.Object, "metadata", field)
			}
			// There is no such controller here to own anything.
			unstructured.RemoveNestedField(o.Object, "metadata", "ownerReferences")
			if err := apply.apply(s.Context(), o, true); err != nil {
				t.Errorf("%s: %v", o, err)
			}
			// Nor is a recorded object one that the cluster has not.
			if !recorded && o.GetKind() != "Namespace" && o.GetNamespace() != "" && o.GetNamespace() != bed.SystemNamespace {
				t.Errorf("%s: in namespace %s, which a fresh cluster has not", o, o.GetNamespace())
			}
		}
	}
}

// The kustomization names all files of its folder, and the service, the
// deployment, the policy and the rights refer to each other by the right names.
func TestManifestsFitTogether(t *testing.T) {
	var kustomization struct{ Resources []string }
	data, err := os.ReadFile(baseFolder + "/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &kustomization); err != nil {
		t.Fatal(err)
	}
	entries, err := filepath.Glob(baseFolder + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, path := range entries {
		if name := filepath.Base(path); name != "kustomization.yaml" {
			files = append(files, name)
		}
	}
	if slices.Sort(kustomization.Resources); !slices.Equal(kustomization.Resources, files) {
		t.Errorf("the kustomization names %v, the folder holds %v", kustomization.Resources, files)
	}

	var (
		deployment appsv1.Deployment
		service    corev1.Service
		account    corev1.ServiceAccount
		policy     corev1.ConfigMap
		budget     policyv1.PodDisruptionBudget
	)
	find(t, baseFolder+"/poddisruptionbudget.yaml", "PodDisruptionBudget", &budget)
	find(t, baseFolder+"/deployment.yaml", "Deployment", &deployment)
	find(t, baseFolder+"/service.yaml", "Service", &service)
	find(t, baseFolder+"/rbac.yaml", "ServiceAccount", &account)
	find(t, baseFolder+"/configmap.yaml", "ConfigMap", &policy)

	// The pods themselves are made without the leader's label.
	pod := deployment.Spec.Template
	if service.Spec.Selector[leaderLabel] != "true" || pod.Labels[leaderLabel] != "" {
		t.Errorf("the service selects %v, the pods have %v", service.Spec.Selector, pod.Labels)
	}
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value && key != leaderLabel {
			t.Errorf("the service selects %s=%s, the pods have %q", key, value, pod.Labels[key])
		}
	}
	if pod.Spec.ServiceAccountName != account.Name {
		t.Errorf("the pods' service account is %s", pod.Spec.ServiceAccountName)
	}
	if !maps.Equal(budget.Spec.Selector.MatchLabels, deployment.Spec.Selector.MatchLabels) {
		t.Errorf("the disruption budget is for %v", budget.Spec.Selector)
	}
	fields := map[string]string{}
	for _, variable := range pod.Spec.Containers[0].Env {
		fields[variable.Name] = variable.ValueFrom.FieldRef.FieldPath
	}
	if want := map[string]string{"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}; !maps.Equal(fields, want) {
		t.Errorf("the pod is told of itself: %v, want %v", fields, want)
	}
	args := pod.Spec.Containers[0].Args
	for _, want := range []string{"--leader-elect", "--leader-elect-namespace=" + account.Namespace, "--ops-auth=kubernetes", "--client-allowed-names=" + schedulerName} {
		if !slices.Contains(args, want) {
			t.Errorf("no %s in %v", want, args)
		}
	}
	if want := "--policy-configmap=" + policy.Namespace + "/" + policy.Name; !slices.Contains(args, want) {
		t.Errorf("no %s in %v", want, args)
	}
	// kubelets' probes share no connections with those who ask for pages.
	container := pod.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		if probe.HTTPGet.Scheme == corev1.URISchemeHTTPS || probe.HTTPGet.Port.StrVal != "health" {
			t.Errorf("a probe asks %s on port %s", probe.HTTPGet.Scheme, probe.HTTPGet.Port.StrVal)
		}
	}
	byName := map[string]bool{}
	for _, port := range pod.Spec.Containers[0].Ports {
		byName[port.Name] = slices.ContainsFunc(args, func(arg string) bool {
			return strings.HasSuffix(arg, fmt.Sprintf(":%d", port.ContainerPort))
		})
	}
	for _, port := range service.Spec.Ports {
		if !byName[port.TargetPort.StrVal] {
			t.Errorf("port %s of the service leads to no port that is listened on", port.Name)
		}
	}
	defaults, err := os.ReadFile(exampleFolder + "/policies/default.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if policy.Data["policy.yaml"] != string(defaults) {
		t.Error("the shipped policy is not examples/policies/default.yaml")
	}
}

// The extender entry that is shipped for kube-scheduler is the one that all
// tests here run with, and the real kube-scheduler schedules and binds by it.
func TestShippedExtenderEntry(t *testing.T) {
	data, err := os.ReadFile(schedulerConfig)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = yaml.ToJSON(data); err != nil {
		t.Fatal(err)
	}
	var shipped configv1.KubeSchedulerConfiguration
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&shipped); err != nil {
		t.Fatal(err)
	}
	if shipped.APIVersion != configv1.SchemeGroupVersion.String() || shipped.Kind != "KubeSchedulerConfiguration" {
		t.Errorf("is a %s %s", shipped.APIVersion, shipped.Kind)
	}
	if len(shipped.Extenders) != 1 || shipped.PercentageOfNodesToScore == nil || *shipped.PercentageOfNodesToScore != 100 {
		t.Fatalf("%d extenders, percentageOfNodesToScore %v", len(shipped.Extenders), shipped.PercentageOfNodesToScore)
	}
	entry := shipped.Extenders[0]
	if !strings.HasPrefix(entry.URLPrefix, "https://") || !entry.EnableHTTPS || entry.TLSConfig == nil ||
		entry.TLSConfig.Insecure || entry.TLSConfig.CAFile == "" || entry.TLSConfig.CertFile == "" || entry.TLSConfig.KeyFile == "" {
		t.Errorf("both sides must prove who they are: %s, %+v", entry.URLPrefix, entry.TLSConfig)
	}
	// The rest must be what the tests use; they talk on loopback, in plain.
	entry.EnableHTTPS, entry.TLSConfig = false, nil
	use := func(url string) configv1.Extender {
		entry.URLPrefix = url
		return entry
	}
	tested := bed.BerthExtender("http://berth", bed.Options{HTTPTimeout: entry.HTTPTimeout.Duration})
	if got, want := fmt.Sprintf("%+v", use("http://berth")), fmt.Sprintf("%+v", tested); got != want {
		t.Errorf("shipped entry\n%s, tested is\n%s", got, want)
	}

	extender := (&stub.Extender{Client: control.Client}).Start()
	defer extender.Close()
	s := control.Scenario(t, bed.Options{Extender: extender.URL(), Extenders: func(url string) []configv1.Extender {
		return []configv1.Extender{use(url)}
	}})
	s.Nodes(2).GPUs(8).Create()
	s.AllBound(s.Pod("one").GPUs(1).Create(), s.Pod("none").Create())
	if extender.Filters.Load() != 1 || extender.Binds.Load() != 1 {
		t.Errorf("filter was called %d times and bind %d times", extender.Filters.Load(), extender.Binds.Load())
	}
}

// The recorded cluster is one that could be: no node has more devices given
// away than it has, bound pods are on nodes that exist, and there is something
// waiting to ask about.
func TestRecordedClusterIsPossible(t *testing.T) {
	free, racks, waiting := map[string]int64{}, map[string]int{}, 0
	var pods []corev1.Pod
	for _, o := range readFile(t, recordedCluster) {
		var err error
		switch o.GetKind() {
		case "Node":
			var node corev1.Node
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &node)
			gpus := node.Status.Allocatable[bed.GPU]
			free[node.Name] = gpus.Value()
			racks[node.Labels["cloud.provider.com/topology-rack"]]++
		case "Pod":
			var pod corev1.Pod
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &pod)
			pods = append(pods, pod)
		}
		if err != nil {
			t.Fatalf("%s: %v", o, err)
		}
	}
	for _, pod := range pods {
		gpus := pod.Spec.Containers[0].Resources.Limits[bed.GPU]
		if pod.Spec.NodeName == "" {
			waiting++
			continue
		}
		if _, exists := free[pod.Spec.NodeName]; !exists {
			t.Errorf("%s is on %s, which does not exist", pod.Name, pod.Spec.NodeName)
		}
		free[pod.Spec.NodeName] -= gpus.Value()
	}
	for node, gpus := range free {
		if gpus < 0 {
			t.Errorf("%s: %d GPUs too many are given away", node, -gpus)
		}
	}
	if want := map[string]int{"rack-a": 8, "rack-b": 8, "rack-c": 8}; !maps.Equal(racks, want) {
		t.Errorf("nodes by rack: %v", racks)
	}
	if waiting == 0 || waiting == len(pods) {
		t.Errorf("%d of %d pods wait", waiting, len(pods))
	}
}
