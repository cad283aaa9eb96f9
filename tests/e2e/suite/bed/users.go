package bed

import (
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// tenantRules are all that anybody could be given of pods in a namespace, and
// more than the role admin has: subresources that only kubelets and schedulers
// need as a rule.
var tenantRules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"pods", "pods/status", "pods/binding", "bindings"}, Verbs: []string{"*"}},
	{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"*"}},
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims", "resourceclaimtemplates"}, Verbs: []string{"*"}},
}

// Tenant makes a namespace with an ordinary user, who has all rights to the
// pods, Jobs and claims in it and none elsewhere, and returns that user's client.
func (s *Scenario) Tenant(namespace string) kubernetes.Interface {
	s.T.Helper()
	s.Namespace(namespace)
	const name = "tenant"
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	accounts, rbac := s.Client.CoreV1().ServiceAccounts(namespace), s.Client.RbacV1()
	s.T.Cleanup(func() {
		for _, err := range []error{
			rbac.RoleBindings(namespace).Delete(s.ctx, name, deleteNow),
			rbac.Roles(namespace).Delete(s.ctx, name, deleteNow),
			accounts.Delete(s.ctx, name, deleteNow),
		} {
			must(s.T, ignoreMissing(err))
		}
	})
	_, err := accounts.Create(s.ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	must(s.T, err)
	_, err = rbac.Roles(namespace).Create(s.ctx, &rbacv1.Role{ObjectMeta: meta, Rules: tenantRules}, metav1.CreateOptions{})
	must(s.T, err)
	_, err = rbac.RoleBindings(namespace).Create(s.ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
	}, metav1.CreateOptions{})
	must(s.T, err)
	token, err := accounts.CreateToken(s.ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(s.T, err)
	config := s.bed.adminConfig()
	config.BearerToken = token.Status.Token
	client := clientOf(s.T, config)
	Eventually(s.T, Timeout, "the tenant's rights are in force", func() error {
		_, err := client.CoreV1().Pods(namespace).List(s.ctx, metav1.ListOptions{})
		return err
	})
	return client
}

// BerthClient has Berth's rights and goes straight to the API server.
func (b *Bed) BerthClient(t testing.TB) kubernetes.Interface {
	t.Helper()
	config := b.adminConfig()
	config.BearerToken = b.berthToken
	return clientOf(t, config)
}

// KubeletClient is a client of a node's kubelet, with the rights that the API server
// gives to them by default.
func (s *Scenario) KubeletClient(node string) kubernetes.Interface {
	s.T.Helper()
	const name, group = "system:node", "system:nodes"
	bindings := s.Client.RbacV1().ClusterRoleBindings()
	s.T.Cleanup(func() { must(s.T, ignoreMissing(bindings.Delete(s.ctx, "bed-nodes", deleteNow))) })
	_, err := bindings.Create(s.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bed-nodes"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}, metav1.CreateOptions{})
	must(s.T, err)
	config := s.bed.adminConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:node:%s", node), Groups: []string{group, "system:authenticated"}}
	client := clientOf(s.T, config)
	Eventually(s.T, Timeout, "the kubelet's rights are in force", func() error {
		_, err := client.CoreV1().Pods("").List(s.ctx, metav1.ListOptions{Limit: 1})
		return err
	})
	return client
}

func clientOf(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}
