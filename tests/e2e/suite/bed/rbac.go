package bed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// rbacFiles is where the RBAC objects are that Berth ships, seen from the tests'
// folder, in which they run: they run Berth under these, and so prove them
// sufficient.
func rbacFiles() []string {
	base := filepath.Join("..", "..", "..", "manifests", "base")
	return []string{filepath.Join(base, "rbac.yaml"), filepath.Join(base, "ops-access.yaml")}
}

// installRBAC creates Berth's namespace, roles and bindings.
func (b *Bed) installRBAC(ctx context.Context) error {
	if err := b.ensureNamespace(ctx, SystemNamespace); err != nil {
		return err
	}
	for _, path := range rbacFiles() {
		if err := b.installRBACFile(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bed) installRBACFile(ctx context.Context, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		options := metav1.CreateOptions{}
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			_, err = b.Client.RbacV1().ClusterRoles().Create(ctx, o, options)
		case *rbacv1.ClusterRoleBinding:
			_, err = b.Client.RbacV1().ClusterRoleBindings().Create(ctx, o, options)
		case *rbacv1.Role:
			_, err = b.Client.RbacV1().Roles(orSystem(o.Namespace)).Create(ctx, o, options)
		case *rbacv1.RoleBinding:
			_, err = b.Client.RbacV1().RoleBindings(orSystem(o.Namespace)).Create(ctx, o, options)
		case *corev1.ServiceAccount, *corev1.Namespace:
			// The bed's token names the account; it need not exist.
		default:
			err = fmt.Errorf("unexpected %s", kind)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

// EvictByDelete gives Berth's account the right to delete pods, as
// manifests/components/evict-by-delete does, until the test ends.
func (s *Scenario) EvictByDelete() {
	s.T.Helper()
	s.component("evict-by-delete", authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods", Namespace: "default"})
}

// SuspendJobs gives it the right to suspend Jobs, as
// manifests/components/suspend-jobs does, until the test ends.
func (s *Scenario) SuspendJobs() {
	s.T.Helper()
	s.component("suspend-jobs", authorizationv1.ResourceAttributes{Verb: "patch", Group: "batch", Resource: "jobs", Namespace: "default"})
}

// component installs the rights of a component of manifests/, and waits until
// the one that matters is in force.
func (s *Scenario) component(name string, right authorizationv1.ResourceAttributes) {
	s.T.Helper()
	role := "berth-" + name
	s.T.Cleanup(func() {
		must(s.T, ignoreMissing(s.Client.RbacV1().ClusterRoleBindings().Delete(s.ctx, role, deleteNow)))
		must(s.T, ignoreMissing(s.Client.RbacV1().ClusterRoles().Delete(s.ctx, role, deleteNow)))
	})
	base := filepath.Dir(rbacFiles()[0])
	must(s.T, s.bed.installRBACFile(s.ctx, filepath.Join(base, "..", "components", name, "rbac.yaml")))
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + SystemNamespace + ":berth",
		ResourceAttributes: &right,
	}}
	Eventually(s.T, Timeout, "the right to "+right.Verb+" "+right.Resource+" is in force", func() error {
		answer, err := s.Client.AuthorizationV1().SubjectAccessReviews().Create(s.ctx, review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return Unless(answer.Status.Allowed, "not allowed")
	})
}

// orSystem fills in the namespace that kustomize would.
func orSystem(namespace string) string {
	if namespace == "" {
		return SystemNamespace
	}
	return namespace
}
