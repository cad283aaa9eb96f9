package bed

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceAccountIssuer is what the API server calls itself in tokens.
const ServiceAccountIssuer = "https://kubernetes.default.svc"

// Account is a service account, as which a test acts.
type Account struct {
	s      *Scenario
	object *corev1.ServiceAccount
}

// Account makes a service account without any rights. It is gone with the test.
func (s *Scenario) Account(namespace, name string) *Account {
	s.T.Helper()
	accounts := s.Client.CoreV1().ServiceAccounts(namespace)
	object, err := accounts.Create(s.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(s.T, err)
	s.T.Cleanup(func() {
		if err := accounts.Delete(s.ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.T.Error(err)
		}
	})
	return &Account{s, object}
}

// DeleteAccount deletes a service account, and with it its tokens.
func (s *Scenario) DeleteAccount(namespace, name string) {
	s.T.Helper()
	must(s.T, s.Client.CoreV1().ServiceAccounts(namespace).Delete(s.ctx, name, metav1.DeleteOptions{}))
}

func (a *Account) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: "ServiceAccount", Name: a.object.Name, Namespace: a.object.Namespace}}
}

func roleRef(clusterRole string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole}
}

// May gives the account a ClusterRole in all of the cluster, until the test ends.
func (a *Account) May(clusterRole string) *Account {
	a.s.T.Helper()
	bindings := a.s.Client.RbacV1().ClusterRoleBindings()
	name := "test-" + a.object.Name + "-" + clusterRole
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: roleRef(clusterRole), Subjects: a.subjects()}
	_, err := bindings.Create(a.s.ctx, binding, metav1.CreateOptions{})
	must(a.s.T, err)
	a.s.T.Cleanup(func() { must(a.s.T, ignoreMissing(bindings.Delete(a.s.ctx, name, metav1.DeleteOptions{}))) })
	return a
}

// MayIn gives the account a ClusterRole in one namespace.
func (a *Account) MayIn(namespace, clusterRole string) *Account {
	a.s.T.Helper()
	bindings := a.s.Client.RbacV1().RoleBindings(namespace)
	name := "test-" + a.object.Name
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: roleRef(clusterRole), Subjects: a.subjects()}
	_, err := bindings.Create(a.s.ctx, binding, metav1.CreateOptions{})
	must(a.s.T, err)
	a.s.T.Cleanup(func() { must(a.s.T, ignoreMissing(bindings.Delete(a.s.ctx, name, metav1.DeleteOptions{}))) })
	return a
}

// Token is one that the API server issues.
func (a *Account) Token() string {
	a.s.T.Helper()
	request, err := a.s.Client.CoreV1().ServiceAccounts(a.object.Namespace).CreateToken(a.s.ctx, a.object.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(a.s.T, err)
	return request.Status.Token
}

// Kubeconfig is the path of a file with which the account goes straight to the API
// server.
func (a *Account) Kubeconfig() string {
	a.s.T.Helper()
	path, err := a.s.bed.writeKubeconfig("account-"+a.object.Name, a.s.bed.apiURL(), a.Token())
	must(a.s.T, err)
	return path
}

// ClusterRole makes one with these rules, until the test ends, and returns its name.
func (s *Scenario) ClusterRole(name string, rules ...rbacv1.PolicyRule) string {
	s.T.Helper()
	roles := s.Client.RbacV1().ClusterRoles()
	_, err := roles.Create(s.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	must(s.T, err)
	s.T.Cleanup(func() { must(s.T, ignoreMissing(roles.Delete(s.ctx, name, deleteNow))) })
	return name
}

// TokenUntil is signed here with the API server's key, since it issues none that
// lives for less than 10 minutes. It accepts tokens for a minute after their end.
func (a *Account) TokenUntil(end time.Time) string {
	a.s.T.Helper()
	data, err := os.ReadFile(a.s.bed.file("service-account.key"))
	must(a.s.T, err)
	block, _ := pem.Decode(data)
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	must(a.s.T, err)
	part := func(value any) string {
		text, err := json.Marshal(value)
		must(a.s.T, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]any{"alg": "RS256"}) + "." + part(map[string]any{
		"iss": ServiceAccountIssuer,
		"aud": []string{ServiceAccountIssuer},
		"sub": fmt.Sprintf("system:serviceaccount:%s:%s", a.object.Namespace, a.object.Name),
		"iat": end.Add(-time.Hour).Unix(),
		"nbf": end.Add(-time.Hour).Unix(),
		"exp": end.Unix(),
		"kubernetes.io": map[string]any{
			"namespace":      a.object.Namespace,
			"serviceaccount": map[string]any{"name": a.object.Name, "uid": a.object.UID},
		},
	})
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	must(a.s.T, err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}
