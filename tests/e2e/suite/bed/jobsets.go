package bed

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// JobSets is the resource.
var JobSets = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}

// Dynamic is a client for resources that Client does not know, with all rights.
func (s *Scenario) Dynamic() dynamic.Interface {
	s.T.Helper()
	client, err := dynamic.NewForConfig(s.bed.adminConfig())
	must(s.T, err)
	return client
}

// StartJobSetController runs the JobSet controller until the test ends, with the
// webhooks that it has in a cluster. The CustomResourceDefinition stays.
// REQUIRES: Options.Jobs.
func (s *Scenario) StartJobSetController() {
	s.T.Helper()
	hooks, err := freePort()
	must(s.T, err)
	health, err := freePort()
	must(s.T, err)
	issuer := NewIssuer(s.T)
	certificate := NewMount(s.T, issuer.Issue(Leaf{}), issuer.CA())
	config := filepath.Join(s.dir, "jobset.yaml")
	must(s.T, os.WriteFile(config, fmt.Appendf(nil, `apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: %q}
webhook: {host: %q, port: %d, certDir: %q}
`, Address(health), loopback, hooks, certificate.dir), 0o644))

	client := s.Dynamic()
	s.create(client, s.bed.program("jobset-crd.yaml"), func(*unstructured.Unstructured) {})
	Eventually(s.T, Timeout, "JobSets are served", func() error {
		_, err := client.Resource(JobSets).List(s.ctx, metav1.ListOptions{})
		return err
	})
	controller, err := startProcess(s.dir, "jobset", s.bed.program("jobset"),
		"--kubeconfig="+s.bed.file("admin.kubeconfig"), "--config="+config)
	must(s.T, err)
	s.T.Cleanup(controller.Kill)
	must(s.T, controller.waitReady(Timeout, func() error {
		_, err := get(Loopback("http", health, "/readyz"))
		return err
	}))
	s.create(client, s.bed.program("jobset-webhooks.yaml"), func(object *unstructured.Unstructured) {
		list, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, item := range list {
			hook := item.(map[string]any)
			path, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "path")
			hook["clientConfig"] = map[string]any{"url": Loopback("https", hooks, path), "caBundle": base64.StdEncoding.EncodeToString(issuer.CA())}
		}
		must(s.T, unstructured.SetNestedSlice(object.Object, list, "webhooks"))
	})
	s.T.Cleanup(func() {
		must(s.T, client.Resource(JobSets).Namespace(metav1.NamespaceDefault).DeleteCollection(s.ctx, deleteNow, metav1.ListOptions{}))
	})
	// The controller says that it is ready before its webhooks answer on all their paths.
	Eventually(s.T, Timeout, "JobSets are admitted", func() error {
		return s.Pod("probe").createJobSet(1, 1, 0, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	})
}

// create makes the objects of a file, each changed before that. Webhooks are
// deleted when the test ends: nobody answers them any more.
func (s *Scenario) create(client dynamic.Interface, file string, change func(*unstructured.Unstructured)) {
	s.T.Helper()
	data, err := os.ReadFile(file)
	must(s.T, err)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return
		} else {
			must(s.T, err)
		}
		change(object)
		kind := object.GroupVersionKind()
		resource := client.Resource(map[string]schema.GroupVersionResource{
			"CustomResourceDefinition":       kind.GroupVersion().WithResource("customresourcedefinitions"),
			"MutatingWebhookConfiguration":   kind.GroupVersion().WithResource("mutatingwebhookconfigurations"),
			"ValidatingWebhookConfiguration": kind.GroupVersion().WithResource("validatingwebhookconfigurations"),
		}[kind.Kind])
		if _, err := resource.Create(s.ctx, object, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			must(s.T, err)
		}
		if kind.Kind != "CustomResourceDefinition" {
			s.T.Cleanup(func() {
				must(s.T, ignoreMissing(resource.Delete(s.ctx, object.GetName(), deleteNow)))
			})
		}
	}
}

// PatchJobSetAsBerth patches a JobSet of the namespace default with Berth's rights.
func (s *Scenario) PatchJobSetAsBerth(name, patch string) error {
	s.T.Helper()
	config := s.bed.adminConfig()
	config.BearerToken = s.bed.berthToken
	client, err := dynamic.NewForConfig(config)
	must(s.T, err)
	_, err = client.Resource(JobSets).Namespace(metav1.NamespaceDefault).
		Patch(s.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// JobSet makes a JobSet of Jobs with so many such pods each and that backoffLimit,
// which is never restarted. It returns the names of its Jobs.
func (b *PodBuilder) JobSet(jobs, pods, retries int32) (names []string) {
	b.s.T.Helper()
	must(b.s.T, b.createJobSet(jobs, pods, retries, metav1.CreateOptions{}))
	for i := range jobs {
		names = append(names, fmt.Sprintf("%s-workers-%d", b.pod.Name, i))
	}
	return names
}

// createJobSet asks the API server once.
func (b *PodBuilder) createJobSet(jobs, pods, retries int32, options metav1.CreateOptions) error {
	b.s.T.Helper()
	template := b.template()
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&batchv1.JobSpec{
		Completions: &pods, Parallelism: &pods, BackoffLimit: &retries, Template: template,
	})
	must(b.s.T, err)
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": JobSets.GroupVersion().String(),
		"kind":       "JobSet",
		"metadata":   map[string]any{"name": b.pod.Name},
		"spec": map[string]any{
			"failurePolicy": map[string]any{"maxRestarts": int64(0)},
			"replicatedJobs": []any{map[string]any{
				"name": "workers", "replicas": int64(jobs), "template": map[string]any{"spec": spec},
			}},
		},
	}}
	_, err = b.s.Dynamic().Resource(JobSets).Namespace(b.pod.Namespace).Create(b.s.ctx, set, options)
	return err
}
